"""A Transformer's layers by the names that Marian gives their weights.

In Marian queries, keys and values have a matrix each; ours are one stacked matrix, which is split here.
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
    """x → queries, keys and values, [..., D] → [..., H·dk + H·dk + H·dv], by a layer each."""

    def __init__(self, stacked: nn.Linear, widths: list[int]):
        super().__init__()
        weights = torch.split(stacked.weight, widths)
        biases = [None] * len(widths) if stacked.bias is None else torch.split(stacked.bias, widths)
        self.parts = nn.ModuleList(_linear(weight, bias) for weight, bias in zip(weights, biases, strict=True))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self.parts], dim=-1)


class _SplitAttention(MultiHeadAttention):
    """The same attention, in which each matrix is a layer that is called."""

    projection: Any

    def __init__(self, of: MultiHeadAttention):
        width = of.output.out_features
        with torch.device("meta"):
            super().__init__(width, of.heads, of.key_size, of.value_size, dropout=0.0, bias=False)
        self.projection, self.output = _Projections(of.projection, of.widths), of.output

    def _project(self, x: Tensor, part: slice) -> Tensor:
        """x [B, T, D] → queries only, or keys and values."""
        queries, keys, values = self.projection.parts
        return torch.cat([queries(x)] if part.start is None else [keys(x), values(x)], dim=-1)


def split_attention(model: Transformer) -> None:
    """Replace the attention of a model, which computes the same afterwards. It is for search and scoring."""
    for layer in [*model.encoder, *model.decoder]:
        layer.self_attention = _SplitAttention(layer.self_attention)
        if hasattr(layer, "cross_attention"):
            layer.cross_attention = _SplitAttention(layer.cross_attention)


def linear_layers(model: Transformer) -> Iterator[tuple[str, str, nn.Linear]]:
    """The linear layers of a model after `split_attention`, but for the output layer, each after Marian's names of its
    matrix and its bias."""
    for side, number, layer in _layers(model):
        for name in ATTENTIONS[side]:
            attention = getattr(layer, name)
            linears = [*attention.projection.parts, attention.output]
            for part, linear in zip(ATTENTION_PARTS, linears, strict=True):
                yield (*linear_names(side, number, f"{name}.{part}"), linear)
        for part in ("inner", "outer"):
            yield (*linear_names(side, number, f"feed_forward.{part}"), getattr(layer.feed_forward, part))


def norms(model: Transformer) -> Iterator[tuple[str, str, nn.LayerNorm]]:
    """The layer norms of a post-norm model, each after Marian's names of its scale and its bias."""
    for side, number, layer in _layers(model):
        for block in (*ATTENTIONS[side], "feed_forward"):
            yield (*norm_names(side, number, block), getattr(layer, f"{block}_residual").norm)


def _layers(model: Transformer) -> Iterator[tuple[str, int, nn.Module]]:
    """The side, the number and the module of each layer."""
    for side, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for number, layer in enumerate(layers):
            yield side, number, layer


def _linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    layer.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = nn.Parameter(bias, requires_grad=False)
    return layer


def reads_source(matrix: str) -> bool:
    """Whether the input of a matrix is of the source: in the encoder, and as keys and values of cross-attention."""
    return matrix.startswith("encoder") or matrix.endswith(("context_Wk", "context_Wv"))


def output_names(model: Transformer) -> list[str]:
    """The names of the output layer's matrix: the embedding's, and another one with a shortlist of subwords."""
    return ["Wemb" if model.config.ties_embeddings else "decoder_Wemb", "none"]
