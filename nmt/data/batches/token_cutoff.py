"""Token cutoff (Shen et al. 2020, "A Simple but Tough-to-Beat Data Augmentation Approach for Natural Language
Understanding and Generation", section 2.2): some tokens of a sentence are read without their embedding, which is zero;
their place is still there. The end of a sentence, BOS and tags are never cut off, and what is to be predicted is
complete.

What is cut off follows from the step of training alone, however the step is split into ranks and micro-batches.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.batches.token_store import Integers
from nmt.data.draws import generator

CUT = -1  # the id of a token that is cut off


class TokenCutoff(NamedTuple):
    """rates: of the tokens that are cut off, in each pass; tags: of each corpus, how many tokens before each source and
    before each target are tags."""

    rates: tuple[float, ...]
    tags: tuple[tuple[int, int], ...] = ((0, 0),)

    @classmethod
    def of(cls, rates: tuple[float, ...], data: schema.DataConfig) -> "TokenCutoff | None":
        """None if nothing is cut off."""
        counts = [map(len, data.tags_of(data.train, side)) for side in (0, 1)]
        return cls(rates, tuple(zip(*counts, strict=True))) if rates else None


class CutTokens(NamedTuple):
    """Which tokens of some sentence pairs are cut off, in each pass: bool [passes, tokens of all sentences]."""

    source: npt.NDArray[np.bool_]
    target: npt.NDArray[np.bool_]

    def of(self, pairs: slice, source_lengths: Integers, target_lengths: Integers) -> "CutTokens":
        """Those of some of the pairs. lengths: of all."""
        parts = []
        for cut, lengths in zip(self, (source_lengths, target_lengths), strict=True):
            first = int(lengths[: pairs.start].sum())
            parts.append(cut[:, first : first + int(lengths[pairs].sum())])
        return CutTokens(*parts)


def draw_cuts(
    source_lengths: Integers, target_lengths: Integers, corpora: Integers, cutoff: TokenCutoff, names: Sequence[int]
) -> CutTokens:
    """lengths: of the sentences [pairs], EOS counted; corpora: the number of each pair's corpus [pairs]; names: numbers
    from which the random numbers follow."""
    random = generator(*names)
    sides = []
    for side, lengths in enumerate((source_lengths, target_lengths)):
        cut = random.random((len(cutoff.rates), int(lengths.sum()))) < np.array(cutoff.rates)[:, None]
        ends = lengths.cumsum()
        cut[:, ends - 1] = False  # EOS
        tags = np.array(cutoff.tags)[corpora, side]
        for number in range(int(tags.max(initial=0))):
            cut[:, (ends - lengths)[tags > number] + number] = False
        sides.append(cut)
    return CutTokens(*sides)
