"""What search is given and what it finds: a model's scores and source ids, options, hypotheses.

Search knows ids and scores only: anything with the five methods of `Stepper` can be searched.
Shapes: B sentences still searched, K live hypotheses a sentence, V subwords.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import torch
from torch import Tensor

from nmt.decoding.search.banned_words import Words

Memory = TypeVar("Memory")
State = TypeVar("State")

DROP_SHARE = 8  # finished sentences leave the batch together, once they are at least one in so many
BLOCK = 64  # neighbouring subwords of which first only the maximum is looked at: maxima alone are cheap


class Stepper(Protocol[Memory, State]):
    """A model as search sees it. Rows of one sentence are always together."""

    def encode(self, source: Tensor) -> Memory:
        """Source ids [B, S] → what is known of them."""

    def start(self, memory: Memory) -> State:
        """The state before the first output token: B sentences of one hypothesis each."""

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The newest token of each hypothesis [B, K] → what `scores` takes, [B, K, D], and the state after it."""

    def scores(self, hidden: Tensor) -> Tensor:
        """What `step` gave for some sentences, [B', K, D] → scores of the next token, [B', K, V].

        Scores are log-probabilities up to a constant a row, in float32 or float64; search overwrites them.
        """

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of hypotheses `rows` [B', K'], which index the B·K old ones.

        Each line of rows stays within one old sentence, and the sentences stay in order: this widens
        (B, 1) to (B, K), follows the survivors of a beam, and drops finished sentences (B' < B).
        """


class LogitsProcessor(Protocol):
    """Takes tokens away before search chooses. Made for one search, and told of each of its steps."""

    def apply(self, log_p: Tensor, length: int) -> None:
        """Set to -inf, in log_p [B, K, V], what may not be the next token of hypotheses of `length` tokens."""

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """From now on the hypotheses are those that continue old `rows` (of B·K) with `tokens`, [B', K'] each.

        Each line of rows stays within one old sentence, and the sentences stay in order.
        """


@dataclass(frozen=True)
class Hypothesis:
    """One output for one sentence.

    tokens come without EOS; token_scores are log P of each token given those before it, EOS last;
    log_probability is their sum, log P(Y|X); score is that over the length penalty, what is searched for.
    """

    tokens: list[int]
    score: float
    log_probability: float
    token_scores: list[float]

    @classmethod
    def scored(cls, tokens: list[int], token_scores: list[float], penalties: Sequence[float]) -> "Hypothesis":
        """From what it holds; `penalties` are what `length_penalties` gives."""
        total = math.fsum(token_scores)
        return cls(tokens, total / penalties[len(token_scores)], total, token_scores)


@dataclass(frozen=True)
class Sampling:
    """How to draw: from the top_k likeliest, of these from the fewest that have top_p together; temperature
    below 1 sharpens, above 1 flattens the distribution."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None


@dataclass(frozen=True)
class Options:
    """What to search for.

    `never` are ids that no output may hold (padding, BOS, the unknown subword). Without `scores` a search that can
    do without probabilities gives 0 for all of them. With `sampling`, what is found are n_best samples.
    An output holds no n-gram of no_repeat_ngram tokens twice, and no `banned` word; `continuing` are
    the tokens that go on with a word, before which a required phrase has not ended. The coverage penalty is β of Wu
    et al. 2016, equation 14, by which what has ended is ranked once more.
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
    banned: Words | None = None
    continuing: frozenset[int] = frozenset()
    coverage_penalty: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam_size:
            raise ValueError(f"n_best must be from 1 to beam_size {self.beam_size}, not {self.n_best}")
        if not 0 <= self.length_penalty < math.inf:
            raise ValueError(f"length_penalty must be a number from 0: {self.length_penalty}")


def length_penalties(longest: int, options: Options) -> Tensor:
    """lp(Y), by which log P(Y|X) is divided, of |Y| = 0 … longest, EOS counted in |Y|.

    gnmt: ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14); average: |Y|^α; none: 1. Raises ValueError where one is too
    large for float32, by which scores would be 0 and outputs no longer told apart.
    """
    lengths = torch.arange(longest + 1, dtype=torch.float64)  # else rounding might not leave them in order
    if options.normalization == "none":
        return torch.ones(longest + 1)
    base = (5 + lengths) / 6 if options.normalization == "gnmt" else lengths.clamp(min=1)
    penalties = (base**options.length_penalty).float()
    if not penalties[-1].isfinite():
        raise ValueError(f"length_penalty: {options.length_penalty:g} is too large for outputs of {longest} tokens")
    return penalties


def spelled(outputs: Tensor, log_p: Tensor, options: Options) -> list[list[Hypothesis]]:
    """The N outputs of each sentence, best first, those without a probability left out.

    outputs and log_p [B, N, T]: tokens, and log P of each, that count up to the first EOS.
    """
    lengths = (outputs == options.eos).int().argmax(dim=2)  # [B, N]: EOS left out
    penalties = length_penalties(outputs.shape[2], options).tolist()
    found: list[list[Hypothesis]] = []
    for of_sentence in zip(outputs.tolist(), log_p.tolist(), lengths.tolist(), strict=True):
        hypotheses = [
            Hypothesis.scored(tokens[:length], scores[: length + 1], penalties)
            for tokens, scores, length in zip(*of_sentence, strict=True)
        ]
        probable = [one for one in hypotheses if one.log_probability > -math.inf]
        found.append(sorted(probable, key=lambda one: -one.score))
    return found
