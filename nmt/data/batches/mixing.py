"""The order in which the pairs of all corpora are trained on.

The pairs of a corpus are drawn in random order, pass after pass, each pass in a different order. No pair is used twice
before the whole corpus was used once. The mix decides how fast each corpus is used. Its time is counted in pairs: until
time T, ⌊T · s_c⌋ pairs are drawn from corpus c with the share s_c of the mix. So the position of every pair follows
from the seed and the time alone, and shares are exact at any time, up to one pair. An epoch is as long as all corpora
together. If the shares are proportional to the sizes, each epoch is one pass over every corpus.

In a later stage of training (`nmt.data.batches.stages`) another mix continues where the previous one ended: at the same
time, and in the middle of each corpus's pass.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.data.draws import mixed

_ROUNDS = 6  # of the Feistel network

Indices = npt.NDArray[np.int64]


class MixedPairs(NamedTuple):
    """Some pairs of the mix."""

    corpora: npt.NDArray[np.int32]  # [n]: the corpus of each pair
    indices: Indices  # [n]: the index of each pair in its corpus
    passes: Indices  # [n]: the pass over the corpus in which the pair is drawn


@dataclass(frozen=True)
class Mix:
    """How the corpora are mixed from time `start` until time `end`."""

    sizes: tuple[int, ...]  # pairs of each corpus
    shares: tuple[Fraction, ...]  # share of each corpus, with the sum 1; 0 for a corpus without pairs
    before: tuple[int, ...]  # pairs drawn from each corpus before `start`
    start: int = 0
    end: int | None = None  # None: the mix never ends

    @classmethod
    def from_weights(
        cls, sizes: Sequence[int], weights: Sequence[float] | None = None, temperature: float | None = None
    ) -> "Mix":
        """weights: in any unit; by default the sizes. temperature: each corpus has the weight size^(1 / temperature)
        (Arivazhagan et al. 2019, section 4.2). 1 mixes by size, a high temperature mixes evenly."""
        if weights is None:
            weights = list(sizes) if temperature is None else [size ** (1 / temperature) for size in sizes]
        exact = [Fraction(weight) for weight in weights]
        return cls(tuple(sizes), tuple(weight / sum(exact) for weight in exact), (0,) * len(sizes))

    @cached_property
    def epoch(self) -> int:
        """The length of an epoch."""
        return sum(self.sizes)

    def drawn_until(self, time: int) -> list[int]:
        """How many pairs are drawn from each corpus until `time`, since the start of training."""
        since = time - self.start
        return [
            before + since * share.numerator // share.denominator
            for before, share in zip(self.before, self.shares, strict=True)
        ]

    def reaches(self, corpus: int, pairs: int) -> int:
        """The first time at which that many pairs are drawn from a corpus. Its share must not be 0."""
        share = self.shares[corpus]
        return self.start - (self.before[corpus] - pairs) * share.denominator // share.numerator

    def part_of(self, epoch: int) -> tuple[int, int]:
        """The interval [start, end) of time in which the mix holds in an epoch."""
        end = (epoch + 1) * self.epoch
        return max(self.start, epoch * self.epoch), end if self.end is None else min(self.end, end)

    def pools(self, start: int, end: int, most: int, long_pass: int) -> Iterator[tuple[int, int]]:
        """Yield intervals [start, end) of time. The pairs of an interval are batched together and shuffled.

        An interval has at most `most` pairs. It ends where a corpus ends a pass that takes `long_pass` or more pairs of
        the mix, so that all pairs of that pass are used before the next pass begins. For shorter passes see `passes`.
        """
        time = start
        long = [corpus for corpus in self._used() if self.sizes[corpus] >= long_pass * self.shares[corpus]]
        for upto in [*self._pass_ends(long, start, end), end]:
            parts = -(-(upto - time) // most)
            while time < upto:
                following = time + -(-(upto - time) // parts)
                yield time, following
                time, parts = following, parts - 1

    def passes(self, start: int, end: int) -> tuple[list[int], list[int]]:
        """Return the corpora that end a pass between two times, and a list of times: `start`, the ends of passes in
        between, ascending, and `end`. Between neighbouring times, all pairs of a corpus are from the same pass."""
        ending = [corpus for corpus in self._used() if self._pass_ends([corpus], start, end)]
        return ending, [start, *self._pass_ends(ending, start, end), end]

    def _used(self) -> Iterator[int]:
        """The corpora with a share above 0."""
        return (corpus for corpus, share in enumerate(self.shares) if share)

    def _pass_ends(self, corpora: Iterable[int], start: int, end: int) -> list[int]:
        """The times after `start` and before `end` at which one of these corpora ends a pass, ascending."""
        first, last = self.drawn_until(start), self.drawn_until(end - 1)
        times = set[int]()
        for corpus in corpora:
            size = self.sizes[corpus]
            passes = range(first[corpus] // size + 1, last[corpus] // size + 1)
            times.update(self.reaches(corpus, number * size) for number in passes)
        return sorted(times)

    def draw(self, start: int, end: int, seed: int) -> MixedPairs:
        """The pairs in [start, end), corpus by corpus, in the order of each corpus's passes."""
        empty = np.zeros(0, np.int64)
        corpora, indices, passes = [empty.astype(np.int32)], [empty], [empty]
        drawn = zip(self.drawn_until(start), self.drawn_until(end), self.sizes, strict=True)
        for corpus, (first, last, size) in enumerate(drawn):
            if first == last:
                continue
            pass_numbers, positions = np.divmod(np.arange(first, last, dtype=np.int64), size)
            for number in range(first // size, -(-last // size)):
                indices.append(permuted(positions[pass_numbers == number], size, (seed, corpus, number)))
            corpora.append(np.full(last - first, corpus, np.int32))
            passes.append(pass_numbers)
        return MixedPairs(np.concatenate(corpora), np.concatenate(indices), np.concatenate(passes))


def permuted(positions: Indices, size: int, key: tuple[int, ...]) -> Indices:
    """Return the indices [n] at these positions [n] in a random order of 0 … size - 1. `key` selects the order.

    Each index is computed by itself, so that the order takes no memory. The method is a Feistel network (Luby and
    Rackoff 1988) over a grid of rows and columns that is slightly larger than the range. In each round a hash of one
    coordinate is added to the other. This can be undone, so different positions have different indices. An index
    outside of the range is sent through the network again, until it is inside ("cycle walking", Black and Rogaway
    2002).
    """
    if size == 1 or not len(positions):
        return np.zeros_like(positions)
    columns = math.isqrt(size - 1) + 1
    rows = -(-size // columns)
    seeds = np.random.SeedSequence(key).generate_state(_ROUNDS, np.uint64).astype(np.uint64)
    indices = _through(positions, rows, columns, seeds)
    while (outside := np.flatnonzero(indices >= size)).size:
        indices[outside] = _through(indices[outside], rows, columns, seeds)
    return indices


def _through(indices: Indices, rows: int, columns: int, seeds: npt.NDArray[np.uint64]) -> Indices:
    """All rounds of the network, over the whole grid."""
    row, column = np.divmod(indices.astype(np.uint64), np.uint64(columns))
    for i, seed in enumerate(seeds):
        if i % 2 == 0:
            row = (row + mixed(column + seed) % np.uint64(rows)) % np.uint64(rows)
        else:
            column = (column + mixed(row + seed) % np.uint64(columns)) % np.uint64(columns)
    return (row * np.uint64(columns) + column).astype(np.int64)
