"""The steps of a run through its stages: where stages end, resumed anywhere, split over any ranks."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from itertools import chain, islice

import numpy as np
import pytest
import torch
from helpers.stores import Store, make
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config import schema
from nmt.data.batches import batching
from nmt.data.batches.packing import PackedBatch
from nmt.data.batches.padding import Batch
from nmt.data.batches.stages import stages_of
from nmt.data.subwords.vocabulary import EOS
from nmt.training.progress import Progress
from nmt.training.training_steps import TrainingSteps

CONFIG = """
run_dir: runs/test
data:
  source_language: en
  target_language: de
  train: [{file: a.tsv, name: a}, {file: b.tsv, name: b}, {file: c.tsv, name: c}]
  validation: {file: v.tsv}
  prefetch: 2
"""
SIZES = 60, 25, 110


class NumberedStore(Store):
    """Its pairs begin with their own number."""

    def __init__(self, lengths: list[tuple[int, int]]) -> None:
        super().__init__(lengths)
        self.rows = [
            [np.array([i, *[9] * (n - 2), EOS], np.uint16) for i, n in enumerate(side.lengths)]
            for side in (self.source, self.target)
        ]


STORE = NumberedStore([(3 + i * 7 % 9, 3 + i * 5 % 11) for i in range(300)])
LONG = NumberedStore([(3, 3) if i % 3 else (99, 3) for i in range(sum(SIZES))])  # a third of them fit in no batch


@dataclass
class Trained:
    """The pairs of each step, its tokens, and the number of the stage; and where pools ended."""

    steps: list[list[int]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    stages: list[int] = field(default_factory=list)
    pool_ends: list[int | None] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)


def training_steps(
    stages: str,
    ranks: int = 1,
    rank: int = 0,
    store: Store = STORE,
    sizes: tuple[int, ...] = SIZES,
    **changes: int,
) -> TrainingSteps:
    config = schema.parse(CONFIG + f"  stages: [{stages}]\n", "test")
    staged = stages_of(config.data, sizes)
    of_batches = {"batch_tokens": 60, "pool_pairs": 50, "mix": staged[0].mix} | changes
    return TrainingSteps(
        config.run_dir, config.data, config.training, staged, make(store, rank=rank, world_size=ranks, **of_batches)
    )


def train(steps_of_run: TrainingSteps, progress: Progress, steps: int, trained: Trained) -> None:
    """As the trainer does, with a validation after each third step, of which each fifth has a new best."""
    for step in islice(steps_of_run.steps(progress), steps):
        progress.step += 1
        progress.count(step, updated=True, seconds=0, waiting=0)
        found, tokens = list[int](), 0
        for batch in step.micro_batches:
            if isinstance(batch, Batch):
                tokens += len(batch.source) * max(batch.source.shape[1], batch.target.shape[1])
                found += batch.source[:, 0].tolist() if len(batch.target_places) else []
            else:
                found += numbers_in(batch)
        tokens = tokens or max(step.source_tokens, step.target_tokens)
        trained.steps.append(sorted(found))
        trained.tokens.append(tokens)
        trained.stages.append(progress.position.stage)
        trained.pool_ends.append(step.pool_end)
        trained.epochs.append((progress.position.epoch, progress.position.step_in_epoch))
        if progress.step % 3 == 0:
            progress.best.validations_since = 0 if progress.step % 15 == 0 else progress.best.validations_since + 1


def numbers_in(batch: PackedBatch) -> list[int]:
    """The first token of each sentence."""
    ids, start, end, *_ = batch.side(0)
    return ids[(torch.arange(len(ids)) == start) & (end > 0)].tolist()


def whole_run(steps_of_run: TrainingSteps, steps: int) -> Trained:
    trained = Trained()
    train(steps_of_run, Progress.for_corpora(3), steps, trained)
    return trained


COURSES = [
    "{weights: {a: 1, b: 3}, steps: 13}, {weights: {c: 2, b: 0.3}, steps: 1}, {temperature: 5, steps: 30}, {}",
    "{weights: {a: 2, c: 1}, passes: {a: 1.7}}, {weights: {b: 1, c: 1}, passes: {c: 0.05}}, {weights: {b: 1}}",
    "{weights: {a: 1}, steps: 3}, {weights: {b: 1}, passes: {b: 2}}, {steps: 7}, {weights: {c: 1}}",
]


def corpus_of(pair: int) -> int:
    return int(np.searchsorted(np.cumsum(SIZES), pair, side="right"))


@st.composite
def stages_of_mixes(draw: st.DrawFn) -> str:
    """Up to four stages, each with weights of its own, and an end of any kind; the last one without."""
    stages = list[str]()
    for last in range(draw(st.integers(1, 4)))[::-1]:
        weights = draw(st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.1, 1, 2.5, 7]), min_size=1))
        passes = f"passes: {{{min(weights)}: {draw(st.sampled_from([0.3, 1, 2.2]))}}}"
        end = draw(st.sampled_from([f"steps: {draw(st.integers(1, 9))}", passes]))
        stages.append(f"{{weights: {json.dumps(weights)}" + (f", {end}}}" if last else "}"))
    return ", ".join(stages)


@given(
    st.one_of(st.sampled_from(COURSES), stages_of_mixes()),
    st.lists(st.integers(1, 90), min_size=3, max_size=3),
    st.sampled_from([30, 60, 300]),
    st.sampled_from([7, 50, 1000]),
    st.sampled_from([0, 1, 5, 100]),
    st.sampled_from([12, 512]),
    st.booleans(),
)
@settings(max_examples=20)
def test_no_pair_comes_again_before_its_corpus_came_once(
    stages: str, sizes: list[int], batch_tokens: int, pool_pairs: int, long_pass: int, small: int, packed: bool
) -> None:
    """Wherever passes, epochs and stages end: after any step, each pair of a corpus came as often as any other, or once
    more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "LONG_PASS", long_pass)
        patch.setattr(batching, "REPEATED_TOKENS", small)
        steps_of_run = training_steps(
            stages, sizes=tuple(sizes), batch_tokens=batch_tokens, pool_pairs=pool_pairs, packed=packed
        )
        trained = whole_run(steps_of_run, 60)
    times, ends = np.zeros(sum(sizes), int), np.cumsum(sizes)
    assert max(trained.tokens) <= batch_tokens
    for step in trained.steps:
        np.add.at(times, step, 1)
        assert all(np.ptp(each) <= 1 for each in np.split(times, ends[:-1]))


@pytest.mark.parametrize("stages", COURSES)
@pytest.mark.parametrize("packed", [False, True])
def test_a_resumed_run_has_the_same_steps(stages: str, packed: bool) -> None:
    whole = whole_run(training_steps(stages, packed=packed), 100)
    random, progress, parts = np.random.default_rng(0), Progress.for_corpora(3), Trained()
    while len(parts.steps) < 100:
        count = min(int(random.integers(1, 12)), 100 - len(parts.steps))
        train(training_steps(stages, packed=packed), progress, count, parts)
        progress = Progress.from_dict(json.loads(json.dumps(asdict(progress))))  # as it is saved
    assert parts == whole


@pytest.mark.parametrize("packed", [False, True])
def test_ranks_share_the_same_steps(packed: bool) -> None:
    stages = COURSES[1]
    whole = whole_run(training_steps(stages, packed=packed), 80)
    parts = {"ranks": 3, "micro_batch_tokens": 30, "packed": packed}
    ranks = [whole_run(training_steps(stages, rank=rank, **parts), 80) for rank in range(3)]
    together = [sorted(chain.from_iterable(parts)) for parts in zip(*(rank.steps for rank in ranks), strict=True)]
    assert together == whole.steps
    assert all((rank.stages, rank.pool_ends) == (whole.stages, whole.pool_ends) for rank in ranks)


def test_shares_are_exact_in_each_stage() -> None:
    stages = "{weights: {a: 1, b: 3}, steps: 23}, {weights: {c: 2, b: 0.5}, passes: {b: 1.5}}, {temperature: 100}"
    steps_of_run, progress, trained = training_steps(stages), Progress.for_corpora(3), Trained()
    train(steps_of_run, progress, 120, trained)
    for stage, shares in enumerate([(0.25, 0.75, 0), (0, 0.2, 0.8)]):
        of_stage = [pairs for pairs, number in zip(trained.steps, trained.stages, strict=True) if number == stage]
        counts = Counter(corpus_of(pair) for pairs in of_stage for pair in pairs)
        for corpus, share in enumerate(shares):
            assert abs(counts[corpus] - share * counts.total()) <= 1
    assert counts[1] == 38  # 1.5 passes over 25 pairs


@pytest.mark.parametrize("stages", [COURSES[1], "{weights: {a: 1}, passes: {a: 0.1}}, {weights: {b: 1}, steps: 1}, {}"])
def test_pairs_that_fit_in_no_batch_are_in_no_step_and_nothing_stops(stages: str) -> None:
    steps_of_run = training_steps(stages, store=LONG, pool_pairs=2)
    trained = whole_run(steps_of_run, 90)
    assert not any(pair % 3 == 0 for step in trained.steps for pair in step) and all(trained.steps)
    assert len(set(trained.stages)) >= 3


def test_the_beginning_of_a_stage_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "nmt")
    steps_of_run, progress = (
        training_steps("{weights: {a: 1, c: 3}, steps: 12}, {weights: {b: 1}, passes: {b: 2.5}}, {temperature: 5}"),
        Progress.for_corpora(3),
    )
    steps_of_run.announce(progress)
    train(steps_of_run, progress, 15, Trained())
    assert caplog.messages == [
        "stage 1 of 3, from step 0, for 12 steps: a 25.0%, c 75.0%",
        "stage 2 of 3, from step 12, for 2.5 passes over b: b 100.0%",
    ]
    assert steps_of_run.metrics(progress) == {"stage": 2, "stage_step": 3}
