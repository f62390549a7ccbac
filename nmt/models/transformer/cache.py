"""What the hypotheses of a search attend to: the source, and what they themselves have said so far.

Shapes: B sentences, K hypotheses a sentence, H heads, N places, dk and dv a head's key and value widths.

The hypotheses of a sentence share one pool of places, and a mask tells which of them are a hypothesis's own past.
To follow other hypotheses is to copy rows of the mask, not keys and values; attention is K queries on one set of
keys; and what no hypothesis sees any more is written over. As hypotheses of one sentence share most of their past,
a pool needs hardly more places than the longest of them has tokens.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

# Places come by so many: a softmax over fewer numbers than a vector register holds is ten times slower on a CPU.
_PLACES = 16
_HIDDEN = float("-inf")


@dataclass(frozen=True)
class KeysValues:
    """Keys [B·H, N, dk] and values [B·H, N, dv], the heads of a sentence side by side."""

    keys: Tensor
    values: Tensor

    @staticmethod
    def none(like: Tensor, rows: int, sizes: tuple[int, int], places: int) -> "KeysValues":
        """So many places of B·H rows, of zeros: what is hidden is multiplied by 0, which must not meet a NaN."""
        keys, values = (like.new_zeros(rows, places, size) for size in sizes)
        return KeysValues(keys, values)

    def attend(self, queries: Tensor, mask: Tensor) -> Tensor:
        """softmax(Q K^T / sqrt(dk)) V (equation 1) of each head.

        Queries [B, K, H·dk], mask [B·H, 1 or K, N] of 0 for what is seen and -inf → [B, K, H·dv].
        """
        sentences, hypotheses, _ = queries.shape
        heads = torch.bmm(self.weights(queries, mask), self.values)  # [B·H, K, dv]
        return heads.view(sentences, -1, hypotheses, heads.shape[2]).transpose(1, 2).flatten(2)

    def weights(self, queries: Tensor, mask: Tensor) -> Tensor:
        """How much each query attends to each place, [B·H, K, N]: 1 in sum over N."""
        size = self.keys.shape[2]
        return torch.baddbmm(mask, _by_head(queries, size), self.keys.transpose(1, 2), alpha=size**-0.5).softmax(-1)

    def write(self, rows: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys [B, M, H·dk] and values [B, M, H·dv], as they are projected, in rows [B·H·M] of the B·H·N."""
        for kept, new in ((self.keys, keys), (self.values, values)):
            kept.view(-1, kept.shape[2]).index_copy_(0, rows, _by_head(new, kept.shape[2]).flatten(0, 1))

    def of(self, sentences: Tensor, heads: int) -> "KeysValues":
        """Those of some sentences (indices)."""
        return KeysValues(_of_sentences(self.keys, sentences, heads), _of_sentences(self.values, sentences, heads))

    def with_places(self, more: int) -> "KeysValues":
        """The same with so many places more, of zeros."""
        return KeysValues(F.pad(self.keys, (0, 0, 0, more)), F.pad(self.values, (0, 0, 0, more)))


@dataclass(frozen=True)
class Past:
    """What the hypotheses have said: for each decoder layer the pool of its self-attention, the same places in all.

    mask [B, K, N]: 0 where a hypothesis sees its own past, else -inf; most: no sentence has more places in use.
    """

    pools: tuple[KeysValues, ...]
    mask: Tensor
    heads: int
    most: int = 0

    @staticmethod
    def none(like: Tensor, sentences: int, layers: int, heads: int, sizes: tuple[int, int]) -> "Past":
        """Before the first step, one hypothesis a sentence; sizes: dk and dv of a head."""
        pools = tuple(KeysValues.none(like, sentences * heads, sizes, _PLACES) for _ in range(layers))
        return Past(pools, like.new_full((sentences, 1, _PLACES), _HIDDEN), heads)

    def with_newest(self) -> tuple["Past", Tensor]:
        """A place for the newest position of each hypothesis, which it sees; and its rows [B·H·K] for `write`."""
        sentences, hypotheses, places = self.mask.shape
        pools, mask, most = self.pools, self.mask, self.most
        seen = mask.amax(dim=1)  # [B, N]: -inf where a place is free
        if most + hypotheses > places:  # perhaps: what has been left is not counted until it matters
            most = int((seen == 0).sum(dim=1).max())
        if most + hypotheses > places:
            more = -(-(most + hypotheses - places) // _PLACES) * _PLACES
            pools, places = tuple(pool.with_places(more) for pool in pools), places + more
            mask, seen = (F.pad(old, (0, more), value=_HIDDEN) for old in (mask, seen))
        free = seen.topk(hypotheses, dim=1, largest=False).indices  # [B, K]
        mask = mask.scatter(2, free[:, :, None], 0.0)
        first = torch.arange(0, sentences * self.heads * places, places, device=mask.device)
        rows = (first.view(sentences, self.heads, 1) + free[:, None]).flatten()
        return Past(pools, mask, self.heads, most + hypotheses), rows

    def mask_by_head(self) -> Tensor:
        """The mask as attention takes it, [B·H, K, N]."""
        return self.mask[:, None].expand(-1, self.heads, -1, -1).flatten(0, 1)

    def of(self, rows: Tensor, sentences: Tensor | None) -> "Past":
        """That of other hypotheses: rows [B', K'] index the B·K old ones; sentences [B'], theirs, if others."""
        mask = self.mask.flatten(0, 1).index_select(0, rows.flatten()).view(*rows.shape, -1)
        pools = self.pools if sentences is None else tuple(pool.of(sentences, self.heads) for pool in self.pools)
        return Past(pools, mask, self.heads, self.most)


@dataclass(frozen=True)
class Source:
    """What the decoder sees of the source: keys and values for each layer, and their mask [B·H, 1, N]."""

    layers: tuple[KeysValues, ...]
    mask: Tensor
    heads: int

    def of(self, sentences: Tensor) -> "Source":
        """That of some sentences (indices)."""
        layers = tuple(layer.of(sentences, self.heads) for layer in self.layers)
        return Source(layers, _of_sentences(self.mask, sentences, self.heads), self.heads)


def source(keys_values: list[tuple[Tensor, Tensor]], tokens: Tensor) -> Source:
    """From keys and values [B, H, S, ·] of each layer, and what is a token, [B, S]."""
    heads, more = keys_values[0][0].shape[1], max(0, _PLACES - tokens.shape[1])
    layers = tuple(
        KeysValues(F.pad(keys, (0, 0, 0, more)).flatten(0, 1), F.pad(values, (0, 0, 0, more)).flatten(0, 1))
        for keys, values in keys_values
    )
    mask = keys_values[0][0].new_zeros(tokens.shape).masked_fill_(~tokens, _HIDDEN)
    return Source(layers, F.pad(mask, (0, more), value=_HIDDEN).repeat_interleave(heads, dim=0)[:, None], heads)


def _by_head(x: Tensor, size: int) -> Tensor:
    """[B, M, H·size] → [B·H, M, size]."""
    return x.view(*x.shape[:2], -1, size).transpose(1, 2).flatten(0, 1)


def _of_sentences(x: Tensor, sentences: Tensor, heads: int) -> Tensor:
    """The rows of these sentences, of [B·H, ...]."""
    return x.view(-1, heads, *x.shape[1:]).index_select(0, sentences).flatten(0, 1)
