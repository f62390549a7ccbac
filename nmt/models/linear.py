"""Linear layers and matrix products with the faster of PyTorch's two CPU libraries.

PyTorch multiplies float32 matrices with MKL, which does not use AVX-512 on AMD processors. oneDNN does, and is about
twice as fast there. PyTorch itself uses oneDNN for other dtypes, and for float32 only in code from torch.compile. The
operator that this code calls is used here. Without it, or on other processors, PyTorch's own functions are used.

Shapes: N rows, I inputs, O outputs.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.machine import processor_maker

_LEAST_MULTIPLICATIONS = 1 << 20  # below this, starting oneDNN takes longer than it saves


class Linear(nn.Linear):
    """torch.nn.Linear by `linear`."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., I] → [..., O]."""
        return linear(x, self.weight, self.bias)

    def plain(self) -> nn.Linear:
        """A torch.nn.Linear with the same weights. PyTorch's quantisation supports only this class."""
        layer = nn.Linear(self.in_features, self.out_features, bias=self.bias is not None, device="meta")
        layer.weight, layer.bias = self.weight, self.bias
        return layer


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x Wᵀ + b: x [..., I], weight [O, I], bias [O] → [..., O]."""
    if not _suits_onednn(x, weight, x.numel() * weight.shape[0]):
        return F.linear(x, weight, bias)
    rows = x.reshape(-1, x.shape[-1])
    inputs = (x, weight) if bias is None else (x, weight, bias)
    needed = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in inputs)
    y = _Linear.apply(rows, weight, bias) if needed else _onednn()(rows, weight, bias)  # type: ignore[no-untyped-call]
    return y.view(*x.shape[:-1], weight.shape[0])


def product(a: Tensor, b: Tensor) -> Tensor:
    """a b for matrices [N, I] and [I, O] → [N, O], without gradients."""
    if not _suits_onednn(a, b, a.numel() * b.shape[1]):
        return a @ b
    # oneDNN's operator copies its first argument if that is transposed, but not the second one.
    if a.is_contiguous() or a.numel() < b.numel() + len(a) * b.shape[1]:
        return _onednn()(a, b.t(), None)
    return _onednn()(b.t(), a, None).t()


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a b, in place; see `product`."""
    if _suits_onednn(a, b, a.numel() * b.shape[1]):
        total.add_(product(a, b))
    else:
        total.addmm_(a, b)


class _Linear(torch.autograd.Function):
    """x Wᵀ + b and its gradients, as three products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return _onednn()(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            product(gradient, weight) if needs_x else None,
            product(gradient.t(), x) if needs_weight else None,
            gradient.sum(dim=0) if needs_bias else None,
        )


def _suits_onednn(a: Tensor, b: Tensor, multiplications: int) -> bool:
    return (
        not torch.compiler.is_compiling()  # first, because the other conditions would break the compiler's graph
        and multiplications >= _LEAST_MULTIPLICATIONS
        and a.dtype == b.dtype == torch.float32
        and a.device.type == "cpu"
        and prefers_onednn()
        and (b.is_contiguous() or b.t().is_contiguous())  # oneDNN may be slow with a part of a matrix
        and not torch.is_autocast_enabled("cpu")
    )


@functools.cache
def prefers_onednn() -> bool:
    """Whether oneDNN computes float32 products: where PyTorch uses MKL on an AMD processor with AVX-512.

    This depends on the machine only, not on a measurement, because a resumed run must compute the same results.
    """
    if processor_maker() != "AuthenticAMD" or torch.backends.cpu.get_cpu_capability() != "AVX512":
        return False
    if not (torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        return False
    try:
        ones = torch.ones(2, 2)
        return torch.equal(_onednn()(ones, ones, None), 2 * ones)
    except (AttributeError, RuntimeError):  # another version of PyTorch, without this operator
        return False


@functools.cache
def _onednn() -> Callable[[Tensor, Tensor, Tensor | None], Tensor]:
    operator = torch.ops.mkldnn._linear_pointwise.default

    def linear_without_activation(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        result: Tensor = operator(x, weight, bias, "none", [], "")
        return result

    return linear_without_activation
