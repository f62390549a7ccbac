"""Which pairs of which corpus are trained on when.

A corpus gives its pairs in a random order, pass after pass, each pass in another order: no pair is used twice before
the whole corpus was used once. The mix decides how fast. Its time is counted in pairs: until time T, corpus c with the
share s_c of the mix has given ⌊T · s_c⌋ pairs. So the place of every pair follows from the seed and the time alone, and
shares are exact at any time, but for one pair. An epoch is as long as all corpora together; if every corpus has the
share of its size, each epoch is one pass over all.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.config.language_pairs import LanguagePair
from nmt.data.permutation import permuted
from nmt.errors import NmtError

Numbers = npt.NDArray[np.int64]


class Drawn(NamedTuple):
    """Some pairs of the mix: the corpus of each, its number there, and in which pass over the corpus, all [n]."""

    corpora: npt.NDArray[np.int32]
    numbers: Numbers
    passes: Numbers


@dataclass(frozen=True)
class Mix:
    """sizes: the pairs of each corpus; shares: of each in the mix, with the sum 1, and 0 for a corpus without pairs."""

    sizes: tuple[int, ...]
    shares: tuple[Fraction, ...]

    @classmethod
    def of(
        cls, sizes: Sequence[int], weights: Sequence[float] | None = None, temperature: float | None = None
    ) -> "Mix":
        """weights: in any unit; temperature: each corpus has the weight size^(1 / temperature) (Arivazhagan et al.
        2019, section 4.2: 1 mixes by size, a high one evenly). Without both by size."""
        if weights is None:
            weights = list(sizes) if temperature is None else [size ** (1 / temperature) for size in sizes]
        exact = [Fraction(weight) for weight in weights]
        return cls(tuple(sizes), tuple(weight / sum(exact) for weight in exact))

    @cached_property
    def epoch(self) -> int:
        """The length of an epoch."""
        return sum(self.sizes)

    def given(self, time: int) -> list[int]:
        """How many pairs each corpus has given until then."""
        return [time * share.numerator // share.denominator for share in self.shares]

    def pools(self, epoch: int, most: int, least: int) -> Iterator[tuple[int, int]]:
        """The parts of an epoch, each from one time to another, whose pairs are batched together and shuffled.

        A part has at most `most` pairs, and ends where a corpus ends a pass, so that all pairs of the pass are used
        before the next pass begins; but not after fewer than `least` pairs.
        """
        time, end = epoch * self.epoch, (epoch + 1) * self.epoch
        while time < end:
            upto = min((each for each in self._ends(time + least) if each <= end - least), default=end)
            parts = -(-(upto - time) // most)
            while time < upto:
                following = time + -(-(upto - time) // parts)
                yield time, following
                time, parts = following, parts - 1

    def _ends(self, time: int) -> Iterator[int]:
        """For each corpus: the first time from `time` on at which it ends a pass."""
        for given, size, share in zip(self.given(time - 1), self.sizes, self.shares, strict=True):
            if share:
                passes = given // size + 1
                yield -(-passes * size * share.denominator // share.numerator)

    def draw(self, start: int, end: int, seed: int) -> Drawn:
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
        return Drawn(np.concatenate(corpora), np.concatenate(numbers), np.concatenate(passes))


def mix_of(data: schema.DataConfig, sizes: Sequence[int]) -> Mix:
    """Of the training corpora with these numbers of pairs, as their weights or data.temperature want it. Raises
    NmtError for an empty corpus that should have a share.

    With several pairs of languages the temperature is that of the pairs (Arivazhagan et al. 2019, section 4.2), and
    the corpora of one pair share its weight by size."""
    weights = [one.weight for one in data.train]
    if 0 in sizes and (data.temperature is not None or any(weights)):
        empty = data.train[sizes.index(0)].label
        raise NmtError(f"{empty}: no pair is left, so that it has no share of the mix: remove it from data.train")
    if data.temperature is not None and data.language_pairs.several:
        pairs, together = list(map(data.pair_of, data.train)), Counter[LanguagePair]()
        for pair, size in zip(pairs, sizes, strict=True):
            together[pair] += size
        mixed = Mix.of(list(together.values()), temperature=data.temperature)
        shares = dict(zip(together, mixed.shares, strict=True))
        of_pair = (Fraction(size, together[pair]) for pair, size in zip(pairs, sizes, strict=True))
        return Mix(tuple(sizes), tuple(shares[pair] * share for pair, share in zip(pairs, of_pair, strict=True)))
    return Mix.of(sizes, [weight or 0 for weight in weights] if any(weights) else None, data.temperature)
