"""Multi-head scaled dot-product attention (section 3.2), for complete sentences and for single decoding steps.

Shapes: B sentences, T queries, S keys, H heads, D d_model, dk and dv the widths of a head's keys and values.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.models.linear import Linear, linear
from nmt.models.transformer.cache import Pool
from nmt.models.transformer.packed_attention import Ranges, packed_attention


class Rotation(NamedTuple):
    """Cosines and sines by which `rotated` rotates the vectors of T positions, [T, dk] each."""

    cosine: Tensor
    sine: Tensor

    @classmethod
    def from_encodings(cls, encodings: Tensor) -> "Rotation":
        """From the paper's position encodings of width dk, [T, dk], whose angles are pos / 10000^(2i/dk)."""
        sine, cosine = encodings[..., ::2], encodings[..., 1::2]
        return cls(torch.cat([cosine, cosine], dim=-1), torch.cat([-sine, sine], dim=-1))


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    W^Q, W^K and W^V of all heads are stacked in one matrix, so that self-attention needs one product.
    """

    def __init__(self, d_model: int, heads: int, key_size: int, value_size: int, *, dropout: float, bias: bool):
        super().__init__()
        self.heads, self.key_size, self.value_size, self.dropout = heads, key_size, value_size, dropout
        self.widths = [heads * key_size, heads * key_size, heads * value_size]  # queries, keys, values of all heads
        self.projection = Linear(d_model, sum(self.widths), bias=bias)
        self.output = Linear(heads * value_size, d_model, bias=bias)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | Ranges | None = None,
        causal: bool = False,
        rotation: Rotation | None = None,
    ) -> Tensor:
        """Self-attention: x [B, T, D] → [B, T, D]. mask broadcasts to [B, H, T, T], true where a query may attend;
        rotation: of the T positions, see `rotated`. Packed: x [N, D], ranges, and the rotation of the N positions."""
        parts = torch.split(self.projection(x), self.widths, dim=-1)  # [B, T, H·dk | H·dk | H·dv]
        query, key, value = map(self._heads, parts)
        return self.attend(rotated(query, rotation), (rotated(key, rotation), value), mask, causal)

    def queries(self, x: Tensor) -> Tensor:
        """x [B, T, D] → queries [B, H, T, dk]; packed [N, D] → [H, N, dk]."""
        return self._heads(self._project(x, slice(self.widths[0])))

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x [B, S, D] → keys [B, H, S, dk] and values [B, H, S, dv]; packed [N, D] → [H, N, dk] and [H, N, dv]."""
        key, value = torch.split(self._project(x, slice(self.widths[0], None)), self.widths[1:], dim=-1)
        return self._heads(key), self._heads(value)

    def attend(
        self,
        query: Tensor,
        keys_values: tuple[Tensor, Tensor],
        mask: Tensor | Ranges | None = None,
        causal: bool = False,
    ) -> Tensor:
        """softmax(Q K^T / sqrt(dk)) V (equation 1), heads joined and projected: [B, T, D], or packed [N, D]."""
        key, value = keys_values
        dropout = self.dropout if self.training else 0.0
        if isinstance(mask, Ranges):
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))  # [N, H, ·]
            return self.output(packed_attention(query, key, value, mask, dropout).flatten(1))
        dtype = query.dtype
        query, key, value = map(_widened, (query, key, value))
        with _without_autocast():
            heads = F.scaled_dot_product_attention(
                query, key, value, attn_mask=mask, is_causal=causal, dropout_p=dropout
            )  # [B, H, T, dv]
        return self.output(heads.transpose(1, 2).flatten(2).to(dtype))

    def weights(self, x: Tensor, source: Tensor, mask: Tensor, rotation: Rotation | None = None) -> Tensor:
        """The weights softmax(Q K^T / sqrt(dk)), [B, H, T, S]: queries of x [B, T, D], keys of source [B, S, D]."""
        query, key = rotated(self.queries(x), rotation), rotated(self.keys_values(source)[0], rotation)
        scores = query @ key.transpose(2, 3) * self.key_size**-0.5
        return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)

    def cross_step(self, x: Tensor, source: Pool, mask: Tensor) -> Tensor:
        """Cross-attention at the newest position of K hypotheses: x [B, K, D] → [B, K, D]. mask: of `source`."""
        return self.output(source.attend(self._project(x, slice(self.widths[0])), mask))

    def self_step(
        self, x: Tensor, target: Pool, mask: Tensor, slots: Tensor, rotation: Rotation | None = None
    ) -> Tensor:
        """Self-attention at the newest position of K hypotheses, x [B, K, D] → [B, K, D].

        slots: where its keys and values are written; mask: each hypothesis attends to its own tokens; both in the form
        that `target` takes. rotation: of this position.
        """
        query, new = torch.split(self.projection(x), [self.widths[0], sum(self.widths[1:])], dim=-1)
        if rotation is not None:
            key, value = torch.split(new, self.widths[1:], dim=-1)
            query, key = (rotated(self._heads(part), rotation).transpose(1, 2).flatten(2) for part in (query, key))
            new = torch.cat([key, value], dim=-1)
        target.write(slots, new)
        return self.output(target.attend(query, mask))

    def _project(self, x: Tensor, part: slice) -> Tensor:
        """x [B, T, D] multiplied by a part of the projection: queries only, or keys and values."""
        bias = None if self.projection.bias is None else self.projection.bias[part]
        return linear(x, self.projection.weight[part], bias)

    def _heads(self, x: Tensor) -> Tensor:
        size = x.shape[-1] // self.heads  # not -1, which view cannot infer in an empty batch
        return x.view(*x.shape[:-1], self.heads, size).transpose(-3, -2)  # [B, T, H·d] → [B, H, T, d]


def rotated(x: Tensor, rotation: Rotation | None) -> Tensor:
    """Rotary positions (Su et al. 2021, equation 34): queries or keys [..., T, dk], each rotated by the angles of its
    position; None: unchanged. The product of a query and a key then depends on their distance only.

    Elements i and i + dk/2 of a vector form a complex number, which is rotated by pos / 10000^(2i/dk). (The paper pairs
    the neighbours 2i and 2i + 1. This is the same model with its dimensions in another order.)
    """
    if rotation is None:
        return x
    return (x * rotation.cosine + x.roll(x.shape[-1] // 2, dims=-1) * rotation.sine).to(x.dtype)


def _widened(x: Tensor) -> Tensor:
    """x in the dtype in which attention of complete sentences is computed: float32 for 16-bit numbers on a CPU.

    On a CPU, the backward pass of PyTorch's 16-bit kernel calls oneDNN for each of its many small products. With short
    sentences this takes five to ten times as long as in float32.
    """
    return x.float() if x.device.type == "cpu" and x.dtype.itemsize == 2 else x


def _without_autocast() -> AbstractContextManager[object]:
    """A context without autocast on CPUs, where autocast would undo `_widened`."""
    return torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext()
