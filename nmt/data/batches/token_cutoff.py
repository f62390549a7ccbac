"""Token cutoff (Shen et al. 2020, "A Simple but Tough-to-Beat Data Augmentation Approach for Natural Language
Understanding and Generation", section 2.2): the embeddings of some tokens are replaced by zero. Their positions stay.
EOS, BOS and tags are never cut off. The tokens to predict are complete.

Which tokens are cut off depends only on the training step, not on how it is split into ranks and micro-batches.
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
    """Settings of token cutoff."""

    rates: tuple[float, ...]  # the share of tokens that each pass cuts off
    tags: tuple[tuple[int, int], ...] = ((0, 0),)  # of each corpus: the number of tags before a source, before a target

    @classmethod
    def from_config(cls, rates: tuple[float, ...], data: schema.DataConfig) -> "TokenCutoff | None":
        """Returns None if nothing is cut off."""
        counts = [map(len, data.tags_of(data.train, side)) for side in (0, 1)]
        return cls(rates, tuple(zip(*counts, strict=True))) if rates else None


class CutTokens(NamedTuple):
    """Whether each token of some sentence pairs is cut off in each pass: bool [passes, tokens of all sentences]."""

    source: npt.NDArray[np.bool_]
    target: npt.NDArray[np.bool_]

    def select(self, pairs: slice | Integers, source_lengths: Integers, target_lengths: Integers) -> "CutTokens":
        """The tokens of some of the pairs. pairs: ascending; source_lengths, target_lengths: of all pairs."""
        selected = np.zeros(len(source_lengths), np.bool_)
        selected[pairs] = True
        return CutTokens(
            *(
                cut[:, np.repeat(selected, lengths)]
                for cut, lengths in zip(self, (source_lengths, target_lengths), strict=True)
            )
        )


def draw_cuts(
    source_lengths: Integers, target_lengths: Integers, corpora: Integers, cutoff: TokenCutoff, names: Sequence[int]
) -> CutTokens:
    """Draw the tokens to cut off.

    source_lengths, target_lengths: lengths of the sentences with EOS [pairs]. corpora: the corpus of each pair [pairs].
    names: the numbers that the random numbers are derived from.
    """
    random = generator(*names)
    sides = []
    for side, lengths in enumerate((source_lengths, target_lengths)):
        cut = random.random((len(cutoff.rates), int(lengths.sum()))) < np.array(cutoff.rates)[:, None]
        ends = lengths.cumsum()
        cut[:, ends - 1] = False  # EOS
        tags = np.array(cutoff.tags)[corpora, side]
        for i in range(int(tags.max(initial=0))):
            cut[:, (ends - lengths)[tags > i] + i] = False
        sides.append(cut)
    return CutTokens(*sides)
