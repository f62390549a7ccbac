"""Packed micro-batches: the sentences of a side follow one another in a tensor that always has the same length.

Nothing is computed for padding between sentences. All micro-batches have the same shape, so that training needs one
compiled graph, and a GPU needs no attention plans or memory blocks for new shapes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from nmt.data.batches.token_cutoff import CUT, CutTokens
from nmt.data.batches.token_store import Integers
from nmt.data.subwords.vocabulary import BOS, PAD

# Rows of PackedBatch.numbers for each side: the ids that the model reads, and the bounds of sentences.
_SIDE = 5
_LABELS = 2 * _SIDE
_CORPORA = _LABELS + 1
_READ = _CORPORA + 1


@dataclass(frozen=True)
class PackedBatch:
    """One micro-batch on one device: N positions for each side. The last positions may be empty.

    numbers: int32 [12 + 2P, N]. It is one tensor, so that one copy moves it to a GPU. Rows 0-4 describe the source,
    rows 5-9 the decoder's input (BOS, then the target without its EOS). Row 10 holds the target, row 11 its corpus. The
    five rows of a side are: the ids; the start and the end (exclusive) of each token's sentence; the start and the end
    of the other side of that sentence. In empty positions ids are PAD and the other rows are 0. With token cutoff, the
    last rows are the ids of the source and of the decoder's input as each of P passes reads them.
    """

    numbers: Tensor
    target_tokens: int | None  # positions of the target that are not empty; None: read them from the labels
    longest: int  # no sentence has more tokens

    def side(self, side: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """The five rows of the source (0) or of the decoder's input (1), [N] each."""
        ids, start, end, other_start, other_end = self.numbers[side * _SIDE : (side + 1) * _SIDE].unbind()
        return ids, start, end, other_start, other_end

    def read(self, side: int) -> Tensor | None:
        """The ids of the source (0) or of the decoder's input (1) as each pass reads them, [P, N]; None without token
        cutoff."""
        return self.numbers[_READ + side :: 2] if len(self.numbers) > _READ else None

    @property
    def labels(self) -> Tensor:
        """The target ids, int64 [target_tokens]. If that is None, [N], with PAD in empty positions."""
        return self.numbers[_LABELS, : self.target_tokens].long()

    @property
    def corpora(self) -> Tensor:
        """The corpus of each target token, int64 [target_tokens]. If that is None, [N], with 0 in empty positions."""
        return self.numbers[_CORPORA, : self.target_tokens].long()

    def has_shape_of(self, other: "PackedBatch") -> bool:
        """Whether training computes both batches with the same operations."""
        return self.numbers.shape == other.numbers.shape and self.longest == other.longest

    def pinned(self) -> "PackedBatch":
        """The same batch in page-locked memory, which can be copied to a GPU asynchronously."""
        return PackedBatch(self.numbers.pin_memory(), self.target_tokens, self.longest)

    def to(self, device: torch.device) -> "PackedBatch":
        """The same batch on this device."""
        return PackedBatch(self.numbers.to(device, non_blocking=True), self.target_tokens, self.longest)


def pack(
    source: Sequence[Integers],
    target: Sequence[Integers],
    length: int,
    longest: int,
    corpora: Integers | None = None,
    cuts: CutTokens | None = None,
) -> PackedBatch:
    """Pack pairs of id sequences, each of which ends in EOS, into `length` positions.

    corpora: the corpus of each pair, if there are several. cuts: the tokens of these pairs that are cut off. longest:
    see PackedBatch.
    """
    passes = 0 if cuts is None else len(cuts.source)
    numbers = np.zeros((_READ + 2 * passes, length), np.int32)
    numbers[[0, _SIDE, _LABELS]] = PAD
    lengths = [np.array([len(row) for row in rows], np.int32) for rows in (source, target)]
    ends = [each.cumsum(dtype=np.int32) for each in lengths]
    starts = [end - each for end, each in zip(ends, lengths, strict=True)]
    for side, rows in enumerate((source, target)):
        used, other = int(lengths[side].sum()), 1 - side
        bounds = starts[side], ends[side], starts[other], ends[other]
        for row, sentence_bound in enumerate(bounds, start=side * _SIDE + 1):
            numbers[row, :used] = np.repeat(sentence_bound, lengths[side])
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
            # The decoder's input is shifted by BOS. Its missing EOS is never cut off.
            shifted = np.roll(cut, side, axis=1)
            read[:, : cut.shape[1]][shifted] = CUT
    return PackedBatch(torch.from_numpy(numbers), used, longest)
