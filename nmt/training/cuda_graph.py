"""The passes over packed batches as CUDA graphs.

A pass of the Transformer starts about a thousand operations. On a fast GPU, the program takes longer to start them one
by one than the GPU takes to compute them, and a small batch takes as long as a large one. Packed batches all have one
shape, so each pass starts the same operations: they are recorded once, and then started together.
"""

import logging
from typing import Any

import torch
from torch import Tensor

from nmt.data.batches.packing import PackedBatch
from nmt.device import is_device_fault
from nmt.errors import first_line
from nmt.training.objective import Objective, copied_together

log = logging.getLogger("nmt")


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
        # The autograd graph of the recorded states sums gradients on the stream of the recording. After detaching them,
        # gradients are summed on the stream of the training, and nothing waits for another stream.
        if not recorded[0]._is_view():
            recorded[0].detach_()

    def fits(self, batch: PackedBatch) -> bool:
        """Whether the batch has the recorded shape."""
        return batch.numbers.shape == self._example.numbers.shape and batch.longest == self._example.longest

    def __call__(self, batch: PackedBatch) -> Tensor:
        states: Tensor = self._states(batch.numbers, *_WithOwnGradients.apply(*self._weights))  # type: ignore[no-untyped-call]
        return states


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
    if hasattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch"):  # since PyTorch 2.10
        # If gradients are summed on the stream of the recording, the engine waits for it. This is correct, and hardly
        # slower.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    try:
        objective.recorded = RecordedStates(objective.train(), example.to(device))
    except Exception as error:  # of many types: an operation that cannot be recorded, too little memory
        if is_device_fault(error):
            raise
        log.warning("training.packed: a CUDA graph does not work here, continuing without it (%s)", first_line(error))
        return False
    return True
