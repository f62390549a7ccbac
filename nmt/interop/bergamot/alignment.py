"""Chooses the attention head with which Bergamot aligns words, for the markup of web pages.

The engine uses the first head of one layer. nmt aligns with the mean of all heads of all layers: a target position is
aligned to the source position with the most attention. The head that attends most to these positions becomes the first
one. The order of heads does not change a model.

Shapes: B sentences, S source and T target positions, L decoder layers, H heads, D d_model, d width of a head.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from nmt.data.subwords.vocabulary import PAD
from nmt.models.transformer.model import Transformer

Batch = tuple[Tensor, Tensor]  # source [B, S], and the decoder's input [B, T]


def put_first(model: Transformer, batches: Sequence[Batch]) -> int:
    """Exchange the first head of a layer and the head that aligns best. Returns the index of the layer, from 0. model:
    after layers.split_attention."""
    layer, head = divmod(_best_head(model, batches), model.config.heads)
    attention: Any = model.decoder[layer].cross_attention
    order = list(range(attention.heads))
    order[0], order[head] = order[head], order[0]
    for part in attention.projection.parts:
        part.weight.data = _by_head(part.weight.data, attention.heads)[order].flatten(0, 1)
        if part.bias is not None:
            part.bias.data = _by_head(part.bias.data, attention.heads)[order].flatten()
    columns = _by_head(attention.output.weight.data.t(), attention.heads)
    attention.output.weight.data = columns[order].flatten(0, 1).t()
    return layer


@torch.inference_mode()
def _best_head(model: Transformer, batches: Sequence[Batch]) -> int:
    """The index of the head that aligns best, among the heads of all decoder layers."""
    totals = torch.zeros(len(model.decoder) * model.config.heads)
    for source, target in batches:
        weights = torch.cat(model.attention_weights(source, target).cross, dim=1)  # [B, L·H, T, S]
        positions = weights.mean(dim=1, keepdim=True).argmax(dim=3, keepdim=True)  # [B, 1, T, 1]
        attention = weights.gather(3, positions.expand(-1, weights.shape[1], -1, -1))[..., 0]
        totals += (attention * (target != PAD)[:, None]).sum(dim=(0, 2))
    return int(totals.argmax())


def _by_head(rows: Tensor, heads: int) -> Tensor:
    """[H·d, …] → [H, d, …]."""
    return rows.view(heads, -1, *rows.shape[1:])
