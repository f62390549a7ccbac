"""What search is given and what it finds: a model's scores and source ids, options, hypotheses.

Search knows ids and scores only: anything with the five methods of `Stepper` can be searched.
Shapes: B sentences still searched, K live hypotheses a sentence, V subwords.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from nmt.decoding.search.banned_words import BannedWords

Memory = Any  # each model has its own types
State = Any


class Stepper(Protocol):
    """A model as search sees it. The rows of one sentence are always together."""

    def encode(self, source: Tensor) -> Memory:
        """Encode source ids [B, S]."""

    def start(self, memory: Memory) -> State:
        """The state before the first output token: B sentences of one hypothesis each."""

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The newest token of each hypothesis [B, K] → the input of `scores` [B, K, D], and the next state."""

    def scores(self, hidden: Tensor) -> Tensor:
        """Outputs of `step` for some of the sentences [B', K, D] → scores of the next token [B', K, V].

        Scores are log-probabilities up to a constant for each hypothesis, in float32 or float64; search overwrites
        them.
        """

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of hypotheses `rows` [B', K'], which index the B·K old ones.

        Each line of rows stays within one old sentence, and the sentences stay in order, each at most once: this
        widens (B, 1) to (B, K), follows the survivors of a beam, and drops finished sentences (B' < B).
        """


class LogitsProcessor(Protocol):
    """Excludes tokens before search chooses. An object serves one search, which calls it at every step.

    Every search algorithm takes processors and works in the same way with and without them.
    """

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        """Set to -inf, in scores [B', K, V], what may not be the next token of hypotheses of `length` tokens.

        sentences: the B' of the B sentences that these are. Scores are log-probabilities, up to a constant for each
        hypothesis where the search needs no probabilities (Options.scores).
        """

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """From now on the hypotheses are those that continue old `rows` with `tokens`, [B', K'] each; see
        `Stepper.reorder`."""


@dataclass(frozen=True)
class Hypothesis:
    """One output for one sentence.

    tokens come without EOS; token_scores are log P of each token given those before it, EOS last;
    log_probability is their sum, log P(Y|X); score is that divided by the length penalty, which search maximizes.
    """

    tokens: list[int]
    score: float
    log_probability: float
    token_scores: list[float]

    @classmethod
    def scored(cls, tokens: list[int], token_scores: list[float], penalties: Sequence[float]) -> "Hypothesis":
        """Compute the sum and the score; `penalties` are what `length_penalties` returns."""
        total = math.fsum(token_scores)
        return cls(tokens, total / penalties[len(token_scores)], total, token_scores)


@dataclass(frozen=True)
class Sampling:
    """How to sample: from the top_k likeliest tokens, and of these from the fewest that together have top_p.

    A temperature below 1 sharpens the distribution, one above 1 flattens it.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None


@dataclass(frozen=True)
class Options:
    """What to search for.

    never: ids that no output may contain (padding, BOS, the unknown subword).
    scores: if False, a search that needs no probabilities does not compute them and returns 0 for each.
    sampling: return n_best samples instead of the best outputs.
    no_repeat_ngram: no output contains an n-gram of this many tokens twice.
    banned: no output contains one of these words.
    continuing: the tokens that continue a word; a required phrase before one of them is not complete.
    coverage_penalty: β of Wu et al. 2016, equation 14, by which the hypotheses that have ended are ranked again.
    """

    bos: int
    eos: int
    never: tuple[int, ...]
    beam_size: int = 4
    length_penalty: float = 0.6
    normalization: Literal["gnmt", "average", "none"] = "gnmt"
    n_best: int = 1
    scores: bool = True
    sampling: Sampling | None = None
    no_repeat_ngram: int | None = None
    banned: BannedWords | None = None
    continuing: frozenset[int] = frozenset()
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam_size:
            raise ValueError(f"n_best must be from 1 to beam_size {self.beam_size}, not {self.n_best}")
        if not 0 <= self.length_penalty < math.inf:
            raise ValueError(f"length_penalty must be a number from 0: {self.length_penalty}")


def length_penalties(longest: int, options: Options) -> Tensor:
    """lp(Y), by which log P(Y|X) is divided, for |Y| = 0 … longest, where |Y| counts EOS.

    gnmt: ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); average: |Y|^α; none: 1. Raises ValueError if one is too
    large for float32: scores would be 0, and outputs could not be compared.
    """
    lengths = torch.arange(longest + 1, dtype=torch.float64)  # in float32 rounding could change their order
    if options.normalization == "none":
        return torch.ones(longest + 1)
    base = (5 + lengths) / 6 if options.normalization == "gnmt" else lengths.clamp(min=1)
    penalties = (base**options.length_penalty).float()
    if not penalties[-1].isfinite():
        raise ValueError(f"length_penalty: {options.length_penalty:g} is too large for outputs of {longest} tokens")
    return penalties


def build_hypotheses(
    steps: Sequence[tuple[Tensor, Tensor, Tensor]], sentences: int, options: Options
) -> list[list[Hypothesis]]:
    """The N outputs of each sentence, best first, without those that have probability 0.

    steps: for each step the sentences that it extended [B], their tokens [B, N] and log P of these [B, N]. What
    follows the first EOS is ignored.
    """
    _, tokens, log_p = steps[0]
    outputs = tokens.new_full((sentences, tokens.shape[1], len(steps)), options.eos)
    scores = log_p.new_zeros(outputs.shape)
    for step, (extended, tokens, log_p) in enumerate(steps):
        outputs[extended, :, step], scores[extended, :, step] = tokens, log_p
    lengths = (outputs == options.eos).int().argmax(dim=2)  # [B, N]: without EOS
    penalties = length_penalties(outputs.shape[2], options).tolist()
    found: list[list[Hypothesis]] = []
    for of_sentence in zip(outputs.tolist(), scores.tolist(), lengths.tolist(), strict=True):
        hypotheses = [
            Hypothesis.scored(output[:length], token_scores[: length + 1], penalties)
            for output, token_scores, length in zip(*of_sentence, strict=True)
        ]
        probable = [one for one in hypotheses if one.log_probability > -math.inf]
        found.append(sorted(probable, key=lambda one: -one.score))
    return found
