"""Mixing: shares are exact at any time, corpora are used pass by pass, and everything follows from seed and time."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.batches.mixing import Mix

SIZES = st.lists(st.integers(0, 60), min_size=1, max_size=5).filter(any)
WEIGHTS = st.floats(0.01, 100, allow_nan=False)
MIXES = SIZES.flatmap(
    lambda sizes: st.lists(WEIGHTS, min_size=len(sizes), max_size=len(sizes)).map(
        lambda weights: Mix.from_weights(sizes, [w if size else 0 for w, size in zip(weights, sizes, strict=True)])
    )
)


def test_shares() -> None:
    """The properties of one mix are those of a stage's: see test_stages."""
    assert Mix.from_weights([30, 10]).shares == (Fraction(3, 4), Fraction(1, 4))
    assert Mix.from_weights([30, 10], [1, 1]).shares == (Fraction(1, 2), Fraction(1, 2))
    assert Mix.from_weights([300, 100], temperature=1).shares == Mix.from_weights([300, 100]).shares
    three, one = Mix.from_weights([81, 1], temperature=4).shares
    assert (float(three), float(one)) == pytest.approx((0.75, 0.25))


@given(MIXES, st.lists(st.integers(0, 300), min_size=2, max_size=8).map(sorted))
def test_what_is_drawn_in_parts_is_what_is_drawn_at_once(mix: Mix, times: list[int]) -> None:
    whole = mix.draw(times[0], times[-1], seed=5)
    parts = [mix.draw(start, end, seed=5) for start, end in pairwise(times)]
    for corpus in range(len(mix.sizes)):
        for field in range(3):
            one = whole[field][whole.corpora == corpus].tolist()
            assert one == [i for part in parts for i in part[field][part.corpora == corpus].tolist()]


@given(MIXES, st.integers(0, 200), st.integers(1, 200))
def test_passes_divide_a_time(mix: Mix, start: int, length: int) -> None:
    ending, times = mix.passes(start, start + length)
    assert times[0] == start and times[-1] == start + length and times == sorted(set(times))
    whole = mix.draw(start, start + length, seed=0)
    several = [c for c in range(len(mix.sizes)) if len(np.unique(whole.passes[whole.corpora == c])) > 1]
    assert set(several) <= set(ending)  # a corpus may end a pass without beginning another
    for first, last in pairwise(times):
        corpora, _, passes = mix.draw(first, last, seed=0)
        assert all(len(np.unique(passes[corpora == corpus])) <= 1 for corpus in range(len(mix.sizes)))


def test_by_size_pools_are_equal_parts_of_an_epoch() -> None:
    assert list(Mix.from_weights([900, 100]).pools(1000, 2000, 400, 50)) == [(1000, 1334), (1334, 1667), (1667, 2000)]
    assert Mix.from_weights([900, 100]).passes(1000, 2000) == ([], [1000, 2000])
