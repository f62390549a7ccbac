"""Embeddings of tokens, some of which may be cut off."""

from torch import Tensor, nn


def embedded(ids: Tensor, embedding: nn.Module, *, cuts: bool) -> Tensor:
    """The vectors of ids [...] → [..., D]. cuts: ids below 0 mark tokens that are cut off, whose vector is zero."""
    if not cuts:
        return embedding(ids)
    return embedding(ids.clamp(min=0)) * (ids >= 0).unsqueeze(-1)
