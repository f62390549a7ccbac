"""Keys and values that the hypotheses of a search attend to: of the source, and of their own target tokens so far.

Shapes: B sentences, K hypotheses per sentence, H heads, N slots, dk and dv the widths of a head's keys and values.

The hypotheses of a sentence share one pool of slots, and a mask tells which slots belong to a hypothesis. To reorder
hypotheses, the mask's rows are copied, not keys and values; attention is K queries on one set of keys; and a slot that
belongs to no hypothesis any more is used again. As the hypotheses of a sentence share most of their tokens, a pool
needs hardly more slots than the longest of them has tokens.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.device import LateCopy, runs_ahead

# Slots are added in groups of this size: on a CPU a softmax over fewer numbers than a vector register holds is ten
# times slower.
_SLOTS = 16
_MASKED = float("-inf")


@dataclass(frozen=True)
class KeysValues:
    """Keys [B·H, N, dk] and values [B·H, N, dv], the heads of a sentence side by side."""

    keys: Tensor
    values: Tensor

    def attend(self, queries: Tensor, mask: Tensor) -> Tensor:
        """softmax(Q K^T / sqrt(dk)) V (equation 1) of each head.

        Queries [B, K, H·dk], mask [B·H, 1 or K, N] of 0 where a query attends, else -inf → [B, K, H·dv].
        """
        sentences, hypotheses, _ = queries.shape
        width = self.keys.shape[2]
        if queries.is_cuda:
            return self.attend_fused(queries, mask)
        scores = torch.baddbmm(mask, _by_head(queries, width), self.keys.transpose(1, 2), alpha=width**-0.5)
        heads = torch.bmm(scores.softmax(-1), self.values)  # [B·H, K, dv]
        return heads.view(sentences, -1, hypotheses, heads.shape[2]).transpose(1, 2).flatten(2)

    def attend_fused(self, queries: Tensor, mask: Tensor) -> Tensor:
        """`attend` as one operation: on a GPU, the number of operations decides how long a step takes."""
        sentences, hypotheses, _ = queries.shape
        query = queries.view(sentences, hypotheses, -1, self.keys.shape[2]).transpose(1, 2)  # [B, H, K, dk]
        keys, values, mask = (x.view(sentences, -1, *x.shape[1:]) for x in (self.keys, self.values, mask))
        heads = F.scaled_dot_product_attention(query, keys, values, mask.expand(-1, -1, hypotheses, -1))
        return heads.transpose(1, 2).flatten(2)

    def write(self, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Put keys [B, M, H·dk] and values [B, M, H·dv] into slots [B·H·M], numbered through all B·H·N."""
        for cached, new in ((self.keys, keys), (self.values, values)):
            cached.view(-1, cached.shape[2]).index_copy_(0, slots, _by_head(new, cached.shape[2]).flatten(0, 1))

    def select(self, sentences: Tensor, heads: int) -> "KeysValues":
        """Those of some sentences (indices)."""
        keys, values = (_select_sentences(x, sentences, heads) for x in (self.keys, self.values))
        return KeysValues(keys, values)

    def grow(self, more: int) -> "KeysValues":
        """A copy with `more` slots added, of zeros."""
        return KeysValues(F.pad(self.keys, (0, 0, 0, more)), F.pad(self.values, (0, 0, 0, more)))


@dataclass(frozen=True)
class TargetCache:
    """The target tokens so far: for each decoder layer the pool of its self-attention; slots are the same in all.

    mask [B, K, N]: 0 where a slot belongs to a hypothesis, else -inf; used: no sentence uses more slots than this;
    counted: the same, perhaps fewer, on its way from a GPU.
    """

    layers: tuple[KeysValues, ...]
    mask: Tensor
    heads: int
    used: int = 0
    counted: LateCopy | None = None

    @staticmethod
    def empty(like: Tensor, sentences: int, layers: int, heads: int, widths: tuple[int, int]) -> "TargetCache":
        """Before the first step, with one hypothesis for each sentence; widths: dk and dv of a head."""
        # Zeros: masked slots are multiplied by 0, which must not meet a NaN.
        keys, values = ((sentences * heads, _SLOTS, width) for width in widths)
        pools = tuple(KeysValues(like.new_zeros(keys), like.new_zeros(values)) for _ in range(layers))
        return TargetCache(pools, like.new_full((sentences, 1, _SLOTS), _MASKED), heads)

    def allocate(self) -> tuple["TargetCache", Tensor]:
        """A slot for the newest position of each hypothesis, already in its mask; and the slots [B·H·K] for `write`."""
        sentences, hypotheses, slots = self.mask.shape
        layers, mask = self.layers, self.mask
        free_or_used = mask.amax(dim=1)  # [B, N]: -inf where a slot is free
        used, counted = self._count(free_or_used)
        if used + hypotheses > slots:
            more = -(-(used + hypotheses - slots) // _SLOTS) * _SLOTS
            layers, slots = tuple(layer.grow(more) for layer in layers), slots + more
            mask, free_or_used = (F.pad(old, (0, more), value=_MASKED) for old in (mask, free_or_used))
        newest = free_or_used.topk(hypotheses, dim=1, largest=False).indices  # [B, K]
        mask = mask.scatter(2, newest[:, :, None], 0.0)
        first = torch.arange(0, sentences * self.heads * slots, slots, device=mask.device)
        numbers = (first.view(sentences, self.heads, 1) + newest[:, None]).flatten()
        return TargetCache(layers, mask, self.heads, used + hypotheses, counted), numbers

    def _count(self, free_or_used: Tensor) -> tuple[int, LateCopy | None]:
        """`used` and `counted` for the mask as it is, whose free_or_used is [B, N]. Slots that became free are not
        counted until new ones seem to be needed; on a GPU one step earlier, so that the program need not wait."""
        _, hypotheses, slots = self.mask.shape
        if not runs_ahead(self.mask.device):
            enough = self.used + hypotheses <= slots
            return self.used if enough else int((free_or_used == 0).sum(dim=1).max()), None
        used = self.used if self.counted is None else min(self.used, self.counted.wait())
        if used + 2 * hypotheses <= slots:
            return used, None
        return used, LateCopy((free_or_used == 0).sum(dim=1).max() + hypotheses)

    def mask_by_head(self) -> Tensor:
        """The mask as attention takes it, [B·H, K, N]."""
        return self.mask[:, None].expand(-1, self.heads, -1, -1).flatten(0, 1)

    def select(self, rows: Tensor, sentences: Tensor | None) -> "TargetCache":
        """Select other hypotheses: rows [B', K'] index the B·K old ones; sentences [B']: theirs, None: unchanged."""
        mask = self.mask.flatten(0, 1).index_select(0, rows.flatten()).view(*rows.shape, -1)
        layers = self.layers if sentences is None else tuple(pool.select(sentences, self.heads) for pool in self.layers)
        return TargetCache(layers, mask, self.heads, self.used, self.counted)


@dataclass(frozen=True)
class SourceCache:
    """The source's keys and values for each decoder layer, and their mask [B·H, 1, N]."""

    layers: tuple[KeysValues, ...]
    mask: Tensor
    heads: int

    @staticmethod
    def build(keys_values: list[tuple[Tensor, Tensor]], tokens: Tensor) -> "SourceCache":
        """From keys and values [B, H, S, ·] of each layer; tokens [B, S]: true at tokens, false at padding."""
        heads, more = keys_values[0][0].shape[1], max(0, _SLOTS - tokens.shape[1])
        layers = tuple(KeysValues(keys.flatten(0, 1), values.flatten(0, 1)).grow(more) for keys, values in keys_values)
        mask = keys_values[0][0].new_zeros(tokens.shape).masked_fill_(~tokens, _MASKED)
        mask = F.pad(mask, (0, more), value=_MASKED).repeat_interleave(heads, dim=0)[:, None]
        return SourceCache(layers, mask, heads)

    def select(self, sentences: Tensor) -> "SourceCache":
        """That of some sentences (indices)."""
        layers = tuple(layer.select(sentences, self.heads) for layer in self.layers)
        return SourceCache(layers, _select_sentences(self.mask, sentences, self.heads), self.heads)


def _by_head(x: Tensor, width: int) -> Tensor:
    """[B, M, H·width] → [B·H, M, width]."""
    return x.view(*x.shape[:2], -1, width).transpose(1, 2).flatten(0, 1)


def _select_sentences(x: Tensor, sentences: Tensor, heads: int) -> Tensor:
    """The rows of these sentences, of [B·H, ...]."""
    return x.view(-1, heads, *x.shape[1:]).index_select(0, sentences).flatten(0, 1)
