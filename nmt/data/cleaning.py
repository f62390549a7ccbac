"""The text that is trained on: pairs without an empty side, and on request without copies and duplicates."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import compress, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from nmt.config import schema
from nmt.data.corpus import Pair, read_pairs
from nmt.data.report import CorpusCounts

CHUNK_PAIRS = 4096  # pairs that are cleaned, encoded and written together: this bounds the memory


class Chunk(NamedTuple):
    """Pairs of one corpus."""

    corpus: int  # its number in data.train
    pairs: list[Pair]  # those kept
    counts: CorpusCounts  # of the pairs read for it


@dataclass(frozen=True)
class TrainingText:
    """The training corpora, read and cleaned each time that their chunks are iterated over."""

    data: schema.DataConfig
    fingerprints: tuple[str, ...]  # of the corpora: reading one with another fingerprint is an error

    @property
    def key(self) -> list[object]:
        """What decides which pairs there are."""
        data = self.data
        return [self.fingerprints, data.source_language, data.target_language, data.drop_copies, data.drop_duplicates]

    def chunks(self, progress: str) -> Iterator[Chunk]:
        """The pairs in their order. `progress` heads the progress bar. Raises NmtError as `read_pairs` does."""
        seen = SeenPairs() if self.data.drop_duplicates else None
        with tqdm(desc=progress, unit=" pairs", unit_scale=True, disable=None, leave=False) as bar:
            for number, (corpus, expected) in enumerate(zip(self.data.train, self.fingerprints, strict=True)):
                pairs = read_pairs(corpus, self.data, "train", expected)
                while chunk := list(islice(pairs, CHUNK_PAIRS)):
                    bar.update(len(chunk))
                    yield Chunk(number, *clean(chunk, self.data.drop_copies, seen))


def clean(pairs: list[Pair], drop_copies: bool, seen: "SeenPairs | None") -> tuple[list[Pair], CorpusCounts]:
    """The pairs that are kept, and how many were read and dropped. seen: the pairs that came before, to which these
    are added; None keeps duplicates."""
    full = without_empty(pairs)
    different = [pair for pair in full if pair[0] != pair[1]] if drop_copies else full
    kept = different if seen is None else list(compress(different, seen.add(different)))
    dropped = (len(pairs) - len(full), len(full) - len(different), len(different) - len(kept))
    return kept, CorpusCounts(len(pairs), *dropped)


def without_empty(pairs: list[Pair]) -> list[Pair]:
    """The pairs with text on both sides; white space is no text."""
    return [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


def count_repeats(pairs: list[Pair], seen: "SeenPairs | None") -> CorpusCounts:
    """Counts copies and duplicates among pairs that are kept. seen: None if duplicates were dropped before."""
    copies = sum(source == target for source, target in pairs)
    return CorpusCounts(kept_copies=copies, kept_duplicates=0 if seen is None else int((~seen.add(pairs)).sum()))


class SeenPairs:
    """A set of pairs that takes 8 to 16 bytes for each, a tenth of a Python set: 8-byte hashes in sorted arrays whose
    sizes double. The probability that two of 10 million pairs have the same hash is 3e-6."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[np.uint64]] = []  # largest first

    def add(self, pairs: list[Pair]) -> npt.NDArray[np.bool_]:
        """Add the pairs; returns which of them are new: bool [pairs]."""
        if not pairs:
            return np.zeros(0, dtype=np.bool_)
        digests = [hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest() for pair in pairs]
        return self.add_hashes(np.frombuffer(b"".join(digests), dtype=np.uint64))

    def add_hashes(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """The same for pairs that are given by their hashes."""
        new = np.zeros(len(hashes), dtype=np.bool_)
        new[np.unique(hashes, return_index=True)[1]] = True  # the first of those that are equal here
        for array in self.arrays:
            places = np.searchsorted(array, hashes).clip(max=len(array) - 1)
            new &= array[places] != hashes
        added = np.sort(hashes[new])
        while self.arrays and len(self.arrays[-1]) <= len(added):
            added = np.sort(np.concatenate((self.arrays.pop(), added)), kind="stable")  # merges sorted arrays
        if len(added):
            self.arrays.append(added)
        return new
