"""Layer normalization (Ba et al. 2016) whose gradients do not depend on the number of threads.

On a CPU, PyTorch sums the gradients of the gain and the bias in one part for each thread. A run that computes with
fewer threads for some time, because another program needs the cores, would end with different weights. Here one thread
sums each column.

Shapes: N rows, D d_model.
"""

import functools
import logging
from typing import Any

import torch
from torch import Tensor, nn

from nmt.device import is_device_fault
from nmt.errors import first_line

log = logging.getLogger("nmt")


class LayerNorm(nn.LayerNorm):
    """torch.nn.LayerNorm over the last dimension."""

    def forward(self, x: Tensor) -> Tensor:
        """[..., D] → [..., D]."""
        needs_gradient = torch.is_grad_enabled() and (x.requires_grad or self.weight.requires_grad)
        if not needs_gradient or x.device.type != "cpu":
            return super().forward(x)
        if torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"):
            return super().forward(x)
        return _LayerNorm.apply(x, self.weight, self.bias, self.eps)  # type: ignore[no-untyped-call]

    def of_sum(self, x: Tensor, y: Tensor) -> Tensor:
        """LayerNorm(x + y), [..., D]. In search on a GPU it is one operation."""
        if searches_on_gpu(x) and x.dtype == y.dtype and triton_works(x.device):
            from nmt.models.triton_norm import normalized_sum  # Triton is only there with CUDA

            return normalized_sum(x.contiguous(), y.contiguous(), self.weight, self.bias, self.eps)
        normalized: Tensor = self(x + y)
        return normalized


def searches_on_gpu(x: Tensor) -> bool:
    """Whether x is computed on a GPU without gradients, autocast and compiler, so that fused operations save time."""
    return (
        x.is_cuda
        and not torch.compiler.is_compiling()  # before the conditions that would break the compiler's graph
        and not torch.is_grad_enabled()
        and not torch.is_autocast_enabled("cuda")
    )


@functools.cache
def triton_works(device: torch.device) -> bool:
    """Whether Triton's kernels can be compiled and started on a GPU. It needs a C compiler, for example."""
    try:
        from nmt.models.triton_norm import normalized_sum

        ones = torch.ones(1, 16, device=device)
        normalized_sum(ones, ones, ones[0], ones[0], 1e-5)
    except Exception as error:  # of many types
        if is_device_fault(error):
            raise
        log.warning("Triton does not work here: translation is slower without it (%s)", first_line(error))
        return False
    return True


class _LayerNorm(torch.autograd.Function):
    """PyTorch's own forward pass and gradient of x; the gradients of the weights are sums over rows."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
        y, mean, deviation = torch.native_layer_norm(x, weight.shape, weight, bias, epsilon)
        ctx.save_for_backward(x, weight, bias, mean, deviation)  # `deviation` is 1 / sqrt(variance + ε)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, bias, mean, deviation = ctx.saved_tensors
        needs_x, needs_weight, needs_bias, _ = ctx.needs_input_grad
        wide = torch.promote_types(x.dtype, torch.float32)
        grad_x = grad_weight = grad_bias = None
        if needs_x:
            output_mask = [True, False, False]  # only the gradient of x
            layer_norm_backward = torch.ops.aten.native_layer_norm_backward
            grad_x = layer_norm_backward(gradient, x, weight.shape, mean, deviation, weight, bias, output_mask)[0]
        if needs_weight:
            normalized = (x.to(wide) - mean).mul_(deviation)
            grad_weight = normalized.mul_(gradient).flatten(0, -2).sum(dim=0).to(weight.dtype)
        if needs_bias:
            grad_bias = gradient.flatten(0, -2).sum(dim=0, dtype=wide).to(bias.dtype)
        return grad_x, grad_weight, grad_bias, None
