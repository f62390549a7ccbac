"""Pairs that differ from an earlier one only in case, accents, digits, punctuation or white space."""

import hashlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Pair
from nmt.data.rules import characters
from nmt.data.rules.characters import Lines

_FEWEST_LETTERS = 4  # a pair with fewer on a side is compared as it is: `12.` is not the same as `13.`


def folded_hashes(pairs: Sequence[Pair]) -> npt.NDArray[np.uint64]:
    """A hash of each pair's letters without case and accents: [pairs]. Near-duplicates have the same hash; the
    probability that two of 10 million other pairs have the same is 3e-6.

    This is most of the work and can be done for many chunks at once; `SeenPairs.add_hashes` then says in the order of
    the corpus which pairs are new.
    """
    sides = [_folded([pair[side] for pair in pairs]) for side in (0, 1)]
    digests = []
    for pair, source, target in zip(pairs, *sides, strict=True):
        if min(len(source), len(target)) < 4 * _FEWEST_LETTERS:
            source, target = (side.encode("utf-32-le", "surrogatepass") for side in pair)
        digests.append(hashlib.blake2b(b"\n\0\0\0".join((source, target)), digest_size=8).digest())
    return np.frombuffer(b"".join(digests), np.uint64)


def _folded(texts: Sequence[str]) -> list[bytes]:
    """The letters of each text as UTF-32."""
    lines = Lines.of(texts)
    letters = characters.folded()[lines.codes]
    sizes = lines.count(letters != 0) * letters.itemsize
    ends = np.cumsum(sizes)
    folded = letters[letters != 0].tobytes()
    return [folded[start:end] for start, end in zip((ends - sizes).tolist(), ends.tolist(), strict=True)]
