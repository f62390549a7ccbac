"""The passes over packed batches as CUDA graphs, or a whole step with its optimizer as one graph.

A pass of the Transformer starts about a thousand operations. On a fast GPU, the program takes longer to start them one
by one than the GPU takes to compute them, and a small batch takes as long as a large one. Packed batches all have one
shape, so each pass starts the same operations: they are recorded once, and then started together.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nmt.data.batches.packing import PackedBatch
from nmt.device import continuing_if_recording_fails
from nmt.models.translation_model import TranslationModel
from nmt.training.objective import Objective, copied_together

_STEPS_BEFORE_RECORDING = 3


class RecordedStates:
    """`Objective.packed_states` in training mode, forward and backward, as CUDA graphs for all batches of one shape.

    The graphs read the weights at their present addresses, and keep the memory of a pass until they are deleted. The
    loss is not part of the graphs, because the number of its tokens differs between batches.
    """

    def __init__(self, objective: Objective, example: PackedBatch):
        """example: a batch on the GPU; it is overwritten."""
        self._weights = [weight for weight in objective.model.parameters() if weight.requires_grad]
        self._example = example
        recorded: list[Tensor] = []  # the states of the newest call

        def states(numbers: Tensor, *_: Tensor) -> Tensor:
            recorded[:] = [objective.packed_states(PackedBatch(numbers, example.target_tokens, example.longest))]
            return recorded[0]

        # The weights are arguments, so that their gradients are outputs of the backward graph.
        arguments = (example.numbers, *self._weights)
        self._states: Any = torch.cuda.make_graphed_callables(states, arguments, allow_unused_input=True)
        self._buffers = list(objective.model.buffers())  # kept, because a table of positions is replaced as it grows
        # The autograd graph of the recorded states sums gradients on the stream of the recording. After detaching them,
        # gradients are summed on the stream of the training, and nothing waits for another stream.
        if not recorded[0]._is_view():
            recorded[0].detach_()

    def fits(self, batch: PackedBatch) -> bool:
        """Whether the batch has the recorded shape, and is not itself recorded as a part of a step."""
        return batch.target_tokens is not None and batch.has_shape_of(self._example)

    def __call__(self, batch: PackedBatch) -> Tensor:
        states: Tensor = self._states(batch.numbers, *_WithOwnGradients.apply(*self._weights))  # type: ignore[no-untyped-call]
        return states


class RecordedStep:
    """A step of one micro-batch as one CUDA graph, for all batches of one shape.

    The first steps run the operations one by one: kernels are compiled, and the optimizer's state is allocated. The
    next step records them, and later steps replay the graph. It reads and writes the weights, the optimizer's state and
    the sums of the losses at their addresses at that time.
    """

    def __init__(
        self,
        learn: Callable[[PackedBatch, Tensor, Tensor], Tensor],
        example: PackedBatch,
        model: TranslationModel,
        optimizer: torch.optim.Optimizer,
    ):
        """learn: runs a step of a batch with a factor of its loss and a learning rate, and returns the gradient's norm.
        example: a batch on the GPU; it is overwritten."""
        _allow_gradients_of_another_stream()
        self._learn, self._model, self._optimizer = learn, model, optimizer
        # The inputs of every step. The number of target tokens is not recorded.
        self._batch = PackedBatch(example.numbers, None, example.longest)
        self._share, self._rate, self._norm = torch.zeros(3, device=example.numbers.device)
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self._graph: torch.cuda.CUDAGraph | None = None
        self._steps_before = _STEPS_BEFORE_RECORDING

    @property
    def failed(self) -> bool:
        """Whether the step cannot be recorded. A warning has said why, and the operations were started one by one."""
        return self._steps_before < 0

    def fits(self, batch: PackedBatch) -> bool:
        """Whether the batch has the recorded shape."""
        return batch.has_shape_of(self._batch)

    def __call__(self, batch: PackedBatch, share: float, learning_rate: float) -> Tensor:
        """Run a step. Returns the gradient's norm."""
        self._batch.numbers.copy_(batch.numbers, non_blocking=True)
        self._share.fill_(share)
        self._rate.fill_(learning_rate)
        if self._graph is None and self._steps_before == 0:
            self._record()
        if self._graph is not None:
            self._graph.replay()
            return self._norm
        self._steps_before -= 1
        current = torch.cuda.current_stream()
        self._stream.wait_stream(current)
        with torch.cuda.stream(self._stream):  # the recording's stream, as PyTorch asks for
            norm = self._learn(self._batch, self._share, self._rate)
        current.wait_stream(self._stream)
        return norm

    def _record(self) -> None:
        """Record the step without running it."""
        graph = torch.cuda.CUDAGraph()
        message = "training.packed: a whole step does not work as a CUDA graph here, recording its passes instead"
        with continuing_if_recording_fails(message, self._share.device):
            # Other threads put the next batches into page-locked memory meanwhile.
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                self._norm = self._learn(self._batch, self._share, self._rate)
            self._graph, self._buffers = graph, list(self._model.buffers())  # kept, as in RecordedStates
        self._optimizer.zero_grad(set_to_none=True)


class _WithOwnGradients(torch.autograd.Function):
    """Returns the weights unchanged, and copies their gradients, because the next pass overwrites the graph's own."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(weight.view_as(weight) for weight in weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return copied_together(gradients)


def record(objective: Objective, example: PackedBatch) -> bool:
    """Record the passes for batches of the example's shape, and use the graphs in all later steps. Returns whether this
    worked; if not, a warning says why. A device fault is raised again, because the device cannot be used after it.

    Call it after the layers are compiled, and before DistributedDataParallel. Triton compiles its kernels in the passes
    that PyTorch runs before it records.
    """
    device = objective.model.output_weight.device
    _allow_gradients_of_another_stream()
    message = "training.packed: a CUDA graph does not work here, continuing without it"
    with continuing_if_recording_fails(message, device):
        objective.recorded = RecordedStates(objective.train(), example.to(device))
    return objective.recorded is not None


def _allow_gradients_of_another_stream() -> None:
    """Gradients may be summed on the stream of the recording: the engine then waits for it. This is correct, and hardly
    slower, but PyTorch would warn of it."""
    if hasattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch"):  # since PyTorch 2.10
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
