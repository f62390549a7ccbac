"""Packed micro-batches: the sentences of a side lie one after another, in a tensor that always has the same length.

Nothing is computed for padding between sentences, and one shape means one compiled graph for the complete training, and
no attention plans or memory blocks for new shapes on a GPU.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.data.batches.token_cutoff import CUT, CutTokens
from nmt.data.batches.token_store import Integers
from nmt.data.subwords.vocabulary import BOS, PAD

# Rows of PackedBatch.numbers, for each side: the ids that the model reads, and the places of sentences.
_SIDE = 5
_LABELS = 2 * _SIDE
_CORPORA = _LABELS + 1
_READ = _CORPORA + 1
_TILE = 128


@dataclass(frozen=True)
class PackedBatch:
    """One micro-batch on one device: N places for each side, of which the last ones may be empty.

    numbers: int32 [12 + 2P, N], one tensor, so that it is copied to a GPU at once. Rows 0-4 are of the source, rows 5-9
    the decoder's input (BOS, then the target without its EOS); row 10 holds the target, row 11 its corpus. The five
    rows of a side: the ids; where the sentence of each token starts, and where it ends (the place after it); where the
    sentence's other side starts, and where it ends. In empty places ids are PAD and the rest is 0. With token cutoff
    the last rows are the ids of the source and of the decoder's input as each of P passes reads them.
    target_tokens: places of the target that are not empty. longest: no sentence has more tokens.
    """

    numbers: Tensor
    target_tokens: int
    longest: int

    def side(self, number: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The five rows of the source (0) or of the decoder's input (1), [N] each."""
        ids, start, end, other_start, other_end = self.numbers[number * _SIDE : (number + 1) * _SIDE].unbind()
        return ids, start, end, other_start, other_end

    def read(self, number: int) -> Tensor | None:
        """With token cutoff the ids of the source (0) or of the decoder's input (1) as each pass reads them, [P, N]."""
        return self.numbers[_READ + number :: 2] if len(self.numbers) > _READ else None

    @property
    def labels(self) -> Tensor:
        """The target ids, int64 [target_tokens]."""
        return self.numbers[_LABELS, : self.target_tokens].long()

    @property
    def corpora(self) -> Tensor:
        """The corpus of each target token, int64 [target_tokens]."""
        return self.numbers[_CORPORA, : self.target_tokens].long()

    def pinned(self) -> "PackedBatch":
        """The same in page-locked memory, from which it is copied to a GPU asynchronously."""
        return PackedBatch(self.numbers.pin_memory(), self.target_tokens, self.longest)

    def to(self, device: torch.device) -> "PackedBatch":
        """The same on this device."""
        return PackedBatch(self.numbers.to(device, non_blocking=True), self.target_tokens, self.longest)


def pack(
    source: Sequence[Integers],
    target: Sequence[Integers],
    length: int,
    longest: int,
    corpora: Integers | None = None,
    cuts: CutTokens | None = None,
) -> PackedBatch:
    """Pack pairs of id sequences, each of which ends in EOS, into `length` places. corpora: of each pair, if there are
    several; cuts: of these pairs. `longest`: see PackedBatch."""
    passes = 0 if cuts is None else len(cuts.source)
    numbers = np.zeros((_READ + 2 * passes, length), np.int32)
    numbers[[0, _SIDE, _LABELS]] = PAD
    lengths = [np.array([len(row) for row in rows], np.int32) for rows in (source, target)]
    ends = [each.cumsum(dtype=np.int32) for each in lengths]
    starts = [end - each for end, each in zip(ends, lengths, strict=True)]
    for side, rows in enumerate((source, target)):
        used, other = int(lengths[side].sum()), 1 - side
        places = starts[side], ends[side], starts[other], ends[other]
        for row, of_sentence in enumerate(places, start=side * _SIDE + 1):
            numbers[row, :used] = np.repeat(of_sentence, lengths[side])
        if used:
            numbers[_LABELS if side else 0, :used] = np.concatenate(rows)
    used = int(lengths[1].sum())
    numbers[_SIDE, 1:used] = numbers[_LABELS, : max(0, used - 1)]
    numbers[_SIDE, starts[1]] = BOS
    if corpora is not None:
        numbers[_CORPORA, :used] = np.repeat(corpora, lengths[1])
    if cuts is not None:
        for side, cut in enumerate(cuts):
            read = numbers[_READ + side :: 2]
            read[:] = numbers[side * _SIDE]
            shifted = np.roll(cut, side, axis=1)  # the decoder's input has BOS in front, and no EOS, which is never cut
            read[:, : cut.shape[1]][shifted] = CUT
    return PackedBatch(torch.from_numpy(numbers), used, longest)


def packed_length(batch_tokens: int, micro_batch_tokens: int, ranks: int, longest: int) -> int:
    """The places that every micro-batch needs; see `micro_batches.split_evenly`. longest: tokens of a sentence.

    A step has n pairs of at most L tokens with n·L ≤ batch_tokens. In equal numbers on `ranks` ranks, a rank has at
    most n/ranks + 1 pairs, so at most batch_tokens/ranks + L tokens; and the largest part is never larger than that.
    Rounded up to whole tiles of the matrix products: for other numbers of rows a GPU has slower ones.
    """
    needed = min(micro_batch_tokens, -(-batch_tokens // ranks) + (longest if ranks > 1 else 0))
    return -(-needed // _TILE) * _TILE
