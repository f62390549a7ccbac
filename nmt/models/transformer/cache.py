"""The cache of search: keys and values of the source, and of each hypothesis's target tokens so far.

Shapes: B sentences, K hypotheses per sentence, H heads, N slots, dk and dv the widths of a head's keys and values.

The hypotheses of a sentence share one pool of slots, and a mask tells which slots belong to a hypothesis. Reordering
hypotheses copies rows of the mask, not keys and values. Attention applies K queries to one set of keys. A slot that no
longer belongs to a hypothesis is used again. As the hypotheses of a sentence share most of their tokens, a pool needs
hardly more slots than the longest hypothesis has tokens.

A pool has one of two layouts. `KeysByHead` suits a CPU, whose products of small matrices are fast if the numbers of a
head are adjacent. `KeysBySlot` suits a GPU: a step writes the keys and values of all heads in one operation.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.device import LateCopy, runs_ahead

# Slots are added in groups of this size. On a CPU, a softmax over fewer numbers than a vector register holds is ten
# times slower.
_SLOTS = 16
_MASKED = float("-inf")


@dataclass(frozen=True)
class KeysByHead:
    """Keys [B·H, N, dk] and values [B·H, N, dv]; the heads of a sentence are adjacent."""

    keys: Tensor
    values: Tensor
    heads: int

    @classmethod
    def from_heads(cls, keys: Tensor, values: Tensor) -> "KeysByHead":
        """From keys [B, H, N, dk] and values [B, H, N, dv]."""
        return cls(keys.flatten(0, 1), values.flatten(0, 1), keys.shape[1])

    def attention_mask(self, mask: Tensor) -> Tensor:
        """A mask [B, 1 or K, N] as `attend` takes it."""
        return mask[:, None].expand(-1, self.heads, -1, -1).flatten(0, 1)

    def indices(self, slots: Tensor) -> Tensor:
        """Slots [B, K] of each sentence as `write` takes them."""
        heads, count, _ = self.keys.shape
        first = torch.arange(0, heads * count, count, device=slots.device)  # of the B·H·N slots of all heads
        return (first.view(len(slots), self.heads, 1) + slots[:, None]).flatten()

    def attend(self, queries: Tensor, mask: Tensor) -> Tensor:
        """softmax(Q K^T / sqrt(dk)) V (equation 1) of each head.

        Queries [B, K, H·dk]; mask: from `attention_mask`, 0 where a query attends, else -inf → [B, K, H·dv].
        """
        sentences, hypotheses, _ = queries.shape
        width = self.keys.shape[2]
        scores = torch.baddbmm(mask, _by_head(queries, width), self.keys.transpose(1, 2), alpha=width**-0.5)
        heads = torch.bmm(scores.softmax(-1), self.values)  # [B·H, K, dv]
        return heads.view(sentences, -1, hypotheses, heads.shape[2]).transpose(1, 2).flatten(2)

    def write(self, indices: Tensor, new: Tensor) -> None:
        """Write the keys and values of new tokens, [B, K, H·dk + H·dv]; indices: from `indices`."""
        widths = [self.heads * part.shape[2] for part in (self.keys, self.values)]
        for cached, part in zip((self.keys, self.values), torch.split(new, widths, dim=-1), strict=True):
            cached.view(-1, cached.shape[2]).index_copy_(0, indices, _by_head(part, cached.shape[2]).flatten(0, 1))

    def select(self, sentences: Tensor) -> "KeysByHead":
        """The keys and values of some sentences (indices)."""
        keys, values = (
            x.view(-1, self.heads, *x.shape[1:]).index_select(0, sentences).flatten(0, 1)
            for x in (self.keys, self.values)
        )
        return KeysByHead(keys, values, self.heads)

    def grow(self, more: int) -> "KeysByHead":
        """A copy with `more` additional slots, filled with zeros."""
        return KeysByHead(F.pad(self.keys, (0, 0, 0, more)), F.pad(self.values, (0, 0, 0, more)), self.heads)


@dataclass(frozen=True)
class KeysBySlot:
    """Keys and values of all heads side by side, [B, N, H·dk + H·dv]. The methods are those of `KeysByHead`, except
    that masks are [B, 1, 1 or K, N]."""

    both: Tensor
    heads: int
    key_size: int  # dk

    @classmethod
    def from_heads(cls, keys: Tensor, values: Tensor) -> "KeysBySlot":
        both = torch.cat([x.transpose(1, 2).flatten(2) for x in (keys, values)], dim=-1)
        return cls(both, keys.shape[1], keys.shape[3])

    def attention_mask(self, mask: Tensor) -> Tensor:
        return mask[:, None]

    def attend(self, queries: Tensor, mask: Tensor) -> Tensor:
        """As one operation. On a GPU, the number of operations determines the time of a step."""
        _, hypotheses, width = queries.shape
        parts = torch.split(self.both, [width, self.both.shape[2] - width], dim=-1)
        query, keys, values = (x.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for x in (queries, *parts))
        heads = F.scaled_dot_product_attention(query, keys, values, mask.expand(-1, -1, hypotheses, -1))
        return heads.transpose(1, 2).flatten(2)

    def indices(self, slots: Tensor) -> Tensor:
        first = torch.arange(0, len(slots) * self.both.shape[1], self.both.shape[1], device=slots.device)
        return (first[:, None] + slots).flatten()

    def write(self, indices: Tensor, new: Tensor) -> None:
        self.both.view(-1, self.both.shape[2]).index_copy_(0, indices, new.flatten(0, 1))

    def select(self, sentences: Tensor) -> "KeysBySlot":
        return replace(self, both=self.both.index_select(0, sentences))

    def grow(self, more: int) -> "KeysBySlot":
        return replace(self, both=F.pad(self.both, (0, 0, 0, more)))


Pool = KeysByHead | KeysBySlot


def _layout(device: torch.device) -> type[Pool]:
    """The layout that suits a device."""
    return KeysBySlot if device.type == "cuda" else KeysByHead


@dataclass(frozen=True)
class TargetCache:
    """The target tokens so far: the pool of each decoder layer's self-attention, with the same slots in all layers.

    mask [B, K, N]: 0 where a slot belongs to a hypothesis, else -inf; used: an upper bound on the slots that a sentence
    uses after the next step; counted: a newer bound, perhaps lower, which is being copied from a GPU.
    """

    layers: tuple[Pool, ...]
    mask: Tensor
    used: int = 0
    counted: LateCopy | None = None

    @staticmethod
    def empty(like: Tensor, sentences: int, layers: int, heads: int, widths: tuple[int, int]) -> "TargetCache":
        """The cache before the first step, with one hypothesis for each sentence; widths: dk and dv of a head."""
        # Zeros, because masked slots are multiplied by 0, and 0 · NaN would be NaN.
        shapes = [(sentences, heads, _SLOTS, width) for width in widths]
        pools = tuple(_layout(like.device).from_heads(*map(like.new_zeros, shapes)) for _ in range(layers))
        return TargetCache(pools, like.new_full((sentences, 1, _SLOTS), _MASKED))

    def with_room(self) -> "TargetCache":
        """The cache with a free slot for the next token of each hypothesis. Slots are only counted when new ones seem
        necessary; on a GPU one step earlier, so that the program need not wait."""
        _, hypotheses, slots = self.mask.shape
        used, counted = self.used, None
        if runs_ahead(self.mask.device):
            used = used if self.counted is None else min(used, self.counted.wait())
            if used + 2 * hypotheses > slots:
                counted = LateCopy(self._used_slots() + hypotheses)
        elif used + hypotheses > slots:
            used = int(self._used_slots())
        used += hypotheses
        if used <= slots:
            return replace(self, used=used, counted=counted)
        more = -(-(used - slots) // _SLOTS) * _SLOTS
        layers = tuple(layer.grow(more) for layer in self.layers)
        return TargetCache(layers, F.pad(self.mask, (0, more), value=_MASKED), used, counted)

    def _used_slots(self) -> Tensor:
        """The largest number of slots that the hypotheses of a sentence use."""
        return (self.mask.amax(dim=1) == 0).sum(dim=1).max()

    def allocate(self) -> tuple["TargetCache", Tensor]:
        """The cache with a slot for the newest token of each hypothesis, and the indices of these slots for `write`.
        Call `with_room` first."""
        free_first = self.mask.amax(dim=1)  # [B, N]: -inf where a slot is free, 0 where it is used
        newest = free_first.topk(self.mask.shape[1], dim=1, largest=False, sorted=False).indices  # [B, K]
        mask = self.mask.scatter(2, newest[:, :, None], 0.0)
        return replace(self, mask=mask), self.layers[0].indices(newest)

    def attention_mask(self) -> Tensor:
        """The mask for attention."""
        return self.layers[0].attention_mask(self.mask)

    def select(self, rows: Tensor, sentences: Tensor | None) -> "TargetCache":
        """Select hypotheses: rows [B', K'] are indices of the B·K old ones; sentences [B']: the rows' sentences, or
        None if these do not change."""
        mask = self.mask.flatten(0, 1).index_select(0, rows.flatten()).view(*rows.shape, -1)
        layers = self.layers if sentences is None else tuple(pool.select(sentences) for pool in self.layers)
        return replace(self, layers=layers, mask=mask)


@dataclass(frozen=True)
class SourceCache:
    """The source's keys and values for each decoder layer. mask [B, 1, N]: 0 at tokens, -inf at padding;
    attention_mask: the same for attention."""

    layers: tuple[Pool, ...]
    mask: Tensor
    attention_mask: Tensor

    @staticmethod
    def build(keys_values: list[tuple[Tensor, Tensor]], tokens: Tensor) -> "SourceCache":
        """keys_values: keys and values [B, H, S, ·] of each layer; tokens [B, S]: true at tokens, false at padding."""
        more = max(0, _SLOTS - tokens.shape[1])
        layout = _layout(tokens.device)
        layers = tuple(layout.from_heads(keys, values).grow(more) for keys, values in keys_values)
        mask = keys_values[0][0].new_zeros(tokens.shape).masked_fill_(~tokens, _MASKED)
        return SourceCache._build(layers, F.pad(mask, (0, more), value=_MASKED)[:, None])

    @staticmethod
    def _build(layers: tuple[Pool, ...], mask: Tensor) -> "SourceCache":
        return SourceCache(layers, mask, layers[0].attention_mask(mask))

    def select(self, sentences: Tensor) -> "SourceCache":
        """The cache of some sentences (indices)."""
        layers = tuple(layer.select(sentences) for layer in self.layers)
        return SourceCache._build(layers, self.mask.index_select(0, sentences))


def _by_head(x: Tensor, width: int) -> Tensor:
    """[B, M, H·width] → [B·H, M, width]."""
    return x.view(*x.shape[:2], -1, width).transpose(1, 2).flatten(0, 1)
