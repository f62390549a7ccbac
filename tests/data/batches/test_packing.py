"""Packed micro-batches: the same pairs as padded ones, one after another, always in tensors of one length."""

import itertools
from typing import Any

import numpy as np
import torch
from helpers.stores import Store, corpus, make
from hypothesis import assume, given
from hypothesis import strategies as st

from nmt.data.batches.mixing import Mix
from nmt.data.batches.packing import PackedBatch, pack
from nmt.data.batches.padding import Batch
from nmt.data.batches.token_cutoff import TokenCutoff
from nmt.data.subwords.vocabulary import BOS, EOS, PAD


def sentences(*lengths: int) -> list[np.ndarray]:
    numbers = itertools.count(10)
    return [np.array([*itertools.islice(numbers, length - 1), EOS], np.uint16) for length in lengths]


def test_a_batch_written_out() -> None:
    packed = pack(sentences(2, 3), sentences(3, 1), length=6, longest=3)
    source, decoder = (torch.stack(packed.side(side)).tolist() for side in (0, 1))
    assert source == [
        [10, EOS, 11, 12, EOS, PAD],
        [0, 0, 2, 2, 2, 0],  # where its sentence starts
        [2, 2, 5, 5, 5, 0],
        [0, 0, 3, 3, 3, 0],  # where its translation starts
        [3, 3, 4, 4, 4, 0],
    ]
    assert decoder == [
        [BOS, 10, 11, BOS, PAD, PAD],
        [0, 0, 0, 3, 0, 0],
        [3, 3, 3, 4, 0, 0],
        [0, 0, 0, 2, 0, 0],
        [2, 2, 2, 5, 0, 0],
    ]
    assert packed.labels.tolist() == [10, 11, EOS, EOS]
    assert packed.target_tokens == 4 and packed.longest == 3


def pairs_of(batch: Batch | PackedBatch) -> list[tuple[list[int], list[int]]]:
    if isinstance(batch, Batch):
        rows = zip(batch.source.tolist(), batch.target.tolist(), strict=True)
        return [tuple([token for token in side if token != PAD] for side in row) for row in rows]
    source, starts, ends, *_ = (row.tolist() for row in batch.side(0))
    labels, others = batch.labels.tolist(), [row.tolist() for row in batch.side(0)[3:]]
    places = sorted(set(zip(starts, ends, *others, strict=True)) - {(0, 0, 0, 0)})
    return [(source[start:end], labels[first:last]) for start, end, first, last in places]


@given(
    corpus, st.integers(40, 300), st.integers(40, 300), st.sampled_from([1, 2, 3, 8]), st.integers(0, 3), st.booleans()
)
def test_they_hold_every_pair_and_have_one_length(
    lengths: Any, batch_tokens: int, micro_batch: int, ranks: int, epoch: int, several: bool
) -> None:
    assume(micro_batch <= batch_tokens and (not several or len(lengths) > 1))
    mix = Mix.from_weights([len(lengths) - 1, 1], [1, 1]) if several else None  # of which one is repeated
    shapes = set()
    (plain,), whole, split = (
        [
            list(make(Store(lengths), batch_tokens, rank=rank, mix=mix, **changes).epoch(epoch))
            for rank in range(changes.get("world_size", 1))
        ]
        for changes in (
            {},
            {"packed": True},
            {"packed": True, "world_size": ranks, "micro_batch_tokens": micro_batch},
        )
    )
    every = [sorted(pair for step in steps for batch in step.micro_batches for pair in pairs_of(batch))
             for steps in (plain, itertools.chain(*split))]  # fmt: skip
    assert every[0] == every[1]
    for one, other in zip(zip(*whole, strict=True), zip(*split, strict=True), strict=True):
        held = [[pair for step in of_ranks for batch in step.micro_batches for pair in pairs_of(batch)]
                for of_ranks in (one, other)]  # fmt: skip
        assert sorted(held[0]) == sorted(held[1])
        batches = [batch for step in other for batch in step.micro_batches]
        shapes |= {batch.numbers.shape for batch in batches}
        assert other[0].padded_tokens == 2 * batches[0].numbers.shape[1] * len(batches)
        assert {batch.longest for batch in batches} == {max(max(pair) for pair in lengths)}
    ((_, length),) = shapes
    assert length % 128 == 0 and length < micro_batch + 128


@given(corpus, st.integers(1, 60), st.sampled_from([1, 3]))
def test_there_is_an_example_of_the_shape_of_all_however_small(lengths: Any, batch_tokens: int, ranks: int) -> None:
    assume(min(max(pair) for pair in lengths) <= batch_tokens)
    batches = make(Store(lengths), batch_tokens, packed=True, world_size=ranks)
    example, (first, *_) = batches.example(), next(batches.epoch(0)).micro_batches
    assert example.numbers.shape == first.numbers.shape and example.longest == first.longest
    assert int((example.numbers[2] - example.numbers[1]).max()) <= example.longest


def test_the_example_has_the_shape_of_batches_with_token_cutoff() -> None:
    """Otherwise no CUDA graph of it would fit any batch."""
    lengths = [(3, 4), (5, 2)] * 20
    batches = make(Store(lengths), 64, packed=True, cutoff=TokenCutoff((0.1, 0.2)))
    (batch,) = next(batches.epoch(0)).micro_batches
    assert batch.has_shape_of(batches.example())  # type: ignore[union-attr, arg-type]
