"""The passes over packed batches as CUDA graphs.

A pass of the Transformer starts some thousand operations. On a fast GPU, the program takes longer to start them one by
one than the GPU to compute them, and as long for a small batch as for a large one. Packed batches all have one shape,
so each pass starts the same operations: they are recorded once, and then started together.
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
    """`Objective.packed_states` in training mode, forward and backward, as CUDA graphs: for all batches of one shape.

    The graphs read the weights where they are now, and keep the memory that a pass needs until they are deleted. The
    loss is not part of them: the number of tokens that it reads is not the same in each batch.
    """

    def __init__(self, objective: Objective, example: PackedBatch):
        """The example is on the GPU; it is overwritten."""
        self._weights = [weight for weight in objective.model.parameters() if weight.requires_grad]
        self._example = example
        found: list[Tensor] = []

        def states(numbers: Tensor, *_: Tensor) -> Tensor:
            found[:] = [objective.packed_states(PackedBatch(numbers, example.target_tokens, example.longest))]
            return found[0]

        # The weights are arguments, so that their gradients are outputs of the backward graph.
        arguments = (example.numbers, *self._weights)
        self._states: Any = torch.cuda.make_graphed_callables(states, arguments, allow_unused_input=True)
        # Its autograd graph sums gradients on the stream of the recording. Without it, they are summed where training
        # runs, and nothing waits for another stream.
        if not found[0]._is_view():
            found[0].detach_()

    def fits(self, batch: PackedBatch) -> bool:
        """Whether the batch has the shape that was recorded."""
        return batch.numbers.shape == self._example.numbers.shape and batch.longest == self._example.longest

    def __call__(self, batch: PackedBatch) -> Tensor:
        states: Tensor = self._states(batch.numbers, *_WithOwnGradients.apply(*self._weights))  # type: ignore[no-untyped-call]
        return states


class _WithOwnGradients(torch.autograd.Function):
    """The weights themselves; their gradients are copied: those of the graph are overwritten by the next pass."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return tuple(weight.view_as(weight) for weight in weights)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return copied_together(gradients)


def record(objective: Objective, example: PackedBatch) -> bool:
    """Record the passes for batches of the example's shape, and use them from now on. If that does not work here,
    logs why and returns False. Raises what a fault of the device raises, after which nothing works there.

    Call it when nothing of a pass is compiled for the first time any more, and before DistributedDataParallel.
    """
    device = objective.model.output_weight.device
    if hasattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch"):  # since PyTorch 2.10
        # Where gradients are summed on the stream of the recording, the engine waits for it: right, and hardly slower.
        torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)
    try:
        objective.recorded = RecordedStates(objective.train(), example.to(device))
    except Exception as error:  # of many types: an operation that cannot be recorded, too little memory
        if is_device_fault(error):
            raise
        log.warning("training.compile: a CUDA graph does not work here, going on without it (%s)", first_line(error))
        return False
    return True
