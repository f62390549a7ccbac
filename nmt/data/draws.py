"""Random numbers that are derived from names alone. They do not depend on the order, the process and the Python
version.

SplitMix64 (Steele, Lea and Flood, 2014, Fast Splittable Pseudorandom Number Generators): a counter is increased by a
constant, and mixing the bits of each count gives the random number.
"""

import zlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

_STEP, _FIRST, _SECOND = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_MASK = 2**64 - 1


def hashes(seed: int, epoch: int, numbers: npt.ArrayLike, purpose: str) -> npt.NDArray[np.uint64]:
    """A random 64-bit number for each of `numbers` [n] ≥ 0. Different purposes give independent random numbers."""
    state = np.zeros(1, np.uint64)
    for part in (seed & _MASK, epoch, zlib.crc32(purpose.encode()), np.asarray(numbers)):
        state = mixed(state + np.asarray(part).astype(np.uint64) + np.uint64(_STEP))
    return state


def uniform(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.float64]:
    """The hashes as numbers in [0, 1)."""
    return (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53


def mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[Any]:
    """Mix the bits of 64-bit numbers [...] as SplitMix64 does. Different numbers stay different."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(_FIRST)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(_SECOND)
    return state ^ (state >> np.uint64(31))


def generator(*names: int) -> np.random.Generator:
    """NumPy's generator, seeded with these names."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(names)))


class Draws:
    """A sequence of random numbers, seeded with `start`, a 64-bit number. Python's own generator takes 8 µs to create;
    this one takes 0.4 µs for each number."""

    def __init__(self, start: int) -> None:
        self._state = start

    def below(self, end: int) -> int:
        """A whole number from 0 to end - 1, uniformly distributed."""
        self._state = state = (self._state + _STEP) & _MASK
        state = (state ^ (state >> 30)) * _FIRST & _MASK
        state = (state ^ (state >> 27)) * _SECOND & _MASK
        return (state ^ (state >> 31)) * end >> 64

    def choice(self, items: Sequence[T]) -> T:
        """One of the items, uniformly distributed."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """One of the items, with probabilities proportional to the weights, which are ≥ 0 with a positive sum."""
        position = self.below(2**53) * 2.0**-53 * sum(weights)
        return items[min(bisect_right(list(accumulate(weights)), position), len(items) - 1)]
