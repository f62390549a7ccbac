"""Scores for kept pairs that look wrong. The report shows the most extreme pairs for each kind of fault."""

import numpy as np
import numpy.typing as npt

from nmt.data.cleaning.rules.characters import DIGIT, TextLines
from nmt.data.cleaning.rules.judge import Judgement, Rule
from nmt.data.sources.corpus import Pair

_SHORTEST = 10  # subwords: a shorter side can be very different in length by chance, or hard to cut
_SMALL_RATIO = 2  # a smaller ratio of lengths is normal between many languages
_NEVER = float("inf")


def suspicions(
    pairs: list[Pair], lines: tuple[TextLines, ...], lengths: npt.NDArray[np.int64], odd: npt.NDArray[np.int64]
) -> Judgement:
    """Score pairs. The higher the score, the more suspicious is the pair; 0 means not at all. No pair is dropped.

    lines: both sides. lengths: of both sides in subwords [2, pairs]. odd: the number of these subwords that are unknown
    or single bytes [2, pairs].
    """
    long = lengths.max(axis=0) >= _SHORTEST
    equal = np.fromiter((source == target for source, target in pairs), np.bool_, len(pairs))
    digits = np.array([side.count_kind(DIGIT) for side in lines])
    characters = np.array([side.lengths for side in lines])
    scores = {
        "longer_target": np.where(long & (lengths[1] > _SMALL_RATIO * lengths[0]), lengths[1] / lengths[0], 0),
        "longer_source": np.where(long & (lengths[0] > _SMALL_RATIO * lengths[1]), lengths[0] / lengths[1], 0),
        "equal": np.where(equal, characters[0], 0),
        # Constants in the denominators: one digit against none is little evidence, and so is one unknown subword.
        "digits": np.abs(digits[0] - digits[1]) / (digits.max(axis=0) + 2),
        "unknown": (odd / (lengths + 4)).max(axis=0),
        "small_subwords": np.where(lengths >= _SHORTEST, lengths / np.maximum(1, characters), 0).max(axis=0),
    }
    rules = tuple(Rule(name, _NEVER, None) for name in scores)
    return Judgement(rules, np.array(list(scores.values()), np.float32), np.full(len(pairs), -1))
