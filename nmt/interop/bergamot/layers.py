"""A Transformer's layers with Marian's names of their weights.

In Marian, queries, keys and values have a matrix each; in nmt they have one stacked matrix, which is split here.
Source: marian, src/models/transformer.h and src/layers/generic.h.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nmt.interop.marian.names import linear_names, norm_names
from nmt.interop.weights import ATTENTION_PARTS, ATTENTIONS
from nmt.models.transformer.attention import MultiHeadAttention
from nmt.models.transformer.model import Transformer


class _Projections(nn.Module):
    """x → queries, keys and values, [..., D] → [..., H·dk + H·dk + H·dv], with a layer for each."""

    def __init__(self, stacked: nn.Linear, widths: list[int]):
        super().__init__()
        weights = torch.split(stacked.weight, widths)
        biases = [None] * len(widths) if stacked.bias is None else torch.split(stacked.bias, widths)
        self.parts = nn.ModuleList(_linear(*part) for part in zip(weights, biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self.parts], dim=-1)


class _SplitAttention(MultiHeadAttention):
    """An equal attention in which each matrix is a layer that is called."""

    projection: Any

    def __init__(self, attention: MultiHeadAttention):
        width = attention.output.out_features
        with torch.device("meta"):
            super().__init__(width, attention.heads, attention.key_size, attention.value_size, dropout=0.0, bias=False)
        self.projection, self.output = _Projections(attention.projection, attention.widths), attention.output

    def _project(self, x: Tensor, part: slice) -> Tensor:
        """x [B, T, D] → queries only, or keys and values."""
        queries, keys, values = self.projection.parts
        return torch.cat([queries(x)] if part.start is None else [keys(x), values(x)], dim=-1)


def split_attention(model: Transformer) -> None:
    """Replace the attention of a model, for search and scoring. Its results do not change."""
    for layer in [*model.encoder, *model.decoder]:
        layer.self_attention = _SplitAttention(layer.self_attention)
        if hasattr(layer, "cross_attention"):
            layer.cross_attention = _SplitAttention(layer.cross_attention)


def linear_layers(model: Transformer) -> Iterator[tuple[str, str, nn.Linear]]:
    """Marian's names of matrix and bias, and the layer, for all linear layers except the output layer. model: after
    `split_attention`."""
    for side, index, layer in _layers(model):
        for name in ATTENTIONS[side]:
            attention = getattr(layer, name)
            linears = [*attention.projection.parts, attention.output]
            for part, linear in zip(ATTENTION_PARTS, linears, strict=True):
                yield (*linear_names(side, index, f"{name}.{part}"), linear)
        for part in ("inner", "outer"):
            yield (*linear_names(side, index, f"feed_forward.{part}"), getattr(layer.feed_forward, part))


def norms(model: Transformer) -> Iterator[tuple[str, str, nn.LayerNorm]]:
    """Marian's names of scale and bias, and the layer norm, for all layer norms of a post-norm model."""
    for side, index, layer in _layers(model):
        for block in (*ATTENTIONS[side], "feed_forward"):
            yield (*norm_names(side, index, block), getattr(layer, f"{block}_residual").norm)


def _layers(model: Transformer) -> Iterator[tuple[str, int, nn.Module]]:
    """The side, the index and the module of each layer."""
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for index, layer in enumerate(layers):
            yield side, index, layer


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer


def reads_source(matrix: str) -> bool:
    """Whether the input of a matrix belongs to the source: in the encoder, and for keys and values of
    cross-attention."""
    return matrix.startswith("encoder") or matrix.endswith(("context_Wk", "context_Wv"))


def output_names(model: Transformer) -> list[str]:
    """The names of the output layer's matrix: of the embedding, and `none`, which is used with a shortlist of
    subwords."""
    return ["Wemb" if model.config.ties_embeddings else "decoder_Wemb", "none"]
