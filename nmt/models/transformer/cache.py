"""The cache of search: keys and values of the source, and of each hypothesis's target tokens so far.

Shapes: B sentences, K hypotheses per sentence, H heads, N slots, dk and dv the widths of a head's keys and values.

The hypotheses of a sentence share one pool of slots, and a mask tells which slots belong to a hypothesis. Reordering
hypotheses copies rows of the mask, not keys and values. Attention applies K queries to one set of keys. A slot that no
longer belongs to a hypothesis is used again. As the hypotheses of a sentence share most of their tokens, a pool needs
hardly more slots than the longest hypothesis has tokens.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.device import LateCopy, runs_ahead

# Slots are added in groups of this size. On a CPU, a softmax over fewer numbers than a vector register holds is ten
# times slower.
_SLOTS = 16
_MASKED = float("-inf")


@dataclass(frozen=True)
class KeysValues:
    """Keys [B·H, N, dk] and values [B·H, N, dv]; the heads of a sentence are adjacent."""

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
        """`attend` as one operation. On a GPU, the number of operations determines the time of a step."""
        sentences, hypotheses, _ = queries.shape
        query = queries.view(sentences, hypotheses, -1, self.keys.shape[2]).transpose(1, 2)  # [B, H, K, dk]
        keys, values, mask = (x.view(sentences, -1, *x.shape[1:]) for x in (self.keys, self.values, mask))
        heads = F.scaled_dot_product_attention(query, keys, values, mask.expand(-1, -1, hypotheses, -1))
        return heads.transpose(1, 2).flatten(2)

    def write(self, slots: Tensor, keys: Tensor, values: Tensor) -> None:
        """Write keys [B, M, H·dk] and values [B, M, H·dv] to slots [B·H·M], which are indices into all B·H·N slots."""
        for cached, new in ((self.keys, keys), (self.values, values)):
            cached.view(-1, cached.shape[2]).index_copy_(0, slots, _by_head(new, cached.shape[2]).flatten(0, 1))

    def select(self, sentences: Tensor, heads: int) -> "KeysValues":
        """The keys and values of some sentences (indices)."""
        keys, values = (_select_sentences(x, sentences, heads) for x in (self.keys, self.values))
        return KeysValues(keys, values)

    def grow(self, more: int) -> "KeysValues":
        """A copy with `more` additional slots, filled with zeros."""
        return KeysValues(F.pad(self.keys, (0, 0, 0, more)), F.pad(self.values, (0, 0, 0, more)))


@dataclass(frozen=True)
class TargetCache:
    """The target tokens so far: the pool of each decoder layer's self-attention, with the same slots in all layers.

    mask [B, K, N]: 0 where a slot belongs to a hypothesis, else -inf; used: an upper bound on the slots that a sentence
    uses; counted: a newer bound, perhaps lower, which is being copied from a GPU.
    """

    layers: tuple[KeysValues, ...]
    mask: Tensor
    heads: int
    used: int = 0
    counted: LateCopy | None = None

    @staticmethod
    def empty(like: Tensor, sentences: int, layers: int, heads: int, widths: tuple[int, int]) -> "TargetCache":
        """The cache before the first step, with one hypothesis for each sentence; widths: dk and dv of a head."""
        # Zeros, because masked slots are multiplied by 0, and 0 · NaN would be NaN.
        keys, values = ((sentences * heads, _SLOTS, width) for width in widths)
        pools = tuple(KeysValues(like.new_zeros(keys), like.new_zeros(values)) for _ in range(layers))
        return TargetCache(pools, like.new_full((sentences, 1, _SLOTS), _MASKED), heads)

    def allocate(self) -> tuple["TargetCache", Tensor]:
        """The cache with a slot for the newest position of each hypothesis, and the slots [B·H·K] for `write`."""
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
        newest_slots = (first.view(sentences, self.heads, 1) + newest[:, None]).flatten()
        return TargetCache(layers, mask, self.heads, used + hypotheses, counted), newest_slots

    def _count(self, free_or_used: Tensor) -> tuple[int, LateCopy | None]:
        """`used` and `counted` for the present mask. free_or_used [B, N]: -inf for free slots, 0 for used ones. Slots
        are only counted when new ones seem necessary; on a GPU one step earlier, so that the program need not wait."""
        _, hypotheses, slots = self.mask.shape
        if not runs_ahead(self.mask.device):
            enough = self.used + hypotheses <= slots
            return self.used if enough else int((free_or_used == 0).sum(dim=1).max()), None
        used = self.used if self.counted is None else min(self.used, self.counted.wait())
        if used + 2 * hypotheses <= slots:
            return used, None
        return used, LateCopy((free_or_used == 0).sum(dim=1).max() + hypotheses)

    def mask_by_head(self) -> Tensor:
        """The mask for attention, [B·H, K, N]."""
        return self.mask[:, None].expand(-1, self.heads, -1, -1).flatten(0, 1)

    def select(self, rows: Tensor, sentences: Tensor | None) -> "TargetCache":
        """Select hypotheses: rows [B', K'] are indices of the B·K old ones; sentences [B']: the rows' sentences, or
        None if these do not change."""
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
        """keys_values: keys and values [B, H, S, ·] of each layer; tokens [B, S]: true at tokens, false at padding."""
        heads, more = keys_values[0][0].shape[1], max(0, _SLOTS - tokens.shape[1])
        layers = tuple(KeysValues(keys.flatten(0, 1), values.flatten(0, 1)).grow(more) for keys, values in keys_values)
        mask = keys_values[0][0].new_zeros(tokens.shape).masked_fill_(~tokens, _MASKED)
        mask = F.pad(mask, (0, more), value=_MASKED).repeat_interleave(heads, dim=0)[:, None]
        return SourceCache(layers, mask, heads)

    def select(self, sentences: Tensor) -> "SourceCache":
        """The cache of some sentences (indices)."""
        layers = tuple(layer.select(sentences, self.heads) for layer in self.layers)
        return SourceCache(layers, _select_sentences(self.mask, sentences, self.heads), self.heads)


def _by_head(x: Tensor, width: int) -> Tensor:
    """[B, M, H·width] → [B·H, M, width]."""
    return x.view(*x.shape[:2], -1, width).transpose(1, 2).flatten(0, 1)


def _select_sentences(x: Tensor, sentences: Tensor, heads: int) -> Tensor:
    """The rows of some sentences (indices), of [B·H, ...]."""
    return x.view(-1, heads, *x.shape[1:]).index_select(0, sentences).flatten(0, 1)
