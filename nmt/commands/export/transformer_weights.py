"""The model to export, and its attention matrices as other engines need them: separate, all heads of one width.

Shapes: H heads, D d_model, dk and dv the key and value widths of a head, W the common width.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.checkpoints.model_file import Checkpoint
from nmt.errors import NmtError
from nmt.models.transformer.attention import MultiHeadAttention
from nmt.models.transformer.model import Transformer


@dataclass(frozen=True)
class Linear:
    """y = x weight^T + bias: weight [outputs, inputs], bias [outputs] or None."""

    weight: Tensor
    bias: Tensor | None


def build_transformer(loaded: Checkpoint) -> Transformer:
    """The model of a model file, without gradients. Raises NmtError if it is not a Transformer."""
    model = loaded.build()
    if not isinstance(model, Transformer):
        raise NmtError(
            f"{loaded.path or 'the model'}: model.architecture: {model.config.architecture}: only a transformer can be "
            "exported: use the model file itself (nmt translate, nmt serve)"
        )
    return model.requires_grad_(False)


def head_width(attention: MultiHeadAttention) -> int:
    """The smallest width that holds the keys and the values of a head."""
    return max(attention.key_size, attention.value_size)


def padded(attention: MultiHeadAttention, width: int, query_scale: float = 1.0) -> tuple[Linear, ...]:
    """Queries, keys and values [H·W, D] and output [D, H·W] with heads of W = `width`, at least `head_width`.

    The queries are multiplied by query_scale. The added columns are zeros, so the result does not change: they add
    nothing to the product of a query and a key, and the output projection multiplies the zeros of the values by zeros.
    """

    def separate(rows: Tensor) -> list[Tensor]:
        query, key, value = (_widen(part, attention.heads, width) for part in torch.split(rows, attention.widths))
        return [query * query_scale, key, value]

    joint, output = attention.projection, attention.output
    biases = [None] * 3 if joint.bias is None else separate(joint.bias)
    query, key, value = map(Linear, separate(joint.weight), biases)
    widened = _widen(output.weight.t(), attention.heads, width).t().contiguous()
    return query, key, value, Linear(widened, output.bias)


def _widen(rows: Tensor, heads: int, width: int) -> Tensor:
    """Rows of H heads, [H·d, …] → [H·W, …], zeros at the end of each head."""
    by_head = rows.reshape(heads, len(rows) // heads, *rows.shape[1:])  # [H, d, …]
    missing = width - by_head.shape[1]
    return F.pad(by_head, (0, 0) * (by_head.dim() - 2) + (0, missing)).flatten(0, 1)
