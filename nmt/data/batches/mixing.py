"""Which pairs of which corpus are trained on when.

A corpus gives its pairs in a random order, pass after pass, each pass in another order: no pair is used twice before
the whole corpus was used once. The mix decides how fast. Its time is counted in pairs: until time T, corpus c with the
share s_c of the mix has given ⌊T · s_c⌋ pairs. So the place of every pair follows from the seed and the time alone, and
shares are exact at any time, but for one pair. An epoch is as long as all corpora together; if every corpus has the
share of its size, each epoch is one pass over all.

In a later stage of training (`nmt.data.batches.stages`) another mix goes on where the one before ended: at the same
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

_ROUNDS = 6  # of the random order

Numbers = npt.NDArray[np.int64]


class MixedPairs(NamedTuple):
    """Some pairs of the mix: the corpus of each, its number there, and in which pass over the corpus, all [n]."""

    corpora: npt.NDArray[np.int32]
    numbers: Numbers
    passes: Numbers


@dataclass(frozen=True)
class Mix:
    """sizes: the pairs of each corpus; shares: of each in the mix, with the sum 1, and 0 for a corpus without pairs;
    start, end: from when until when it holds (None: without an end); before: what each corpus has given before."""

    sizes: tuple[int, ...]
    shares: tuple[Fraction, ...]
    before: tuple[int, ...]
    start: int = 0
    end: int | None = None

    @classmethod
    def of(
        cls, sizes: Sequence[int], weights: Sequence[float] | None = None, temperature: float | None = None
    ) -> "Mix":
        """weights: in any unit; temperature: each corpus has the weight size^(1 / temperature) (Arivazhagan et al.
        2019, section 4.2: 1 mixes by size, a high one evenly). Without both by size."""
        if weights is None:
            weights = list(sizes) if temperature is None else [size ** (1 / temperature) for size in sizes]
        exact = [Fraction(weight) for weight in weights]
        return cls(tuple(sizes), tuple(weight / sum(exact) for weight in exact), (0,) * len(sizes))

    @cached_property
    def epoch(self) -> int:
        """The length of an epoch."""
        return sum(self.sizes)

    def given(self, time: int) -> list[int]:
        """How many pairs each corpus has given until then, since the start of training."""
        since = time - self.start
        return [
            before + since * share.numerator // share.denominator
            for before, share in zip(self.before, self.shares, strict=True)
        ]

    def reaches(self, corpus: int, given: int) -> int:
        """The first time at which a corpus with a share has given that many pairs."""
        share = self.shares[corpus]
        return self.start - (self.before[corpus] - given) * share.denominator // share.numerator

    def part_of(self, epoch: int) -> tuple[int, int]:
        """From when until when the mix holds in an epoch."""
        end = (epoch + 1) * self.epoch
        return max(self.start, epoch * self.epoch), end if self.end is None else min(self.end, end)

    def pools(self, start: int, end: int, most: int, long_pass: int) -> Iterator[tuple[int, int]]:
        """Intervals [start, end) of time, each of which gives pairs that are batched together and shuffled.

        An interval has at most `most` pairs. It ends where a corpus ends a pass that takes `long_pass` or more pairs of
        the mix, so that all pairs of that pass are used before the next one begins. For shorter ones see `passes`.
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
        """The corpora that end a pass between two times; and these two times with those of the ends between them,
        ascending. From each of the times to the next, every corpus gives pairs of one pass."""
        ending = [corpus for corpus in self._used() if self._pass_ends([corpus], start, end)]
        return ending, [start, *self._pass_ends(ending, start, end), end]

    def _used(self) -> Iterator[int]:
        """The corpora that have a share."""
        return (corpus for corpus, share in enumerate(self.shares) if share)

    def _pass_ends(self, corpora: Iterable[int], start: int, end: int) -> list[int]:
        """The times after `start` and before `end` at which one of these corpora ends a pass, ascending."""
        first, last = self.given(start), self.given(end - 1)
        return sorted(
            {
                self.reaches(corpus, number * size)
                for corpus in corpora
                for size in [self.sizes[corpus]]
                for number in range(first[corpus] // size + 1, last[corpus] // size + 1)
            }
        )

    def draw(self, start: int, end: int, seed: int) -> MixedPairs:
        """The pairs from one time to another, those of each corpus together, in its order."""
        none = np.zeros(0, np.int64)
        corpora, numbers, passes = [none.astype(np.int32)], [none], [none]
        for corpus, (first, last, size) in enumerate(zip(self.given(start), self.given(end), self.sizes, strict=True)):
            if first == last:
                continue
            of_pass, place = np.divmod(np.arange(first, last, dtype=np.int64), size)
            for number in range(first // size, -(-last // size)):
                numbers.append(permuted(place[of_pass == number], size, (seed, corpus, number)))
            corpora.append(np.full(last - first, corpus, np.int32))
            passes.append(of_pass)
        return MixedPairs(np.concatenate(corpora), np.concatenate(numbers), np.concatenate(passes))


def permuted(places: Numbers, size: int, key: tuple[int, ...]) -> Numbers:
    """Which of the numbers 0 … size - 1 is at each of these places [n] of the random order that `key` names.

    The order is computed place by place, so that it takes no memory: by a Feistel network (Luby and Rackoff 1988) over
    a grid of rows and columns that is little larger than the range. In each round a hash of one coordinate is added to
    the other, which can be undone, so that no two numbers become equal. A number that lands outside of the range is
    sent through it again, until it is inside ("cycle walking", Black and Rogaway 2002).
    """
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
