"""Batches: every pair once, never over budget, the same for any split, resumable, tight, new each epoch."""

import itertools
import threading
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from helpers.stores import Store, corpus, length, make
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from nmt.data.batches import batch_cuts, batching
from nmt.data.batches.batch_cuts import choose_cuts, sort_by_length
from nmt.data.batches.batching import Batches, Step
from nmt.data.batches.micro_batches import split_evenly
from nmt.data.batches.mixing import Mix
from nmt.data.batches.padding import collate
from nmt.data.batches.read_ahead import read_ahead
from nmt.data.subwords.vocabulary import PAD
from nmt.errors import NmtError


def contents(store: Store, batches: Batches, epoch: int = 0, first_step: int = 0) -> list[list[list[int]]]:
    """The pairs of each micro-batch of each step."""
    steps = []
    for step in batches.epoch(epoch, first_step):
        steps.append([store.read.pop(0) for _ in step.micro_batches])
    return steps


def padded_tokens(store: Store, pairs: list[int]) -> int:
    """Sentences × the longest side among them."""
    return len(pairs) * int(max(store.source.lengths[pairs].max(), store.target.lengths[pairs].max()))


@given(corpus, st.integers(1, 300), st.integers(1, 70), st.integers(0, 3))
def test_an_epoch_has_every_pair_once_within_the_budget(
    lengths: list[tuple[int, int]], batch_tokens: int, pool_pairs: int, epoch: int
) -> None:
    fits = {i for i, pair in enumerate(lengths) if max(pair) <= batch_tokens}
    assume(fits)
    store = Store(lengths)
    batches = make(store, batch_tokens, pool_pairs=pool_pairs)
    steps = [only for (only,) in contents(store, batches, epoch)]
    assert sorted(itertools.chain(*steps)) == sorted(fits)
    assert all(pairs and padded_tokens(store, pairs) <= batch_tokens for pairs in steps)
    assert batches.steps_in_epoch(epoch) == len(steps)
    assert batches.skipped == len(lengths) - len(fits)


@given(corpus, st.integers(40, 400), st.integers(40, 400), st.integers(1, 5))
def test_a_step_is_the_same_however_it_is_split(
    lengths: list[tuple[int, int]], batch_tokens: int, micro_batch_tokens: int, world_size: int
) -> None:
    store = Store(lengths)
    whole = contents(store, make(store, batch_tokens))
    ranks = [
        make(store, batch_tokens, micro_batch_tokens=micro_batch_tokens, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for (unsplit,), steps in itertools.zip_longest(whole, zip(*(rank.epoch(0) for rank in ranks), strict=True)):
        per_rank = [[store.read.pop(0) for _ in step.micro_batches] for step in steps]
        micro_batches = [pairs for rank in per_rank for pairs in rank]
        assert sorted(itertools.chain(*micro_batches)) == sorted(unsplit)
        assert len({len(rank) for rank in per_rank}) == 1
        assert all(padded_tokens(store, pairs) <= micro_batch_tokens for pairs in micro_batches if pairs)
        assert all(micro_batches) or len(unsplit) < len(micro_batches)
        in_order = [pair for shares in zip(*per_rank, strict=True) for share in shares for pair in share]
        longest = np.maximum(store.source.lengths, store.target.lengths)[in_order]
        assert (np.diff(longest) >= 0).all()  # so that every part is tight
        assert len({(s.sentences, s.source_tokens, s.target_tokens, s.padded_tokens) for s in steps}) == 1


@given(corpus, st.integers(40, 400), st.integers(40, 400), st.integers(1, 3))
def test_a_step_counts_what_all_its_tensors_hold(
    lengths: list[tuple[int, int]], batch_tokens: int, micro_batch_tokens: int, world_size: int
) -> None:
    store = Store(lengths)
    ranks = [
        make(store, batch_tokens, micro_batch_tokens=micro_batch_tokens, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for steps in zip(*(rank.epoch(0) for rank in ranks), strict=True):
        held = [batch for step in steps for batch in step.micro_batches]
        assert steps[0].sentences == sum(len(batch.source) for batch in held)
        assert steps[0].source_tokens == sum(int((batch.source != PAD).sum()) for batch in held)
        assert steps[0].target_tokens == sum(int((batch.target != PAD).sum()) for batch in held)
        assert steps[0].padded_tokens == sum(batch.source.numel() + batch.target.numel() for batch in held)


@given(corpus, st.integers(40, 200), st.integers(1, 70), st.integers(0, 2), st.data())
def test_resuming_gives_the_tail_and_reads_nothing_before_it(
    lengths: list[tuple[int, int]], batch_tokens: int, pool_pairs: int, epoch: int, data: st.DataObject
) -> None:
    store = Store(lengths)
    whole = contents(store, make(store, batch_tokens, pool_pairs=pool_pairs), epoch)
    first = data.draw(st.integers(0, len(whole)))
    assert contents(store, make(store, batch_tokens, pool_pairs=pool_pairs), epoch, first) == whole[first:]
    assert store.read == []


def test_order_and_contents_follow_from_seed_and_epoch() -> None:
    store = Store(multi30k_like(500))
    plans = {(seed, epoch): contents(store, make(store, 300, seed=seed), epoch) for seed in (1, 2) for epoch in (0, 1)}
    assert contents(store, make(store, 300, seed=2), epoch=1) == plans[2, 1]
    groups = {key: {frozenset(pairs) for (pairs,) in steps} for key, steps in plans.items()}
    for one, other in itertools.combinations(groups.values(), 2):
        assert len(one & other) < len(one) / 2


def test_pools_are_random_parts_of_the_corpus() -> None:
    store = Store(multi30k_like(500))
    batches = make(store, 300, pool_pairs=100)
    epochs = [[pairs for (pairs,) in contents(store, batches, epoch)] for epoch in range(8)]
    for one, other in itertools.combinations(epochs, 2):
        pools = [set(list(itertools.chain(*epoch))[:100]) for epoch in (one, other)]  # an epoch begins with one pool
        assert len(pools[0] & pools[1]) < 50  # by chance 20


# --------------------------------------------------------------------------- tight, full, and new each epoch


def multi30k_like(pairs: int) -> np.ndarray:
    """Lengths [pairs, 2] as of short descriptions: about 15 subwords, sides correlated at about 0.88."""
    random = np.random.default_rng(0)
    content = 5 + random.lognormal(2.2, 0.48, pairs)
    noise = random.lognormal(0, 0.11, (pairs, 2))
    return np.clip(np.rint(content[:, None] * noise), 3, 60).astype(int)


def plan(lengths: np.ndarray, batch_tokens: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    order = random.permutation(len(lengths))
    return [order[b] for b in batch_cuts.plan_batches(*lengths[order].T, batch_tokens, random)]


def test_little_padding_and_full_batches() -> None:
    lengths = multi30k_like(29_000)
    assert 0.85 < np.corrcoef(lengths.T)[0, 1] < 0.9
    batches = plan(lengths, 4096, seed=1)
    padded = sum(len(members) * lengths[members].max(axis=0).sum() for members in batches)
    assert 1 - lengths.sum() / padded < 0.03
    assert np.mean([len(members) * lengths[members].max() for members in batches]) > 0.93 * 4096


# --------------------------------------------------------------------------- the parts of the plan


@given(st.lists(st.tuples(st.integers(4, 20), st.integers(4, 20)), min_size=1, max_size=9), st.integers(20, 120))
def test_the_cuts_are_the_best_of_all(lengths: list[tuple[int, int]], budget: int) -> None:
    source, target = np.array(lengths)[sort_by_length(*np.array(lengths).T)].T  # all blocks are single pairs here

    def cost(cuts: tuple[int, ...]) -> float:
        total = 0.0
        for start, end in itertools.pairwise((0, *cuts, len(source))):
            tall_source, tall_target = source[start:end].max(), target[start:end].max()
            if (end - start) * max(tall_source, tall_target) > budget:
                return np.inf
            total += (end - start) * (tall_source + tall_target) + batch_cuts.BATCH_COST * budget
        return total

    inner = range(1, len(source))
    every = (cuts for n in range(len(source)) for cuts in itertools.combinations(inner, n))
    assert cost(tuple(choose_cuts(source, target, budget).tolist())) == pytest.approx(min(map(cost, every)))


@given(st.lists(length, min_size=1, max_size=9), st.integers(40, 120), st.integers(1, 4))
def test_parts_are_few_and_even(lengths: list[int], budget: int, ranks: int) -> None:
    longest = np.sort(np.array(lengths))
    rows = len(longest)

    def largest(bounds: tuple[int, ...]) -> int:
        return max((end - start) * int(longest[end - 1]) for start, end in itertools.pairwise(bounds) if end > start)

    def best(parts: int) -> int:
        """The largest part when the rows are cut into this number of parts in the best way."""
        inner = itertools.combinations_with_replacement(range(rows + 1), parts - 1)
        return min(largest((0, *cuts, rows)) for cuts in inner)

    shares = split_evenly(longest, budget, ranks)
    bounds = (0, *(share.stop for share in shares))
    assert [share.start for share in shares] == list(bounds[:-1]) and bounds[-1] == rows
    assert len(shares) % ranks == 0
    assert sum(share.stop > share.start for share in shares) == min(len(shares), rows)
    fewest = next(parts for parts in itertools.count(ranks, ranks) if best(min(parts, rows)) <= budget)
    assert len(shares) == fewest
    assert largest(bounds) == best(min(fewest, rows))


@given(st.lists(st.lists(st.integers(1, 65_535), min_size=1, max_size=12), max_size=8))
def test_collate_pads_as_the_plain_way_does(rows: list[list[int]]) -> None:
    width = max(map(len, rows), default=1)
    tensor = collate([np.array(row, np.uint16) for row in rows])
    assert tensor.dtype == torch.int64 and tensor.shape == (len(rows), width)
    assert tensor.tolist() == [row + [PAD] * (width - len(row)) for row in rows]


# --------------------------------------------------------------------------- what cannot be batched


def test_a_pair_over_the_budget_is_counted_or_named() -> None:
    store = Store([(3, 4), (7, 9), (2, 2), (12, 3)])
    batches = make(store, batch_tokens=50, micro_batch_tokens=8)
    assert batches.skipped == 2
    assert sorted(pair for step in contents(store, batches) for pairs in step for pair in pairs) == [0, 2]
    with pytest.raises(NmtError) as error:
        make(store, batch_tokens=50, micro_batch_tokens=8, over_budget="error")
    assert "pair 1 " in str(error.value) and "7 source and 9 target" in str(error.value)
    assert "training.micro_batch_tokens: 8" in str(error.value) and "data.over_budget" in str(error.value)


def test_no_pair_that_fits_is_an_error() -> None:
    with pytest.raises(NmtError, match=r"training\.batch_tokens: 3.*2 pairs"):
        make(Store([(3, 4), (4, 3)]), 3)
    with pytest.raises(NmtError, match="no pairs"):
        make(Store([]), 3)


# --------------------------------------------------------------------------- reading ahead


def readers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("read-ahead")]


def numbered(log: list[int], fail_at: int | None = None) -> Iterator[Step]:
    for i in range(100):
        if i == fail_at:
            raise NmtError("the disk is gone")
        log.append(i)
        yield Step([], sentences=i, source_tokens=0, target_tokens=0, padded_tokens=0)


def test_an_exception_arrives_in_its_turn() -> None:
    got = []
    with pytest.raises(NmtError, match="the disk is gone"):
        for step in read_ahead(numbered([], fail_at=5), ahead=3):
            got.append(step.sentences)
    assert got == [0, 1, 2, 3, 4]
    assert readers() == []


def test_steps_are_read_ahead_while_the_consumer_works() -> None:
    log: list[int] = []
    third = threading.Event()

    def watched() -> Iterator[Step]:
        for step in numbered(log):
            if step.sentences == 3:
                third.set()
            yield step

    steps = read_ahead(watched(), ahead=3)
    next(steps)
    assert third.wait(timeout=30)
    steps.close()


def test_each_epoch_is_over_the_next_segmentation() -> None:
    lengths = [(3 + i % 5 + version, 4) for i in range(20) for version in range(3)]
    store = Store([*lengths[:7], (99, 4), *lengths[8:]])  # one that never fits
    batches = make(store, 50, versions=3)
    for epoch in range(7):
        pairs = sorted(itertools.chain.from_iterable(itertools.chain.from_iterable(contents(store, batches, epoch))))
        assert pairs == [pair for pair in range(epoch % 3, 60, 3) if pair != 7]
    assert batches.skipped == 1
    with pytest.raises(NmtError, match="no batch can be made"):
        make(Store([(3, 3), (60, 3)]), 50, versions=2)


# --------------------------------------------------------------------------- several corpora


def mixed(store: Store, batch_tokens: int, **changes: object) -> Batches:
    """A corpus of 60 pairs and one of 30, which has three quarters of the mix, in two versions."""
    return make(store, batch_tokens, mix=Mix.from_weights([60, 30], [1, 3]), versions=2, **changes)


def test_corpora_have_their_shares_and_go_through_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "LONG_PASS", 0)  # so that each pool ends with a pass
    store = Store([(3 + i % 5, 4 + i % 3) for i in range(180)])
    batches, seen = mixed(store, 50), list[int]()
    for epoch in range(4):
        steps = list(batches.epoch(epoch))
        pairs = [pair for micro_batch in store.read for pair in micro_batch]
        store.read.clear()
        counts = [sum(step.pair_counts[number] for step in steps) for number in (0, 1)]
        assert counts == [sum(pair < 120 for pair in pairs), sum(pair >= 120 for pair in pairs)]
        assert abs(counts[0] - 90 / 4) < 1 and abs(counts[1] - 90 * 3 / 4) < 1
        seen += pairs
    for own, size in ((range(60), 60), (range(60, 90), 30)):
        of_corpus = [pair for pair in seen if pair // 2 in own]
        passes = [of_corpus[first : first + size] for first in range(0, len(of_corpus) - size + 1, size)]
        for number, one_pass in enumerate(passes):
            assert sorted(one_pass) == [2 * pair + number % 2 for pair in own]


@settings(max_examples=25)
@given(st.sampled_from([1, 2, 3]), st.integers(20, 60), st.booleans())
def test_the_corpus_of_each_token_is_known(ranks: int, micro_batch: int, packed: bool) -> None:
    store = Store([(3 + i % 5, 4 + i % 3) for i in range(180)])
    settings = {"world_size": ranks, "micro_batch_tokens": micro_batch, "packed": packed}
    whole, tokens = list(mixed(store, 60, packed=packed).epoch(1)), list[int]()
    for steps in zip(*(mixed(store, 60, rank=rank, **settings).epoch(1) for rank in range(ranks)), strict=True):
        found = [0, 0]
        for step in steps:
            store.read.clear()
            for batch in step.micro_batches:
                assert batch.corpora is not None
                for number in (0, 1):
                    found[number] += int((batch.corpora == number).sum())
        assert all(tuple(found) == step.target_token_counts for step in steps)
        tokens.append(sum(found))
        assert sum(found) == steps[0].target_tokens and sum(steps[0].pair_counts) == steps[0].sentences
    assert tokens == [step.target_tokens for step in whole]
    assert [step.pair_counts for step in whole] == [step.pair_counts for step in mixed(store, 60, **settings).epoch(1)]


def test_the_steps_of_a_long_epoch_are_estimated_from_its_first_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = make(Store([(3 + i % 5, 4 + i % 3) for i in range(2000)]), 100, pool_pairs=500)
    exact = batches.steps_in_epoch(0)
    monkeypatch.setattr(batching, "_EXACT_PAIRS", 1999)
    planned = list[tuple[int, int]]()
    plan = Batches._plan_pool
    monkeypatch.setattr(Batches, "_plan_pool", lambda self, mix, times: planned.append(times) or plan(self, mix, times))
    assert batches.steps_in_epoch(0) == pytest.approx(exact, rel=0.03) and planned == [(0, 500)]
