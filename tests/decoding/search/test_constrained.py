"""Constrained search against beam search and against all possible outputs, on models that are lookup tables."""

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

from nmt.config import schema
from nmt.decoding import ensemble
from nmt.decoding.search import logits_processors
from nmt.decoding.search.beam import beam_search
from nmt.decoding.search.constrained import constrained_beam_search
from nmt.decoding.search.decoder_model import Hypothesis, LogitsProcessor, SearchOptions
from nmt.decoding.search.phrase_automaton import Group, Phrases, PhraseState
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
    [[[4, 4, 4, 4, 4]], [[4, UNK]], []],
    ids=["long", "unk", "0"],
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
