"""A random order computed place by place: each number once, another order for another key, no visible pattern."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.batches.mixing import permuted


@given(st.integers(1, 3000), st.tuples(st.integers(0, 2**63), st.integers(0, 9)))
def test_each_number_is_at_one_place(size: int, key: tuple[int, ...]) -> None:
    assert sorted(permuted(np.arange(size), size, key).tolist()) == list(range(size))


@pytest.mark.parametrize("size", [1000, 9973, 65536])
def test_it_looks_random(size: int) -> None:
    """Numbers at neighbouring places are unrelated, each tenth of the places has each tenth of the numbers equally
    often, and orders of different keys have as many numbers in common places as chance gives: one on average."""
    one, other = (permuted(np.arange(size), size, (seed, 0)) for seed in (1, 2))
    assert abs(np.corrcoef(one[:-1], one[1:])[0, 1]) < 4 / size**0.5
    assert abs(np.corrcoef(np.arange(size), one)[0, 1]) < 4 / size**0.5
    table = np.histogram2d(np.arange(size), one, bins=10)[0]
    expected = size / 100
    assert ((table - expected) ** 2 / expected).sum() < 81 + 5 * 162**0.5  # chi², 81 degrees of freedom
    assert (one == other).sum() < 8
