"""Constrained search against beam search and against all possible outputs, on models that are lookup tables."""

import math
import re
from collections.abc import Collection, Sequence

import pytest
import torch
from helpers.tables import (
    BOS,
    EOS,
    OPTIONS,
    PAD,
    UNK,
    Table,
    all_outputs,
    alphas,
    assert_equal,
    assert_same,
    changed,
    seeds,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.config import schema
from nmt.decoding import ensemble
from nmt.decoding.search import logits_processors
from nmt.decoding.search.beam import beam_search
from nmt.decoding.search.constrained import beam_width, constrained_beam_search
from nmt.decoding.search.phrase_automaton import Group, Phrases, PhraseState
from nmt.decoding.search.stepper import Hypothesis, LogitsProcessor, SearchOptions
from nmt.models.transformer.model import Transformer

FIRST = EOS + 1  # of the tokens that outputs hold


def run(
    table: Table,
    required: Sequence[Sequence[Group]],
    longest: Sequence[int],
    options: SearchOptions,
    limiting: Sequence[LogitsProcessor] = (),
    sentences: Sequence[int] | None = None,
    continuing: Collection[int] = (),
) -> list[list[Hypothesis]]:
    source = torch.tensor([[i, EOS] for i in sentences or range(len(longest))])
    options = changed(options, continuing=frozenset(token for token in continuing if token < table.table.shape[1]))
    return constrained_beam_search(table, source, torch.tensor(longest), options, required, limiting)


def holds(tokens: Sequence[int], phrase: Sequence[int], continuing: Collection[int] = ()) -> bool:
    ends = [i + len(phrase) for i in range(len(tokens)) if list(tokens[i : i + len(phrase)]) == list(phrase)]
    return any(end == len(tokens) or tokens[end] not in continuing for end in ends)


def unmet(
    tokens: Sequence[int], groups: Sequence[Group], continuing: Collection[int] = (), spellings: Sequence[str] = ()
) -> int:
    def met(phrase: Sequence[int]) -> bool:
        return holds(tokens, phrase, continuing) or bool(spellings and says(tokens, phrase, spellings))

    return sum(not any(map(met, group)) for group in groups)


def says(tokens: Sequence[int], phrase: Sequence[int], spellings: Sequence[str]) -> bool:
    """Whether the text has the phrase's as complete words; every letter here but 中 is of a script with spaces."""
    text, term = ("".join(spellings[token] for token in some) for some in (tokens, phrase))
    letter, begins, ends = r"[a-zé]", r"(?<![a-zé])", r"(?![a-zé])"
    term = term.strip()
    before, after = (side if re.match(letter, one) else "" for side, one in ((begins, term[0]), (ends, term[-1])))
    return bool(re.search(before + re.escape(term) + after, text))


def tokens_below(vocabulary: int) -> st.SearchStrategy[int]:
    return st.integers(FIRST, vocabulary - 1)


def groups_of(
    vocabulary: int, most: int = 3, longest: int = 3, continuing: Collection[int] = ()
) -> st.SearchStrategy[list[list[list[int]]]]:
    """So few tokens that phrases overlap, repeat, and begin and contain each other; each begins with a word."""
    phrase = st.lists(tokens_below(vocabulary), min_size=1, max_size=longest)
    phrase = phrase.filter(lambda tokens: tokens[0] not in continuing)
    return st.lists(st.lists(phrase, min_size=1, max_size=2), max_size=most)


# What the tokens from FIRST on write: every second one continues a word, or none does
SPELLINGS = {
    frozenset(range(FIRST + 1, 20, 2)): [" a", "b", " ab", "é", " (", "a"],
    frozenset[int](): [" a", " (", " ab", "中", " a b", "("],
}
# Tokens that continue a word: none, or every second
continuations = st.sampled_from([frozenset[int](), frozenset(range(FIRST + 1, 20, 2))])


def room_for(groups: Sequence[Group]) -> int:
    return sum(min(map(len, group)) for group in groups)


# --------------------------------------------------------------------------- phrases


@settings(max_examples=40, deadline=None)
@given(vocabulary=st.integers(FIRST + 1, FIRST + 6), continuing=continuations, data=st.data())
def test_phrases_are_seen_wherever_they_are(vocabulary: int, continuing: frozenset[int], data: st.DataObject) -> None:
    groups = data.draw(groups_of(vocabulary, most=5, longest=4, continuing=continuing))
    spellings = data.draw(st.sampled_from([[], ["?"] * FIRST + SPELLINGS[continuing]]))
    phrases, state = Phrases(groups, continuing, spellings), PhraseState()
    tokens: list[int] = []
    for token in data.draw(st.lists(tokens_below(vocabulary), max_size=12)):
        state = phrases.after(state, token)
        tokens.append(token)
        assert phrases.unmet(state) == unmet(tokens, groups, continuing, spellings)
        assert (phrases.needed(state) == 0) == (phrases.unmet(state) == 0)


@pytest.mark.parametrize("groups", [[[]], [[[]]], [[[5], []]]])
def test_groups_that_are_none(groups: list[list[list[int]]]) -> None:
    with pytest.raises(ValueError, match="at least one"):
        Phrases(groups)


def test_a_phrase_that_begins_amid_a_word() -> None:
    with pytest.raises(ValueError, match="begins with a word"):
        Phrases([[[5, 4]]], continuing={5})


# --------------------------------------------------------------------------- search


@settings(max_examples=25, deadline=None)
@given(seed=seeds, alpha=alphas, size=st.integers(1, 6), data=st.data())
def test_nothing_required_is_beam_search(seed: int, alpha: float, size: int, data: st.DataObject) -> None:
    """Beside sentences that have to hold something."""
    vocabulary = data.draw(st.integers(FIRST + 1, 12))
    options = changed(OPTIONS, beam_size=size, length_penalty=alpha, n_best=data.draw(st.integers(1, size)))
    longest = data.draw(st.lists(st.integers(0, 7), min_size=1, max_size=10))
    required = [data.draw(st.just([]) | groups_of(vocabulary)) for _ in longest]
    found = run(Table(seed, vocabulary), required, longest, options)
    source = torch.tensor([[i, EOS] for i in range(len(longest))])
    plain = beam_search(Table(seed, vocabulary), source, torch.tensor(longest), options)
    for groups, mine, other in zip(required, found, plain, strict=True):
        if not groups:
            assert_same(mine, other)


@settings(max_examples=40, deadline=None)
@given(seed=seeds, size=st.integers(1, 5), spare=st.integers(0, 3), continuing=continuations, data=st.data())
def test_what_is_required_appears(
    seed: int, size: int, spare: int, continuing: frozenset[int], data: st.DataObject
) -> None:
    """Whatever the beam, in every output, as soon as the limit has room for one phrase after the other."""
    vocabulary = data.draw(st.integers(FIRST + 1, 15))
    groups = groups_of(vocabulary, most=4, continuing=continuing)
    required = data.draw(st.lists(groups, min_size=1, max_size=5))
    options = changed(OPTIONS, beam_size=size, n_best=size)
    longest = [room_for(groups) + spare for groups in required]
    found = run(Table(seed, vocabulary), required, longest, options, continuing=continuing)
    for groups, limit, hypotheses in zip(required, longest, found, strict=True):
        assert hypotheses
        for hypothesis in hypotheses:
            assert unmet(hypothesis.tokens, groups, continuing) == 0
            assert len(hypothesis.tokens) <= limit
            assert not {PAD, UNK, BOS, EOS} & set(hypothesis.tokens)
        assert len({tuple(hypothesis.tokens) for hypothesis in hypotheses}) == len(hypotheses)


@settings(max_examples=30, deadline=None)
@given(
    seed=seeds,
    alpha=alphas,
    vocabulary=st.integers(FIRST + 1, FIRST + 3),
    continuing=continuations,
    data=st.data(),
)
def test_a_wide_enough_beam_is_exhaustive(
    seed: int, alpha: float, vocabulary: int, continuing: frozenset[int], data: st.DataObject
) -> None:
    """The best of all outputs that hold the phrases, or else of those that leave the fewest out."""
    table, longest = Table(seed, vocabulary), data.draw(st.integers(0, 4))
    groups = data.draw(groups_of(vocabulary, continuing=continuing))
    outputs = all_outputs(table, 0, longest, alpha)
    left = [unmet(output.tokens, groups, continuing) for output in outputs]
    expected = [output for output, count in zip(outputs, left, strict=True) if count == min(left)]
    options = changed(OPTIONS, beam_size=len(outputs), length_penalty=alpha, n_best=len(outputs))
    [found] = run(table, [groups], [longest], options, continuing=continuing)
    assert_same(found, expected)
    [best] = run(table, [groups], [longest], changed(options, n_best=1), continuing=continuing)
    assert_same(best, expected, 1)


@pytest.mark.parametrize(
    "conflicts",
    [[[4, 4, 4, 4, 4]], [[4, UNK]], [[EOS]], [[PAD], [5, BOS]], []],
    ids=["long", "unk", "eos", "two", "0"],
)
def test_groups_that_no_output_can_meet(conflicts: list[list[int]]) -> None:
    """They are left out, at no price for the others; the possible phrases of a group remain."""
    for seed in range(3):
        table = Table(seed, vocabulary=8)
        possible = [[[5, 6]]]
        assert run(table, [[conflicts, *possible]], [4], OPTIONS) == run(table, [possible], [4], OPTIONS)
        assert run(table, [[conflicts]], [4], OPTIONS) == run(table, [[]], [4], OPTIONS)
        assert run(table, [[[*conflicts, [5, 6]]]], [4], OPTIONS) == run(table, [possible], [4], OPTIONS)
    # An empty phrase is in every output.
    assert run(table, [[[[], [5, 6]]]], [4], OPTIONS) == run(table, [[]], [4], OPTIONS)


def test_an_unlikely_phrase_is_put_where_it_fits() -> None:
    """Not first of all: a hypothesis that has none of it yet stays beside those that have."""
    table = Table(seed=0, vocabulary=20)

    def after(sentences: Tensor, prefixes: Tensor) -> Tensor:
        """The model says 4 5 6 7 EOS, and takes 10 11 12 for 5."""
        expected = {BOS: 4, 4: 5, 5: 6, 6: 7, 7: EOS, 10: 11, 11: 12, 12: 6}
        found = torch.zeros(*prefixes.shape[:-1], 20, dtype=torch.float64)
        for row, last in zip(found.flatten(0, -2), prefixes[..., -1].flatten().tolist(), strict=True):
            row[expected.get(last, 19)] = 10.0
            row[10] += 3.0 * (last == 4)
        return found

    table.after = after  # type: ignore[method-assign]
    for size in (1, 2, 4):
        [[found]] = run(table, [[[[10, 11, 12]]]], [30], changed(OPTIONS, beam_size=size))
        assert found.tokens == [4, 10, 11, 12, 6, 7]


def test_a_word_is_put_in_as_a_whole() -> None:
    """4 5 is another word than 4, which comes on its own; what follows it may be very unlikely."""
    table = Table(seed=0, vocabulary=60)
    table.table.zero_()
    continuing = frozenset(range(5, 58))
    table.table[:, 5:58] = 5.0
    [[found]] = run(table, [[[[4]], [[58]]]], [9], OPTIONS, continuing=continuing)
    assert unmet(found.tokens, [[[4]], [[58]]], continuing) == 0
    [[found]] = run(table, [[[[4, 5], [4, 6]], [[4]]]], [9], OPTIONS, continuing=continuing)
    assert unmet(found.tokens, [[[4, 5], [4, 6]], [[4]]], continuing) == 0
    assert run(table, [[[[7, 5]]]], [9], OPTIONS, continuing=continuing) == run(table, [[]], [9], OPTIONS)


def test_a_word_ends_however_likely_it_goes_on() -> None:
    """The best output is found though all the likeliest tokens after the word would continue it."""
    continuing = range(5, 58)

    class Glued(Table):
        def after(self, sentences: Tensor, prefixes: Tensor) -> Tensor:
            found = torch.zeros(*prefixes.shape[:-1], 60, dtype=torch.float64)
            found[..., EOS] = -20.0
            found[..., 4] += 10.0 * (prefixes[..., -1] == BOS)
            found[..., 5:58] += 5.0 * (prefixes[..., -1:] == 4)
            found[..., EOS] += 40.0 * (prefixes[..., -1] == 58)
            found[..., 58] += 1.0
            return found

    for size in (2, 4):
        options = changed(OPTIONS, beam_size=size)
        [[found]] = run(Glued(0, 60), [[[[4]]]], [2], options, continuing=continuing)
        assert found.tokens == [4, 58]


def test_more_phrases_than_the_beam_is_wide() -> None:
    groups = [[list(range(FIRST + i, FIRST + i + 5))] for i in range(0, 60, 5)]
    options = changed(OPTIONS, beam_size=2)
    assert beam_width(groups, 70, options) == 32
    [[found]] = run(Table(seed=1, vocabulary=80), [groups], [60], options)
    assert unmet(found.tokens, groups) == 0


def test_width() -> None:
    assert beam_width([], 9, OPTIONS) == beam_width([[[5]]], 9, OPTIONS) == OPTIONS.decoding.beam_size
    assert beam_width([[[5, 6, 7]], [[8, 9, 5, 6], [4, 5]]], 9, OPTIONS) == 6
    assert beam_width([[[5] * 10], [[UNK]]], 9, OPTIONS) == OPTIONS.decoding.beam_size
    assert beam_width([[[5]]], 9, changed(OPTIONS, beam_size=1)) == 2


def test_rules_hold_too() -> None:
    """A shortest length, no repetition, and a beam whose sentences leave at different steps."""
    required = [[[[4, 5]], [[6]]] if i % 3 else [] for i in range(12)]
    longest, options = [5 + i for i in range(12)], changed(OPTIONS, beam_size=3, n_best=3)
    shortest = torch.tensor([i % 6 for i in range(12)])

    def limiting(kept: slice) -> list[LogitsProcessor]:
        return [
            logits_processors.MinLength(shortest[kept], EOS),
            logits_processors.NoRepeatNgram(2, len(shortest[kept]), torch.device("cpu")),
        ]

    found = run(Table(3, 9), required, longest, options, limiting(slice(None)))
    for i, hypotheses in enumerate(found):
        assert hypotheses
        for hypothesis in hypotheses:
            pairs = list(zip(hypothesis.tokens, hypothesis.tokens[1:], strict=False))
            assert len(set(pairs)) == len(pairs)
            assert len(hypothesis.tokens) >= shortest[i]
            assert unmet(hypothesis.tokens, required[i]) == 0
        at = slice(i, i + 1)
        assert_equal(run(Table(3, 9), required[at], longest[at], options, limiting(at), sentences=[i]), [hypotheses])
    source = torch.tensor([[i, EOS] for i in range(12)])
    plain = beam_search(Table(3, 9), source, torch.tensor(longest), options, limiting(slice(None)))
    free = [i for i, groups in enumerate(required) if not groups]
    assert_equal([found[i] for i in free], [plain[i] for i in free])


def test_a_rule_in_the_way() -> None:
    """What the rules forbid is left out, and the output is then what it is without it."""

    class NoFives:
        def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
            scores[:, :, 5] = -math.inf

        def advance(self, rows: Tensor, tokens: Tensor) -> None:
            pass

    [found] = run(Table(2, 9), [[[[4, 5]], [[6, 7]]]], [8], OPTIONS, [NoFives()])
    assert found
    assert holds(found[0].tokens, [6, 7])
    assert 5 not in found[0].tokens


def test_scores_that_are_no_probabilities() -> None:
    class Spoiled(Table):
        def after(self, sentences: Tensor, prefixes: Tensor) -> Tensor:
            return torch.where((sentences == 1)[..., None], math.nan, super().after(sentences, prefixes))

    required = [[[[4, 5]]]] * 3
    found = run(Spoiled(seed=2, vocabulary=100), required, [6] * 3, OPTIONS)
    assert found[1] == []
    assert_equal([found[0], found[2]], run(Table(2, 100), required[:2], [6] * 2, OPTIONS, sentences=[0, 2]))


def test_with_a_transformer() -> None:
    """Whose cache follows beams of changing width; beside sentences that are asked for nothing."""
    torch.manual_seed(0)
    sizes = schema.TransformerConfig(d_model=16, feed_forward=32, layers=2, heads=2, dropout=0.0)
    model = Transformer(sizes, 20, 20, PAD).eval()
    source = torch.tensor([[7 + i, 8, 9 + i, EOS] for i in range(9)])
    required = [[[[5 + i, 6, 7]], [[4], [9, 10]], [[8, 8]]][: i % 4] for i in range(9)]
    longest, options = [6 + i for i in range(9)], changed(OPTIONS, n_best=3)
    found = constrained_beam_search(model, source, torch.tensor(longest), options, required)
    plain = beam_search(model, source, torch.tensor(longest), options)
    for i, hypotheses in enumerate(found):
        assert hypotheses
        if not required[i]:
            assert_same(hypotheses, plain[i], rounding=1e-4)
        for hypothesis in hypotheses:
            assert unmet(hypothesis.tokens, required[i]) == 0
            output = torch.tensor([[*hypothesis.tokens, EOS]])
            expected = ensemble.token_scores([model], source[i : i + 1], output)[0].tolist()
            assert hypothesis.token_scores == pytest.approx(expected, abs=1e-4)
