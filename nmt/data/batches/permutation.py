"""A random order of any number of things that is computed place by place, so that it takes no memory.

A Feistel network (Luby and Rackoff 1988) over a grid of rows and columns that is little larger than the range: in each
round a hash of one coordinate is added to the other, which can be undone, so that no two numbers become equal. A number
that lands outside of the range is sent through it again, until it is inside ("cycle walking", Black and Rogaway 2002).
"""

import math

import numpy as np
import numpy.typing as npt

from nmt.data.draws import mixed

_ROUNDS = 6

Numbers = npt.NDArray[np.int64]


def permuted(places: Numbers, size: int, key: tuple[int, ...]) -> Numbers:
    """Which of the numbers 0 … size - 1 is at each of these places [n] of the order that `key` names."""
    if size == 1 or not len(places):
        return np.zeros_like(places)
    columns = math.isqrt(size - 1) + 1
    rows = -(-size // columns)
    seeds = np.random.SeedSequence(key).generate_state(_ROUNDS, np.uint64).astype(np.uint64)
    numbers = _through(places, rows, columns, seeds)
    while (outside := np.flatnonzero(numbers >= size)).size:
        numbers[outside] = _through(numbers[outside], rows, columns, seeds)
    return numbers


def _through(numbers: Numbers, rows: int, columns: int, seeds: npt.NDArray[np.uint64]) -> Numbers:
    """All rounds, over the whole grid."""
    row, column = np.divmod(numbers.astype(np.uint64), np.uint64(columns))
    for i, seed in enumerate(seeds):
        if i % 2 == 0:
            row = (row + mixed(column + seed) % np.uint64(rows)) % np.uint64(rows)
        else:
            column = (column + mixed(row + seed) % np.uint64(columns)) % np.uint64(columns)
    return (row * np.uint64(columns) + column).astype(np.int64)
