"""Inputs of the loss, computed with its Triton kernel: on a GPU, or, as a program of its own, by Triton's interpreter.

`python -m helpers.loss_kernel INPUTS RESULTS`, with TRITON_INTERPRET=1: the interpreter has to be chosen before Triton
is imported.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor

from nmt.training import loss

CHUNK_ROWS = 5


@dataclass(frozen=True)
class Rows:
    """For the kernel alone: logits [n, V], target ids [n]."""

    logits: Tensor
    target: Tensor
    smoothing: float

    def computed(self) -> dict[str, Tensor]:
        """What the kernel returns: nll, of_target, difference; `nll alone` and `untouched` if no gradient is needed."""
        from nmt.training import triton_loss

        confidence, uniform = 1 - self.smoothing, self.smoothing / self.logits.shape[1]
        untouched = self.logits.clone()
        alone, _, _ = triton_loss.difference(untouched, self.target, confidence, uniform, False)
        nll, of_target, difference = triton_loss.difference(self.logits.clone(), self.target, confidence, uniform, True)
        return {
            "nll": nll, "of_target": of_target, "difference": difference, "nll alone": alone, "untouched": untouched,
        }  # fmt: skip


@dataclass(frozen=True)
class Whole:
    """For the loss: states [N, D], weight [V, D], target ids [N], the dtype of autocast, whether by torch.compile."""

    hidden: Tensor
    weight: Tensor
    target: Tensor
    smoothing: float
    dtype: torch.dtype
    compiled: bool = False

    def computed(self) -> dict[str, Tensor]:
        """loss, nll, the gradients for hidden and weight, and how many times the kernel was called."""
        from nmt.training import triton_loss

        kind, calls = self.hidden.device.type, 0

        def difference(*arguments: object) -> tuple[Tensor, Tensor, Tensor]:
            nonlocal calls
            calls += 1
            return triton_loss.difference(*arguments)

        compute = loss.smoothed_cross_entropy
        if self.compiled:
            compute = torch.compile(compute, backend="eager")
        hidden, weight = (tensor.clone().requires_grad_() for tensor in (self.hidden, self.weight))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loss, "_in_triton", lambda *_: difference)
            patch.setattr(loss, "rows_at_once", lambda *_: CHUNK_ROWS)
            with torch.autocast(kind, self.dtype, enabled=self.dtype != torch.float32):
                value, nll = compute(hidden, weight, self.target, self.smoothing)
        of_hidden, of_weight = torch.autograd.grad(value, (hidden, weight))
        return {
            "loss": value.detach(), "nll": nll, "hidden": of_hidden, "weight": of_weight, "calls": torch.tensor(calls),
        }  # fmt: skip


def main(inputs: Path, results: Path) -> None:
    assert "triton" not in sys.modules  # nothing imports it before it is used
    torch.set_num_threads(1)  # as in the tests themselves, so that products are rounded in the same way
    cases = torch.load(inputs, weights_only=False)
    torch.save({name: case.computed() for name, case in cases.items()}, results)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
