"""Layer normalization has the values and gradients of PyTorch's. That these do not depend on the number of threads is
tested with whole steps, in tests/training/test_threads.py."""

import pytest
import torch
from torch import Tensor, nn

from nmt.models.norm import LayerNorm

SHAPE = (40, 25, 64)


def results(layer: nn.LayerNorm, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of what needs one."""
    y = layer(x)
    y.backward(torch.randn(y.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).to(y.dtype))
    return [y.detach(), *(each.grad for each in (x, layer.weight, layer.bias) if each.grad is not None)]


def make(kind: type[nn.LayerNorm], dtype: torch.dtype, needed: str) -> list[Tensor]:
    torch.manual_seed(1)
    layer = kind(SHAPE[-1], eps=1e-3)
    nn.init.normal_(layer.weight)
    nn.init.normal_(layer.bias)
    layer.weight.requires_grad_(needed != "input")
    layer.bias.requires_grad_(needed != "input")
    x = (3 * torch.randn(SHAPE, dtype=torch.float64) + 1).to(dtype)
    return results(layer.to(dtype), x.requires_grad_(needed != "weights"))


@pytest.mark.parametrize("needed", ["all", "input", "weights"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_values_and_gradients_are_those_of_pytorch(dtype: torch.dtype, needed: str) -> None:
    """Those of PyTorch in float64: in bfloat16 its gradients of the weights are wrong by some percents."""
    ours = make(LayerNorm, dtype, needed)
    theirs = make(nn.LayerNorm, torch.float64, needed)
    assert len(ours) == len(theirs) == {"all": 4, "input": 2, "weights": 3}[needed]
    limit = {torch.float64: 1e-14, torch.float32: 1e-6, torch.bfloat16: 0.01}[dtype]
    for one, other in zip(ours, theirs, strict=True):
        assert (one.double() - other).norm() < limit * other.norm()
