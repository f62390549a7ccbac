"""Models that are lookup tables, to be searched in place of networks."""

import itertools
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import strategies as st
from torch import Tensor

from nmt.config.schema import DecodingConfig
from nmt.decoding.search.decoder_model import Hypothesis, SearchOptions

PAD, UNK, BOS, EOS = 0, 1, 2, 3


OPTIONS = SearchOptions()


def changed(options: SearchOptions, **changes: Any) -> SearchOptions:
    """The options with other values; those of settings are given by the settings' names."""
    settings = {field.name for field in fields(DecodingConfig)} & changes.keys()
    decoding = replace(options.decoding, **{name: changes.pop(name) for name in settings})
    return replace(options, decoding=decoding, **changes)


@dataclass(frozen=True)
class Prefixes:
    """A state of `Table`: every hypothesis's sentence [B, K] and its tokens so far [B, K, T]."""

    sentences: Tensor
    tokens: Tensor


class Table:
    """A model without a network: random scores for each (sentence, prefix), looked up by hashing the prefix.

    It sees the whole prefix, so nothing that search gets wrong about histories stays hidden. Sentence i of a
    batch is known by its first source id, not by its place.
    """

    def __init__(self, seed: int, vocabulary: int, spread: float = 2.0, rows: int = 5000):
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(rows, vocabulary, generator=generator, dtype=torch.float64) * spread
        self.steps: list[int] = []  # sentences in each step
        self.scored: list[int] = []  # sentences scored together

    def after(self, sentences: Tensor, prefixes: Tensor) -> Tensor:
        """sentences [...], prefixes [..., T], BOS first → [..., V]."""
        key = sentences.clone()
        for column in prefixes.unbind(-1):
            key = (key * 31 + column + 7) % len(self.table)
        return self.table[key]

    def encode(self, source: Tensor) -> Tensor:
        return source[:, 0]

    def start(self, memory: Tensor) -> Prefixes:
        return Prefixes(memory[:, None], memory.new_zeros(len(memory), 1, 0))

    def step(self, state: Prefixes, tokens: Tensor) -> tuple[Tensor, Prefixes]:
        assert tokens.shape == state.sentences.shape
        self.steps.append(len(tokens))
        state = Prefixes(state.sentences, torch.cat([state.tokens, tokens[:, :, None]], dim=2))
        return self.after(state.sentences, state.tokens), state

    def scores(self, hidden: Tensor) -> Tensor:
        self.scored.append(len(hidden))
        return hidden

    def reorder(self, state: Prefixes, rows: Tensor) -> Prefixes:
        old = state.sentences.shape[1]
        assert (rows // old == rows[:, :1] // old).all(), "a line of rows mixes sentences"
        assert (rows[:, 0].diff() > 0).all(), "sentences out of order"
        return Prefixes(state.sentences.flatten()[rows], state.tokens.flatten(0, 1)[rows])


@dataclass(frozen=True)
class FixedPrefixes:
    """A state of `FixedTable`: like `Prefixes`, with tokens [B, K, most] of which the first `length` [1] are used."""

    sentences: Tensor
    tokens: Tensor
    length: Tensor


class FixedTable(Table):
    """The same model with steps of fixed shapes."""

    def __init__(self, table: Table):
        self.table, self.steps, self.scored, self.original = table.table, [], [], table

    def after(self, sentences: Tensor, prefixes: Tensor) -> Tensor:
        return self.original.after(sentences, prefixes)

    def with_length_tensor(self, state: Prefixes, longest: int) -> FixedPrefixes:
        return FixedPrefixes(state.sentences, F.pad(state.tokens, (0, longest + 1)), torch.zeros(1, dtype=torch.long))

    def with_room(self, state: FixedPrefixes) -> FixedPrefixes:
        return state

    def fixed_step(self, state: FixedPrefixes, tokens: Tensor) -> tuple[Tensor, FixedPrefixes]:
        self.steps.append(len(tokens))
        state.tokens.index_copy_(2, state.length, tokens[:, :, None])
        length = state.length + 1
        return self.after(state.sentences, state.tokens[:, :, : int(length)]), replace(state, length=length)

    def reorder(self, state: Any, rows: Tensor) -> Any:
        if isinstance(state, Prefixes):
            return super().reorder(state, rows)
        selected = super().reorder(Prefixes(state.sentences, state.tokens), rows)
        return FixedPrefixes(selected.sentences, selected.tokens, state.length)


def log_probabilities(table: Table, sentence: int, prefix: list[int]) -> list[float]:
    scores = table.after(torch.tensor(sentence), torch.tensor([BOS, *prefix]))
    return scores.log_softmax(-1).tolist()


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def assert_same(
    found: list[Hypothesis], ranked: list[Hypothesis], n: int | None = None, rounding: float = 1e-6
) -> None:
    """What was found are the n best of a ranking, best first; which come first of those that only rounding tells
    apart does not matter. rounding: of scores, as a share of them."""
    of_tokens = {tuple(hypothesis.tokens): hypothesis for hypothesis in ranked}
    assert len({tuple(hypothesis.tokens) for hypothesis in found}) == len(found)
    for mine, other in zip(found, ranked[:n], strict=True):
        assert tuple(mine.tokens) in of_tokens
        own = of_tokens[tuple(mine.tokens)]
        assert mine.score == pytest.approx(own.score, rel=rounding)
        assert mine.score == pytest.approx(other.score, rel=rounding)
        assert mine.log_probability == pytest.approx(own.log_probability, rel=rounding)
        if own.token_scores:
            assert mine.token_scores == pytest.approx(own.token_scores, rel=rounding, abs=rounding)


def told_apart(scores: list[float]) -> bool:
    """Whether no choice among these, in falling order, depends on rounding."""
    return all(one - other > 1e-9 for one, other in itertools.pairwise(scores))


def all_outputs(table: Table, sentence: int, longest: int, alpha: float) -> list[Hypothesis]:
    """Every output of up to `longest` tokens with its score, best first."""
    allowed = [token for token in range(table.table.shape[1]) if token not in (PAD, UNK, BOS, EOS)]
    found = []
    for length in range(longest + 1):
        for tokens in map(list, itertools.product(allowed, repeat=length)):
            steps = [log_probabilities(table, sentence, tokens[:i]) for i in range(length + 1)]
            token_scores = [log_p[token] for log_p, token in zip(steps, [*tokens, EOS], strict=True)]
            total = sum(token_scores)
            found.append(Hypothesis(tokens, total / penalty(length + 1, alpha), total, token_scores))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def assert_equal(found: list[list[Hypothesis]], expected: list[list[Hypothesis]], rounding: float = 1e-6) -> None:
    """The same of each sentence but for rounding, which depends on the shapes of the batch."""
    for mine, other in zip(found, expected, strict=True):
        assert_same(mine, other, rounding=rounding)


alphas = st.sampled_from([0.0, 0.3, 0.6, 1.0, 2.0])


seeds = st.integers(0, 10**6)
