"""Dropout, and dropout followed by a residual sum, with fast random masks on the CPU.

PyTorch draws a CPU mask one Bernoulli number at a time. This takes about 8 ns per element, a fifth of a small model's
step. Here four elements share each 64-bit number from the same generator: an element is kept if its 16 bits are below a
threshold. The keep probability is rounded to a multiple of 2^-16, and kept elements are divided by the rounded
probability, so that the expectation is exact. Other devices use PyTorch's own kernels.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_LEVELS = 1 << 16


def _kept_levels(probability: float) -> int:
    """The number of the 2^16 equally likely values that keep an element: at least 1, at most 2^16 - 1."""
    return min(max(round((1 - probability) * _LEVELS), 1), _LEVELS - 1)


def _draw(like: Tensor) -> Tensor:
    """16 random bits per element, int16 in the shape of `like`, from PyTorch's global generator."""
    quads = torch.empty((like.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    return quads.view(torch.int16)[: like.numel()].view(like.shape)


def _mask(bits: Tensor, levels: int, dtype: torch.dtype) -> Tensor:
    """1 where an element is kept, else 0, in `dtype`."""
    # Writing the result as floats is several times faster than casting a bool mask afterwards.
    return torch.lt(bits, levels - _LEVELS // 2, out=torch.empty(bits.shape, dtype=dtype))


class _Dropout(torch.autograd.Function):
    """x · mask / keep. Saves the random bits (2 bytes per element), not the mask."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, levels: int) -> Tensor:
        bits = _draw(x)
        ctx.save_for_backward(bits)
        ctx.levels = levels
        return _mask(bits, levels, x.dtype).mul_(x).mul_(_LEVELS / levels)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (bits,) = ctx.saved_tensors
        return _mask(bits, ctx.levels, gradient.dtype).mul_(gradient).mul_(_LEVELS / ctx.levels), None


class _ResidualSum(torch.autograd.Function):
    """residual + x · mask / keep, in one pass over memory."""

    @staticmethod
    def forward(ctx: Any, residual: Tensor, x: Tensor, levels: int) -> Tensor:
        bits = _draw(x)
        ctx.save_for_backward(bits)
        ctx.levels = levels
        return torch.addcmul(residual, x, _mask(bits, levels, x.dtype), value=_LEVELS / levels)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (bits,) = ctx.saved_tensors
        kept = _mask(bits, ctx.levels, gradient.dtype).mul_(gradient).mul_(_LEVELS / ctx.levels)
        return gradient, kept, None


def dropout(x: Tensor, probability: float, training: bool) -> Tensor:
    """x with each element set to 0 with `probability`, and the others scaled up; in eval mode x itself."""
    if not training or probability == 0:
        return x
    if _drawn_here(x):
        return _Dropout.apply(x, _kept_levels(probability))  # type: ignore[no-untyped-call]
    return F.dropout(x, probability)


def residual_sum(residual: Tensor, x: Tensor, probability: float, training: bool) -> Tensor:
    """residual + dropout(x): the residual dropout after every sub-layer (section 5.4)."""
    if training and probability > 0 and _drawn_here(x) and x.dtype == residual.dtype:
        return _ResidualSum.apply(residual, x, _kept_levels(probability))  # type: ignore[no-untyped-call]
    return residual + dropout(x, probability, training)


def _drawn_here(x: Tensor) -> bool:
    """Whether this module draws the mask: on the CPU, unless torch.compile generates its own random numbers."""
    return x.device.type == "cpu" and not torch.compiler.is_compiling()
