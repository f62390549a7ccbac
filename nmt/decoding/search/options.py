"""Options and results of a search. Loads no PyTorch."""

import math
from array import array
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK
from nmt.terms.used_term import UsedTerm

if TYPE_CHECKING:
    from nmt.decoding.search.banned_words import BannedWords


@dataclass(frozen=True)
class Hypothesis:
    """One output for one sentence.

    tokens are without EOS; token_scores are log P of each token given those before it, EOS last; log_probability is
    their sum, log P(Y|X); score is log_probability divided by the length penalty; search maximizes it. spaces: for a
    line that was searched in parts, the white space after each part in the source; terms: of a glossary.
    """

    tokens: list[int]
    score: float
    log_probability: float
    token_scores: list[float]
    spaces: tuple[str, ...] = ()
    terms: tuple[UsedTerm, ...] = ()

    @classmethod
    def scored(cls, tokens: list[int], token_scores: list[float], penalties: Sequence[float]) -> "Hypothesis":
        """A hypothesis whose sum and score are computed. penalties: from `length_penalties`."""
        total = math.fsum(token_scores)
        return cls(tokens, total / penalties[len(token_scores)], total, token_scores)

    @classmethod
    def ended(cls, tokens: list[int], log_probability: float, penalties: Sequence[float]) -> "Hypothesis":
        """A hypothesis without token scores. log_probability: log P of the output, EOS included; the score is
        computed."""
        return cls(tokens, log_probability / penalties[len(tokens) + 1], log_probability, [])


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search: the settings of `decoding`, and options that are no settings.

    n_best: the number of hypotheses (with `method: sample`, samples) to return.
    scores: if False, a search that needs no probabilities does not compute them and returns 0 for each.
    token_scores: if False, a search for which they are extra work leaves Hypothesis.token_scores empty.
    banned_words: finds the words in `decoding.banned`.
    never: ids that no output may contain.
    constrained: whether sources may have a prefix, in this search or another one of the same job.
    """

    decoding: DecodingConfig = DecodingConfig()
    n_best: int = 1
    scores: bool = True
    token_scores: bool = True
    banned_words: "BannedWords | None" = None
    bos: int = BOS
    eos: int = EOS
    never: tuple[int, ...] = (PAD, UNK, BOS)
    constrained: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.width:
            raise ValueError(f"n_best must be from 1 to beam_size {self.decoding.beam_size}, not {self.n_best}")
        if not 0 <= self.decoding.length_penalty < math.inf:
            raise ValueError(f"length_penalty must be a number from 0: {self.decoding.length_penalty}")

    @property
    def width(self) -> int:
        """The number of hypotheses that a search keeps for each sentence."""
        return {"sample": self.n_best, "beam": self.decoding.beam_size}[self.decoding.method]


def best_first(hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
    """Sorted by score."""
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)


def length_penalties(longest: int, decoding: DecodingConfig) -> list[float]:
    """lp(Y), by which log P(Y|X) is divided, for |Y| = 0 … longest, where |Y| counts EOS; float32 numbers.

    gnmt: ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); average: |Y|^α; none: 1. Raises ValueError if one is too
    large for float32: scores would be 0, and outputs could not be compared.
    """
    lengths = range(longest + 1)
    match decoding.normalization:
        case "none":
            return [1.0] * (longest + 1)
        case "gnmt":
            bases = [(5 + length) / 6 for length in lengths]
        case "average":
            bases = [1.0, *lengths[1:]]
        case _:
            assert_never(decoding.normalization)
    with suppress(OverflowError):  # in float64
        # Computed in float64: in float32, rounding could change the order of the penalties.
        penalties = array("f", [base**decoding.length_penalty for base in bases]).tolist()
        if penalties[-1] < math.inf:
            return penalties
    raise ValueError(f"length_penalty: {decoding.length_penalty:g} is too large for outputs of {longest} tokens")
