"""The interface of a model for search. Options and results of a search are in `options.py`.

Search uses ids and scores only: any object with the five methods of `DecoderModel` can be searched.
Shapes: B sentences still searched, K live hypotheses per sentence, V subwords.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from nmt.config.schema import DecodingConfig
from nmt.decoding.search.options import Hypothesis as Hypothesis
from nmt.decoding.search.options import SearchOptions as SearchOptions
from nmt.decoding.search.options import best_first
from nmt.decoding.search.options import length_penalties as length_penalties

Memory = Any  # the types depend on the model
State = Any


class DecoderModel(Protocol):
    """The methods of a model that search needs. The rows of one sentence are always adjacent."""

    def encode(self, source: Tensor) -> Memory:
        """Encode source ids [B, S]."""

    def start(self, memory: Memory) -> State:
        """The state before the first output token: B sentences of one hypothesis each."""

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The newest token of each hypothesis [B, K] → the input of `scores` [B, K, D], and the next state."""

    def scores(self, hidden: Tensor) -> Tensor:
        """Outputs of `step` for some of the sentences [B', K, D] → scores of the next token [B', K, V].

        Scores are log-probabilities up to a constant for each hypothesis, in float32 or float64. Search overwrites
        them.
        """

    def reorder(self, state: State, rows: Tensor) -> State:
        """The state of hypotheses `rows` [B', K'], which are indices of the B·K old ones.

        The indices of one row of `rows` belong to one old sentence. Sentences stay in order, each at most once. Search
        uses this to widen (B, 1) to (B, K), to select hypotheses of a beam, and to drop finished sentences (B' < B).
        """


@runtime_checkable
class FixedStepModel(DecoderModel, Protocol):
    """A model whose steps have fixed shapes, so that a CUDA graph can compute them."""

    def with_length_tensor(self, state: State, longest: int) -> State:
        """A state for `fixed_step`, whose length is a tensor; for outputs of at most `longest` tokens."""

    def with_room(self, state: State) -> State:
        """The state with room for one more token. It has new shapes if there was none. Call it before `fixed_step`."""

    def fixed_step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """`step` without any decision in the program: it reads only tensors of the state, and keeps their shapes."""


class LogitsProcessor(Protocol):
    """Excludes tokens before search chooses the next ones. An object is used for one search, which calls it at every
    step.

    Every search algorithm takes processors.
    """

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        """Set the scores [B', K, V] of excluded next tokens to -inf. The hypotheses have `length` tokens.

        sentences: selects the B' of the B sentences. Scores are log-probabilities, up to a constant for each
        hypothesis where the search needs no probabilities (SearchOptions.scores).
        """

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Replace the hypotheses: the new ones continue old `rows` with `tokens`, [B', K'] each; see
        `DecoderModel.reorder`."""


def begin(model: DecoderModel, source: Tensor, options: SearchOptions, starts: Tensor | None) -> tuple[State, Tensor]:
    """The state before the first token of an output, and the token to read next, [B, 1]: BOS, or the last one of
    `starts` [B, N] after BOS and the others have been read. Outputs and scores do not include these tokens."""
    state, token = model.start(model.encode(source)), torch.full_like(source[:, :1], options.bos)
    if starts is None:
        return state, token
    for i in range(starts.shape[1]):
        _, state = model.step(state, token)
        token = starts[:, i : i + 1]
    return state, token


def length_penalty_tensor(longest: int, decoding: DecodingConfig) -> Tensor:
    """`length_penalties` as a tensor, float32 on the CPU."""
    return torch.tensor(length_penalties(longest, decoding))


def build_hypotheses(
    steps: Sequence[tuple[Tensor, Tensor, Tensor]], sentences: int, options: SearchOptions
) -> list[list[Hypothesis]]:
    """The N outputs of each sentence, best first, without outputs of probability 0.

    steps: for each step the sentences that it extended [B], their tokens [B, N] and log P of these [B, N]. Tokens after
    the first EOS are ignored.
    """
    _, tokens, log_p = steps[0]
    outputs = tokens.new_full((sentences, tokens.shape[1], len(steps)), options.eos)
    scores = log_p.new_zeros(outputs.shape)
    for step, (extended, tokens, log_p) in enumerate(steps):
        outputs[extended, :, step], scores[extended, :, step] = tokens, log_p
    lengths = (outputs == options.eos).int().argmax(dim=2)  # [B, N]: without EOS
    penalties = length_penalties(outputs.shape[2], options.decoding)
    results: list[list[Hypothesis]] = []
    for sentence in zip(outputs.tolist(), scores.tolist(), lengths.tolist(), strict=True):
        hypotheses = [
            Hypothesis.scored(output[:length], token_scores[: length + 1], penalties)
            for output, token_scores, length in zip(*sentence, strict=True)
        ]
        probable = [hypothesis for hypothesis in hypotheses if hypothesis.log_probability > -math.inf]
        results.append(best_first(probable))
    return results
