"""Packed batches for attention, computed by its Triton kernels: on a GPU, or, as a program of its own, by Triton's
interpreter.

`python -m helpers.packed_sentences CASES RESULTS`, with TRITON_INTERPRET=1: the interpreter has to be chosen before
Triton is imported.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.models.transformer import packed_attention
from nmt.models.transformer.packed_attention import Ranges

HEADS = 2


@dataclass(frozen=True)
class Packed:
    """Lengths of the sentences on the side of the queries and on that of the keys, and of the filling after them."""

    targets: tuple[int, ...]
    sources: tuple[int, ...]
    tails: tuple[int, int] = (0, 0)
    causal: bool = False
    dtype: torch.dtype = torch.float64
    widths: tuple[int, int] = (8, 8)  # dk, dv
    dropout: float = 0.0

    def __str__(self) -> str:
        sides = [f"{sum(side)}+{tail}" for side, tail in self._sides()]
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{sides} {'causal ' * self.causal}{dtype} {self.widths} dropout {self.dropout}"

    def ranges(self) -> Ranges:
        keys, queries = ([(0, 0)] * (sum(side) + tail) for side, tail in self._sides())
        for target, source in zip(self._places(self.targets), self._places(self.sources), strict=True):
            for i in target:
                keys[i] = (source.start, i + 1 if self.causal else source.stop)
            for j in source:
                queries[j] = (j if self.causal else target.start, target.stop)
        return Ranges(*(torch.tensor(pairs, dtype=torch.int32).T.contiguous() for pairs in (keys, queries)))

    def inputs(self, filling: float = 1.0) -> tuple[Tensor, ...]:
        """Query, key, value and the output's gradient, with `filling` in the tail.

        As in the model, they are parts of one projection, or, across, key and value are parts of one.
        """
        torch.manual_seed(0)
        dk, dv = self.widths
        sides = [torch.randn(sum(side) + tail, HEADS * (2 * dk + dv)).to(self.dtype) for side, tail in self._sides()]
        gradient = torch.randn(len(sides[0]), HEADS, dv).to(self.dtype)
        for x, side in ((sides[0], self.targets), (sides[1], self.sources), (gradient, self.targets)):
            x[sum(side) :] = filling
        parts = [side.split([HEADS * dk, HEADS * dk, HEADS * dv], dim=1) for side in sides]
        across = int(self.sources != self.targets)
        chosen = (parts[0][0], parts[across][1], parts[across][2])
        return *(part.unflatten(1, (HEADS, -1)) for part in chosen), gradient

    def computed(self, device: str = "cpu", filling: float = 1.0) -> dict[str, Tensor]:
        """The output and the gradients."""
        *inputs, gradient = (x.to(device) for x in self.inputs(filling))  # which keeps the strides
        inputs = [x.requires_grad_() for x in inputs]
        torch.manual_seed(1)
        ranges = Ranges(*(x.to(device) for x in self.ranges()))
        output = packed_attention.packed_attention(*inputs, ranges, self.dropout)
        gradients = torch.autograd.grad(output, inputs, gradient)
        return dict(zip(("output", "query", "key", "value"), (output.detach(), *gradients), strict=True))

    def _sides(self) -> list[tuple[tuple[int, ...], int]]:
        return [(self.targets, self.tails[0]), (self.sources, self.tails[1])]

    @staticmethod
    def _places(lengths: tuple[int, ...]) -> list[range]:
        return [range(sum(lengths[:n]), sum(lengths[: n + 1])) for n in range(len(lengths))]


def both(case: Packed, device: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """By the device's kernels, with filling that spoils whatever it touches; and by the plain implementation."""
    got = case.computed(device, filling=float("nan"))
    forward, backward = packed_attention._forward, packed_attention._backward
    with forward.set_kernel_enabled(device, False), backward.set_kernel_enabled(device, False):
        return got, case.computed(device)


def multiply_bfloat16_as_numbers() -> None:
    """Triton's interpreter holds bfloat16 as 16 bits, and tl.dot multiplies integers (triton-lang/triton#11584)."""
    import numpy as np
    import triton.language as tl
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    original = InterpreterBuilder.create_dot

    def wide(x: Any) -> Any:
        if x.dtype.scalar != tl.bfloat16:
            return x
        return TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def create_dot(self: Any, a: Any, b: Any, *others: Any) -> Any:
        return original(self, wide(a), wide(b), *others)

    InterpreterBuilder.create_dot = create_dot


def main(cases: Path, results: Path) -> None:
    assert "triton" not in sys.modules  # nothing imports it before it is used
    from nmt.models.transformer import packed_attention_kernels as kernels

    multiply_bfloat16_as_numbers()
    packed_attention._forward.register_kernel("cpu", kernels.forward)
    packed_attention._backward.register_kernel("cpu", kernels.backward)
    torch.save({case: both(case, "cpu") for case in torch.load(cases, weights_only=False)}, results)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
