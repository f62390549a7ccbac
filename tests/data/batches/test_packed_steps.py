"""Packed steps: full, the same for any split, split into parts that are about equal and always fit."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.stores import Store, corpus, length, make
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nmt.data.batches import packed_steps
from nmt.data.batches.batch_cuts import sort_by_length
from nmt.data.batches.packed_steps import cut_into_steps, packed_length, split_step

few_pairs = st.lists(st.tuples(length, length), min_size=1, max_size=9)


def tokens(pairs: np.ndarray) -> int:
    """Of the longer side of some lengths [pairs, 2]."""
    return int(pairs.sum(axis=0).max())


@given(corpus, st.integers(1, 300), st.integers(1, 70), st.integers(0, 3), st.integers(1, 3))
def test_an_epoch_has_every_pair_once_within_the_budget(
    lengths: list[tuple[int, int]], batch_tokens: int, pool_pairs: int, epoch: int, ranks: int
) -> None:
    fits = {i for i, pair in enumerate(lengths) if max(pair) <= batch_tokens}
    assume(fits)
    steps = list[list[int]]()
    for rank in range(ranks):
        store = Store(lengths)
        batches = make(store, batch_tokens, pool_pairs=pool_pairs, packed=True, rank=rank, world_size=ranks)
        for number, step in enumerate(batches.epoch(epoch)):
            steps += [[]] * (number == len(steps))
            steps[number] = steps[number] + [pair for _ in step.micro_batches for pair in store.read.pop(0)]
        assert batches.steps_in_epoch(epoch) == len(steps)
        assert batches.skipped == len(lengths) - len(fits)
    assert sorted(itertools.chain(*steps)) == sorted(fits)
    assert all(pairs and tokens(np.array(lengths)[pairs]) <= batch_tokens for pairs in steps)


@example([(20, 18), (7, 30), (3, 2)] * 20, 400, 60, 2)  # several micro-batches on each rank
@given(corpus, st.integers(40, 400), st.integers(40, 400), st.integers(1, 5))
def test_a_step_is_the_same_however_it_is_split(
    lengths: list[tuple[int, int]], batch_tokens: int, micro_batch_tokens: int, ranks: int
) -> None:
    store, split = Store(lengths), {"micro_batch_tokens": micro_batch_tokens, "world_size": ranks}
    whole = list(make(store, batch_tokens, packed=True).epoch(0))
    unsplit = [store.read.pop(0) for _ in whole]
    made = [make(store, batch_tokens, packed=True, rank=rank, **split) for rank in range(ranks)]
    for pairs, *steps in itertools.zip_longest(unsplit, *(rank.epoch(0) for rank in made)):
        per_rank = [[store.read.pop(0) for _ in step.micro_batches] for step in steps]
        parts = list(itertools.chain(*per_rank))
        assert sorted(itertools.chain(*parts)) == sorted(pairs)
        assert len({len(rank) for rank in per_rank}) == 1
        assert all(parts) or len(pairs) < len(parts)
        positions = {batch.numbers.shape[1] for step in steps for batch in step.micro_batches}
        assert positions == {made[0].example().numbers.shape[1]}
        assert all(tokens(store_lengths(store)[part]) <= min(positions) for part in parts if part)
        assert len({(s.sentences, s.source_tokens, s.target_tokens, s.padded_tokens) for s in steps}) == 1


def store_lengths(store: Store) -> np.ndarray:
    return np.stack([store.source.lengths, store.target.lengths], axis=1)


@example([(36, 36), (9, 9), (35, 35)], 61)  # 36 and 44 at most, not 45 and 35
@given(few_pairs, st.integers(40, 120))
def test_steps_are_few_and_even(lengths: list[tuple[int, int]], budget: int) -> None:
    pairs, inner = np.array(lengths), range(1, len(lengths))

    def largest(cuts: tuple[int, ...]) -> int:
        return max(tokens(step) for step in np.split(pairs, cuts))

    best = [min(largest(cuts) for cuts in itertools.combinations(inner, n)) for n in range(len(lengths))]
    cuts = cut_into_steps(*pairs.T, budget)
    assert len(cuts) == next(n for n, most in enumerate(best) if most <= budget)
    assert largest(tuple(cuts.tolist())) == best[len(cuts)]


@given(corpus, st.integers(40, 200), st.integers(1, 9))
def test_every_step_is_split_into_parts_that_fit(lengths: list[tuple[int, int]], most: int, ranks: int) -> None:
    pairs = np.array(lengths)[sort_by_length(*np.array(lengths).T)]
    parts = split_step(*pairs.T, most, ranks)
    assert sorted(np.concatenate(parts)) == list(range(len(pairs)))
    assert len(parts) % ranks == 0 and all((np.diff(part) > 0).all() for part in parts)
    assert all(tokens(pairs[part]) <= most for part in parts)
    assert sum(len(part) > 0 for part in parts) == min(len(parts), len(pairs))


def test_a_step_whose_equal_parts_do_not_fit_has_more_parts() -> None:
    seventy = np.array([70, 70, 70])
    assert [part.tolist() for part in split_step(seventy, seventy, 140, 1)] == [[0, 2], [1]]
    assert [part.tolist() for part in split_step(seventy, seventy, 128, 1)] == [[2], [1], [0]]
    assert len(split_step(seventy, seventy, 128, 2)) == 4  # two micro-batches of each rank, one of them empty
    many = np.full(256, 100)
    assert len(split_step(many, many, 128, 1)) < 1.2 * 256  # where none can share a part


@pytest.mark.parametrize(
    ("batch_tokens", "micro_batch_tokens", "ranks", "expected"),
    [
        (25_000, 25_000, 1, 25_088),  # whole tiles
        (4_096, 4_096, 1, 4_096),
        (25_000, 25_000, 8, 3_200),  # 3,125 and a sentence
        (25_000, 12_500, 1, 12_544),  # two parts
        (4_096, 2_048, 1, 1_408),  # three parts: two have no room for another sentence
        (25_000, 100, 8, 128),
        (2_500, 2_500, 8, 384),  # 313 and a sentence
        (1_000, 1_000, 8, 256),  # the longest sentence
    ],
)
def test_the_length_is_that_of_equal_parts_and_a_sentence(
    batch_tokens: int, micro_batch_tokens: int, ranks: int, expected: int
) -> None:
    longest = min(200, micro_batch_tokens)
    assert packed_length(batch_tokens, micro_batch_tokens, ranks, longest, mean=27.3) == expected


class Lengths(SimpleNamespace):
    """A store of lengths alone."""

    def __len__(self) -> int:
        return len(self.source.lengths)

    def pairs(self, indices: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        return tuple([np.ones(n, np.uint16) for n in side.lengths[indices]] for side in (self.source, self.target))


def text_like(pairs: int) -> Lengths:
    """Lengths as of news: 25 subwords on average, some of 200, sides correlated at about 0.95."""
    random = np.random.default_rng(0)
    content, noise = random.lognormal(np.log(25) - 0.18, 0.6, pairs), random.lognormal(0, 0.15, (2, pairs))
    sides = np.clip(np.rint(content * noise).astype(np.int32) + 1, 2, 256)
    return Lengths(source=SimpleNamespace(lengths=sides[0]), target=SimpleNamespace(lengths=sides[1]))


@pytest.mark.parametrize("ranks", [1, 8])
def test_almost_all_positions_are_filled(ranks: int) -> None:
    batches = make(text_like(50_000), 25_000, packed=True, pool_pairs=1_000_000, world_size=ranks)
    steps = list(batches.epoch(0))
    assert all(len(step.micro_batches) == 1 for step in steps)
    filled = [max(step.source_tokens, step.target_tokens) for step in steps]
    assert sum(filled) > 0.97 * sum(step.padded_tokens for step in steps) / 2
    assert min(filled) > 0.95 * 25_000  # the last step too


def test_both_sides_of_all_parts_are_about_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_like(4_000)
    pairs = np.stack([text.source.lengths, text.target.lengths], axis=1).astype(np.int64)
    monkeypatch.setattr(packed_steps, "_TILE", 1)
    for step in np.split(pairs, cut_into_steps(*pairs.T, 25_000)):
        step = step[sort_by_length(*step.T)]
        for ranks in (2, 8, 30):
            parts = split_step(*step.T, packed_length(25_000, 25_000, ranks, int(pairs.max()), 27), ranks)
            assert len(parts) == ranks
