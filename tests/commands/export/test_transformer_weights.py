"""Attention with wider heads is the same attention."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.commands.export.transformer_weights import Linear, head_width, padded
from nmt.models.transformer.attention import MultiHeadAttention


def heads(x: Tensor, of: Linear) -> Tensor:
    """x [B, T, D] → [B, H, T, W]."""
    return F.linear(x, of.weight, of.bias).unflatten(-1, (3, -1)).transpose(1, 2)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("key_size", "value_size", "width"), [(4, 4, 4), (4, 4, 6), (2, 7, 7), (7, 2, 9)])
def test_padded_heads_attend_alike(key_size: int, value_size: int, width: int, bias: bool) -> None:
    torch.manual_seed(1)
    attention = MultiHeadAttention(10, 3, key_size, value_size, dropout=0.0, bias=bias).double()
    assert head_width(attention) == max(key_size, value_size)
    x = torch.randn(2, 5, 10, dtype=torch.float64)
    for query_scale, scale in ((1.0, 1 / math.sqrt(key_size)), (math.sqrt(width / key_size), 1 / math.sqrt(width))):
        *projections, output = padded(attention, width, query_scale)
        query, key, value = (heads(x, of) for of in projections)
        attended = F.scaled_dot_product_attention(query, key, value, scale=scale).transpose(1, 2).flatten(2)
        result = F.linear(attended, output.weight, output.bias)
        torch.testing.assert_close(result, attention(x))
    assert (projections[0].bias is None) != bias
