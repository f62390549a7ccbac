"""What search is given and what it finds: a model's scores and source ids, options, hypotheses.

Search knows ids and scores only: anything with the four methods of `Stepper` can be searched.
Shapes: B sentences still searched, K live hypotheses a sentence, V subwords.
"""

from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

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
        """The newest token of each hypothesis [B, K] → scores of the next, [B, K, V], and the state after it.

        Scores are log-probabilities up to a constant a row, in float32 or float64; search overwrites them.
        """

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of hypotheses `rows` [B', K'], which index the B·K old ones.

        Each line of rows stays within one old sentence, and the sentences stay in order: this widens
        (B, 1) to (B, K), follows the survivors of a beam, and drops finished sentences (B' < B).
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


@dataclass(frozen=True)
class Options:
    """What to search for.

    `never` are ids that no output may hold (padding, BOS, the unknown subword). Without `scores` a search that can
    do without probabilities gives 0 for all of them.
    """

    bos: int
    eos: int
    never: tuple[int, ...]
    beam_size: int = 4
    length_penalty: float = 0.6
    n_best: int = 1
    scores: bool = True

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam_size:
            raise ValueError(f"n_best must be from 1 to beam_size {self.beam_size}, not {self.n_best}")
        if self.length_penalty < 0:
            raise ValueError(f"length_penalty must not be negative: {self.length_penalty}")


def length_penalties(longest: int, alpha: float) -> Tensor:
    """lp(Y) = ((5 + |Y|) / 6)^α (Wu et al. 2016, equation 14) of |Y| = 0 … longest, EOS counted in |Y|."""
    lengths = torch.arange(longest + 1, dtype=torch.float64)  # else rounding might not leave them in order
    return (((5 + lengths) / 6) ** alpha).float()
