"""Scaled dot-product attention in many heads (section 3.2), with a key/value cache for decoding.

Shapes: B sentences, T queries, S keys, H heads, D d_model, dk and dv a head's key and value widths.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# What attention reads: keys [B, H, S, dk] and values [B, H, S, dv].
KeysValues = tuple[Tensor, Tensor]


class MultiHeadAttention(nn.Module):
    """MultiHead(Q, K, V) = Concat(head_1, …, head_h) W^O, head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V).

    W^Q, W^K and W^V of all heads are the rows of one matrix, so that self-attention projects its
    input in a single product.
    """

    def __init__(self, d_model: int, heads: int, key_size: int, value_size: int, *, dropout: float, bias: bool):
        super().__init__()
        self.heads, self.key_size, self.value_size, self.dropout = heads, key_size, value_size, dropout
        # Rows of the projection: H·dk for queries, H·dk for keys, H·dv for values.
        self.rows = [heads * key_size, heads * key_size, heads * value_size]
        self.projection = nn.Linear(d_model, sum(self.rows), bias=bias)
        self.output = nn.Linear(heads * value_size, d_model, bias=bias)

    def forward(self, x: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """Self-attention. x [B, T, D]; mask broadcasts to [B, H, T, T], true where a key may be seen."""
        query, key, value = torch.split(self.projection(x), self.rows, dim=-1)  # [B, T, H·dk | H·dk | H·dv]
        return self.attend(self._heads(query), (self._heads(key), self._heads(value)), mask, causal)

    def queries(self, x: Tensor) -> Tensor:
        """x [B, T, D] → queries [B, H, T, dk]."""
        rows = self.rows[0]
        bias = None if self.projection.bias is None else self.projection.bias[:rows]
        return self._heads(F.linear(x, self.projection.weight[:rows], bias))

    def keys_values(self, x: Tensor) -> KeysValues:
        """x [B, S, D] → keys [B, H, S, dk] and values [B, H, S, dv]."""
        rows = self.rows[0]
        bias = None if self.projection.bias is None else self.projection.bias[rows:]
        key, value = torch.split(F.linear(x, self.projection.weight[rows:], bias), self.rows[1:], dim=-1)
        return self._heads(key), self._heads(value)

    def attend(
        self, query: Tensor, keys_values: KeysValues, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """softmax(Q K^T / sqrt(dk)) V (equation 1), heads joined and projected: [B, T, D]."""
        key, value = keys_values
        heads = F.scaled_dot_product_attention(
            query, key, value, attn_mask=mask, is_causal=causal, dropout_p=self.dropout if self.training else 0.0
        )  # [B, H, T, dv]
        joined: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return joined

    def extend(self, x: Tensor, cache: KeysValues | None) -> tuple[Tensor, KeysValues]:
        """Self-attention of one new position over all the earlier ones and itself.

        x [B, 1, D], cache of the earlier positions (None: there are none) → [B, 1, D] and the longer cache.
        """
        query, key, value = (self._heads(part) for part in torch.split(self.projection(x), self.rows, dim=-1))
        if cache is not None:
            key, value = torch.cat([cache[0], key], dim=2), torch.cat([cache[1], value], dim=2)
        return self.attend(query, (key, value)), (key, value)

    def _heads(self, x: Tensor) -> Tensor:
        size = x.shape[-1] // self.heads  # in words, for in an empty batch -1 could be anything
        return x.view(*x.shape[:-1], self.heads, size).transpose(1, 2)  # [B, T, H·d] → [B, H, T, d]
