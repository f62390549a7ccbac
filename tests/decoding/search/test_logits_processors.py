"""Beam search, alone and with logits processors, against a plain one that looks at complete outputs."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from helpers.tables import (
    BOS,
    EOS,
    OPTIONS,
    Table,
    assert_equal,
    assert_same,
    changed,
    log_probabilities,
    penalty,
    told_apart,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.decoding.search import beam, logits_processors
from nmt.decoding.search.decoder_model import Hypothesis, LogitsProcessor, SearchOptions
from nmt.decoding.search.search import search

CPU = torch.device("cpu")
PIECES = ["<pad>", "<unk>", "<s>", "</s>", "▁a", "b", "▁c", "a", "▁b"]
V = len(PIECES)

Allowed = Callable[[int, list[int], int], bool]  # sentence, tokens so far, the next


def plain_beam(table: Table, sentence: int, longest: int, options: SearchOptions, allowed: Allowed) -> list[Hypothesis]:
    """Beam search for one sentence as one would explain it; it never stops because nothing better can come.

    All that ended, best first. An example in which rounding decides what lives on is none."""
    live: list[tuple[float, list[int], list[float]]] = [(0.0, [], [])]
    ended: list[Hypothesis] = []
    for length in range(longest + 1):
        candidates = [
            (total + value, [*tokens, token], [*scores, value])
            for total, tokens, scores in live
            for token, value in enumerate(log_probabilities(table, sentence, tokens))
            if token not in options.never and (length < longest or token == EOS) and allowed(sentence, tokens, token)
        ]
        candidates.sort(key=lambda candidate: -candidate[0])
        assume(told_apart([total for total, *_ in candidates]))
        for total, tokens, scores in candidates[: options.decoding.beam_size]:
            if tokens[-1] == EOS:
                lp = penalty(len(tokens), options.decoding.length_penalty)
                ended.append(Hypothesis(tokens[:-1], total / lp, total, scores))
        live = [candidate for candidate in candidates if candidate[1][-1] != EOS][: options.decoding.beam_size]
        if len(ended) >= options.decoding.beam_size or not live:
            break
    return sorted(ended, key=lambda hypothesis: -hypothesis.score)


def check(
    made: Sequence[LogitsProcessor],
    allowed: Allowed,
    seed: int,
    size: int,
    longest: list[int],
    vocabulary: int = V,
    **options: Any,
) -> None:
    """Batched, in parts, stopping early, dropping what is finished = one by one, running to the end, copying lists."""
    table = Table(seed, vocabulary)
    options_ = changed(OPTIONS, beam_size=size, **{"n_best": size, **options})
    source = torch.tensor([[sentence, EOS] for sentence in range(len(longest))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(beam, "SCORED_AT_ONCE", 1 + seed % 9)  # so that processors get slices of the sentences
        found = search(table, source, torch.tensor(longest), options_, made)
    assert len(found) == len(longest)
    for sentence, hypotheses in enumerate(found):
        assert_same(hypotheses, plain_beam(table, sentence, longest[sentence], options_, allowed), options_.n_best)


seeds, sizes = st.integers(0, 10**6), st.integers(1, 4)
limits = st.lists(st.integers(3, 9), min_size=1, max_size=6)


@settings(max_examples=15, deadline=None)
@given(seed=seeds, size=sizes, longest=limits, data=st.data())
def test_no_end_before_the_shortest_length(seed: int, size: int, longest: list[int], data: st.DataObject) -> None:
    shortest = [data.draw(st.integers(0, limit)) for limit in longest]

    def allowed(sentence: int, tokens: list[int], token: int) -> bool:
        return token != EOS or len(tokens) >= shortest[sentence]

    check([logits_processors.MinLength(torch.tensor(shortest), EOS)], allowed, seed, size, longest)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, size=sizes, longest=limits, n=st.integers(1, 3))
def test_no_ngram_comes_twice(seed: int, size: int, longest: list[int], n: int) -> None:
    def allowed(sentence: int, tokens: list[int], token: int) -> bool:
        whole = [*tokens, token]
        ngrams = [tuple(whole[i : i + n]) for i in range(len(whole) - n + 1)]
        return token == EOS or ngrams.count(tuple(whole[-n:])) <= 1 or len(whole) < n

    check([logits_processors.NoRepeatNgram(n, len(longest), CPU)], allowed, seed, size, longest)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, size=sizes, longest=limits, data=st.data())
def test_outputs_begin_with_their_prefix_whatever_is_banned(
    seed: int, size: int, longest: list[int], data: st.DataObject
) -> None:
    prefixes = [data.draw(st.lists(st.integers(4, V - 1), max_size=3)) for _ in longest]

    def allowed(sentence: int, tokens: list[int], token: int) -> bool:
        place = len(tokens)
        if place < len(prefixes[sentence]):
            return token == prefixes[sentence][place]
        return token == EOS or token not in tokens

    others = [logits_processors.NoRepeatNgram(1, len(longest), CPU)]
    check([logits_processors.ForcedPrefix(prefixes, others, CPU)], allowed, seed, size, longest)


class Nothing:
    """A processor that excludes nothing, and checks what it is given."""

    def __init__(self, sentences: int):
        self.shape, self.slices = (sentences, 1), list[int]()

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        rows, hypotheses, _ = scores.shape
        assert (len(range(self.shape[0])[sentences]), self.shape[1]) == (rows, hypotheses)
        self.slices.append(rows)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        assert rows.shape == tokens.shape
        assert rows.max() < self.shape[0] * self.shape[1]
        self.shape = tokens.shape[0], tokens.shape[1]


@pytest.mark.parametrize(
    "options",
    [{"beam_size": 1}, {"beam_size": 3, "n_best": 3, "method": "sample"}],
    ids=["greedy with scores", "samples"],
)
def test_a_processor_changes_neither_the_algorithm_nor_the_result(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that excludes nothing: the same scores to the last bit, from the same steps of the same slices."""
    monkeypatch.setattr(beam, "SCORED_AT_ONCE", 32)
    count = 60
    source = torch.tensor([[sentence, EOS] for sentence in range(count)])
    limits = torch.tensor([1 + 7 * i % 20 for i in range(count)])

    def run(processors: Sequence[LogitsProcessor]) -> tuple[list[list[Hypothesis]], list[int]]:
        table = Table(5, 40)
        found = search(table, source, limits, changed(OPTIONS, **options), processors, seeds=range(count))
        return found, table.scored

    nothing = Nothing(count)
    assert run([nothing]) == run([])
    assert nothing.slices == run([])[1]
    sliced = options["beam_size"] > 1 and "method" not in options
    assert (max(nothing.slices[1:]) < 32) if sliced else (nothing.slices[0] == count)


@settings(max_examples=20, deadline=None)
@given(seed=seeds, longest=limits, data=st.data())
def test_greedy_search_with_processors_is_a_beam_of_one(seed: int, longest: list[int], data: st.DataObject) -> None:
    """With and without scores, also where nothing is allowed any more."""
    shortest = [data.draw(st.integers(0, limit)) for limit in longest]
    source = torch.tensor([[sentence, EOS] for sentence in range(len(longest))])
    options = changed(OPTIONS, beam_size=1)

    def made() -> list[LogitsProcessor]:
        return [
            logits_processors.MinLength(torch.tensor(shortest), EOS),
            logits_processors.NoRepeatNgram(1, len(longest), CPU),
        ]

    expected = beam.beam_search(Table(seed, V), source, torch.tensor(longest), options, made())
    assert_equal(search(Table(seed, V), source, torch.tensor(longest), options, made()), expected)
    plain = search(Table(seed, V), source, torch.tensor(longest), changed(options, scores=False), made())
    assert [[one.tokens for one in each] for each in plain] == [[one.tokens for one in each] for each in expected]


def test_where_nothing_is_allowed_nothing_is_found() -> None:
    """Four tokens at least, none of them twice, and three to choose from."""
    table = Table(1, 7)
    made = [logits_processors.MinLength(torch.tensor([4, 0]), EOS), logits_processors.NoRepeatNgram(1, 2, CPU)]
    source = torch.tensor([[0, EOS], [1, EOS]])
    found = search(table, source, torch.tensor([6, 6]), changed(OPTIONS, beam_size=1), made)
    assert found[0] == []
    assert found[1][0].log_probability > -math.inf
    assert BOS not in found[1][0].tokens
