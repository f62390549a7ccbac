"""What search is given and what a model must offer; its options and results are in `options.py`.

Search knows ids and scores only: anything with the five methods of `DecoderModel` can be searched.
Shapes: B sentences still searched, K live hypotheses a sentence, V subwords.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from nmt.config.schema import DecodingConfig
from nmt.decoding.search.options import Hypothesis as Hypothesis
from nmt.decoding.search.options import SearchOptions as SearchOptions
from nmt.decoding.search.options import best_first
from nmt.decoding.search.options import length_penalties as length_penalties

Memory = Any  # each model has its own types
State = Any


class DecoderModel(Protocol):
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
        hypothesis where the search needs no probabilities (SearchOptions.scores).
        """

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """From now on the hypotheses are those that continue old `rows` with `tokens`, [B', K'] each; see
        `DecoderModel.reorder`."""


def begin(model: DecoderModel, source: Tensor, options: SearchOptions, starts: Tensor | None) -> tuple[State, Tensor]:
    """The state before the first token of an output, and the token that is read then, [B, 1]: BOS, or the last of
    `starts` [B, N], when BOS and the others have been read. Outputs and scores are of what follows."""
    state, token = model.start(model.encode(source)), torch.full_like(source[:, :1], options.bos)
    if starts is None:
        return state, token
    for place in range(starts.shape[1]):
        _, state = model.step(state, token)
        token = starts[:, place : place + 1]
    return state, token


def length_penalty_tensor(longest: int, decoding: DecodingConfig) -> Tensor:
    """`length_penalties` as a tensor, float32 on the CPU."""
    return torch.tensor(length_penalties(longest, decoding))


def build_hypotheses(
    steps: Sequence[tuple[Tensor, Tensor, Tensor]], sentences: int, options: SearchOptions
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
    penalties = length_penalties(outputs.shape[2], options.decoding)
    results: list[list[Hypothesis]] = []
    for of_sentence in zip(outputs.tolist(), scores.tolist(), lengths.tolist(), strict=True):
        hypotheses = [
            Hypothesis.scored(output[:length], token_scores[: length + 1], penalties)
            for output, token_scores, length in zip(*of_sentence, strict=True)
        ]
        probable = [hypothesis for hypothesis in hypotheses if hypothesis.log_probability > -math.inf]
        results.append(best_first(probable))
    return results
