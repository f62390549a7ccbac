"""Rules against a plain beam search that looks at whole outputs, on models that are lookup tables."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from helpers.tables import BOS, EOS, OPTIONS, Table, assert_same, log_probabilities, penalty, told_apart
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nmt.decoding.search import logits_processors
from nmt.decoding.search.banned_words import Words
from nmt.decoding.search.interface import Hypothesis, LogitsProcessor, Options
from nmt.decoding.search.search import search

CPU = torch.device("cpu")
PIECES = ["<pad>", "<unk>", "<s>", "</s>", "▁a", "b", "▁c", "a", "▁b"]
V = len(PIECES)

Allowed = Callable[[int, list[int], int], bool]  # sentence, tokens so far, the next


def plain_beam(table: Table, sentence: int, longest: int, options: Options, allowed: Allowed) -> list[Hypothesis]:
    """Beam search for one sentence, a candidate at a time: all that ended, best first. An example in which rounding
    decides what lives on is none."""
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[Hypothesis] = []
    for length in range(longest + 1):
        candidates = [
            (total + value, [*tokens, token])
            for total, tokens in live
            for token, value in enumerate(log_probabilities(table, sentence, tokens))
            if token not in options.never and (length < longest or token == EOS) and allowed(sentence, tokens, token)
        ]
        candidates.sort(key=lambda candidate: -candidate[0])
        assume(told_apart([total for total, _ in candidates]))
        for total, tokens in candidates[: options.beam_size]:
            if tokens[-1] == EOS:
                lp = penalty(len(tokens), options.length_penalty)
                ended.append(Hypothesis(tokens[:-1], total / lp, total, []))
        live = [candidate for candidate in candidates if candidate[1][-1] != EOS][: options.beam_size]
        if len(ended) >= options.beam_size or not live:
            break
    return sorted(ended, key=lambda hypothesis: -hypothesis.score)


def check(made: Sequence[LogitsProcessor], allowed: Allowed, seed: int, size: int, longest: list[int]) -> None:
    table = Table(seed, V)
    options = replace(OPTIONS, beam_size=size, n_best=size)
    source = torch.tensor([[sentence, EOS] for sentence in range(len(longest))])
    found = search(table, source, torch.tensor(longest), options, made)
    for sentence, hypotheses in enumerate(found):
        assert_same(hypotheses, plain_beam(table, sentence, longest[sentence], options, allowed), size)


seeds, sizes = st.integers(0, 10**6), st.integers(1, 4)
limits = st.lists(st.integers(3, 9), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes, longest=limits, data=st.data())
def test_no_end_before_the_shortest_length(seed: int, size: int, longest: list[int], data: st.DataObject) -> None:
    shortest = [data.draw(st.integers(0, limit)) for limit in longest]

    def allowed(sentence: int, tokens: list[int], token: int) -> bool:
        return token != EOS or len(tokens) >= shortest[sentence]

    check([logits_processors.Shortest(torch.tensor(shortest), EOS)], allowed, seed, size, longest)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes, longest=limits, n=st.integers(1, 3))
def test_no_ngram_comes_twice(seed: int, size: int, longest: list[int], n: int) -> None:
    def allowed(sentence: int, tokens: list[int], token: int) -> bool:
        whole = [*tokens, token]
        ngrams = [tuple(whole[i : i + n]) for i in range(len(whole) - n + 1)]
        return token == EOS or ngrams.count(tuple(whole[-n:])) <= 1 or len(whole) < n

    check([logits_processors.NoRepeat(n, len(longest), CPU)], allowed, seed, size, longest)


@settings(max_examples=60, deadline=None)
@given(seed=seeds, size=sizes, longest=limits)
def test_no_output_holds_a_banned_word(seed: int, size: int, longest: list[int]) -> None:
    banned = ["ab", "c a"]

    def allowed(sentence: int, tokens: list[int], token: int) -> bool:
        text = "".join(PIECES[one] for one in [*tokens, token] if one != EOS).replace("▁", " ")
        words = text.split(" ")  # the last one is known to be whole at the end alone
        whole = words if token == EOS else words[:-1]
        return not any(f" {word} " in f" {' '.join(whole)} " for word in banned)

    spellings = [piece.replace("▁", " ").encode() for piece in PIECES]
    check([logits_processors.Banned(Words(banned, spellings, EOS), len(longest), CPU)], allowed, seed, size, longest)


@settings(max_examples=60, deadline=None)
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

    others = [logits_processors.NoRepeat(1, len(longest), CPU)]
    check([logits_processors.Prefix(prefixes, others, CPU)], allowed, seed, size, longest)


@pytest.mark.parametrize("size", [1, 3])
def test_where_nothing_is_allowed_nothing_is_found(size: int) -> None:
    """Four tokens at least, none of them twice, and three to choose from."""
    table = Table(1, 7)
    made = [logits_processors.Shortest(torch.tensor([4, 0]), EOS), logits_processors.NoRepeat(1, 2, CPU)]
    source = torch.tensor([[0, EOS], [1, EOS]])
    found = search(table, source, torch.tensor([6, 6]), replace(OPTIONS, beam_size=size), made)
    assert found[0] == []
    assert found[1][0].log_probability > -math.inf
    assert BOS not in found[1][0].tokens
