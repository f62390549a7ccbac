"""The attention matrices as other engines need them: separate, with keys and values of the same width.

Shapes: H heads, D d_model, dk and dv the key and value widths of a head, W the common width.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.transformer.attention import MultiHeadAttention


@dataclass(frozen=True)
class Linear:
    """y = x weight^T + bias: weight [outputs, inputs], bias [outputs] or None."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True)
class Projections:
    """Queries, keys and values [H·W, D] and output [D, H·W]."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear


def head_width(attention: MultiHeadAttention) -> int:
    """The smallest width that holds the keys and the values of a head."""
    return max(attention.key_size, attention.value_size)


def linear(module: nn.Linear) -> Linear:
    """A module's weight and bias."""
    return Linear(module.weight.detach(), None if module.bias is None else module.bias.detach())


def padded(attention: MultiHeadAttention, width: int, query_scale: float = 1.0) -> Projections:
    """The projections with every head `width` wide, at least `head_width`; queries times query_scale.

    The added columns are zeros, so the result does not change: they add nothing to the product of a query and a key,
    and the output projection multiplies the zeros of the values by zeros.
    """
    joint = linear(attention.projection)
    weights = torch.split(joint.weight, attention.widths)
    biases = (None,) * 3 if joint.bias is None else torch.split(joint.bias, attention.widths)
    query, key, value = (
        Linear(_widen(weight, attention.heads, width), None if bias is None else _widen(bias, attention.heads, width))
        for weight, bias in zip(weights, biases, strict=True)
    )
    if query_scale != 1:
        query = Linear(query.weight * query_scale, None if query.bias is None else query.bias * query_scale)
    output = linear(attention.output)
    widened = _widen(output.weight.t(), attention.heads, width).t().contiguous()
    return Projections(query, key, value, Linear(widened, output.bias))


def scale_for(attention: MultiHeadAttention, width: int) -> float:
    """The factor for the queries if an engine divides by sqrt(width) instead of sqrt(dk)."""
    return math.sqrt(width / attention.key_size)


def _widen(rows: Tensor, heads: int, width: int) -> Tensor:
    """Rows of H heads, [H·d, …] → [H·W, …], zeros at the end of each head."""
    by_head = rows.reshape(heads, len(rows) // heads, *rows.shape[1:])  # [H, d, …]
    missing = width - by_head.shape[1]
    return F.pad(by_head, (0, 0) * (by_head.dim() - 2) + (0, missing)).flatten(0, 1)
