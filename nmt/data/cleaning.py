"""Which training pairs are kept, and the report on it: what is dropped is counted, by corpus and reason."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from nmt.config import schema
from nmt.data.corpus import Pair, read_pairs
from nmt.errors import NmtError
from nmt.files.table import table

CHUNK_PAIRS = 4096  # pairs that are filtered, encoded and written together: what bounds the memory


@dataclass
class SideCounts:
    """The text of one side of the pairs kept."""

    words: int = 0  # between spaces
    characters: int = 0
    subwords: int = 0  # end of sentence not counted, here and below
    longest: int = 0  # subwords
    unknown: int = 0  # subwords


@dataclass
class Counts:
    """The pairs of one corpus: how many were read, dropped for what, in the order of the checks, and what is kept.

    kept_copies and kept_duplicates are None where an earlier version prepared the data: it did not count them.
    """

    read: int = 0
    empty: int = 0  # a side is empty or white space, or of characters that normalization removes
    copies: int = 0  # data.drop_copies
    duplicates: int = 0  # data.drop_duplicates; the first one stays
    too_long: int = 0  # data.max_length
    ratio: int = 0  # data.max_length_ratio
    kept_copies: int | None = 0  # of the pairs kept, those whose sides are equal
    kept_duplicates: int | None = 0  # of the pairs kept, those that were kept before
    source: SideCounts = field(default_factory=SideCounts)
    target: SideCounts = field(default_factory=SideCounts)

    @property
    def kept(self) -> int:
        return self.read - self.empty - self.copies - self.duplicates - self.too_long - self.ratio


def counts_of(plain: Sequence[Mapping[str, Any]]) -> tuple[Counts, ...]:
    """The counts that `dataclasses.asdict` gave, one a corpus. KeyError or TypeError for what are none."""
    unknown = {"kept_copies": None, "kept_duplicates": None}
    sides = ("source", "target")
    return tuple(
        Counts(**{**unknown, **count, **{side: SideCounts(**count[side]) for side in sides}}) for count in plain
    )


def cleaned(
    data: schema.DataConfig, counts: Sequence[Counts], doing: str, fingerprints: Sequence[str]
) -> Iterator[tuple[Counts, list[Pair]]]:
    """The training corpora in chunks of pairs, without those whose text alone condemns them.

    With each chunk comes its corpus's element of `counts`, in which what was read and dropped is counted;
    `doing` heads the progress bar; `fingerprints` are those that the corpora must have while they are read. Raises
    NmtError as `read_pairs` does.
    """
    seen = SeenBefore() if data.drop_duplicates else None
    with tqdm(desc=doing, unit=" pairs", unit_scale=True, disable=None, leave=False) as bar:
        for corpus, count, expected in zip(data.train, counts, fingerprints, strict=True):
            pairs = read_pairs(corpus, data, "train", expected)
            while chunk := list(islice(pairs, CHUNK_PAIRS)):
                count.read += len(chunk)
                bar.update(len(chunk))
                yield count, _filter(chunk, data.drop_copies, seen, count)


def _filter(pairs: list[Pair], drop_copies: bool, seen: "SeenBefore | None", count: Counts) -> list[Pair]:
    full = without_empty(pairs)
    count.empty += len(pairs) - len(full)
    different = [pair for pair in full if pair[0] != pair[1]] if drop_copies else full
    count.copies += len(full) - len(different)
    if seen is None or not different:
        return different
    new = [pair for pair, is_new in zip(different, seen.add(different), strict=True) if is_new]
    count.duplicates += len(different) - len(new)
    return new


def without_empty(pairs: list[Pair]) -> list[Pair]:
    """The pairs of which neither side is empty or white space."""
    return [pair for pair in pairs if pair[0].strip() and pair[1].strip()]


REASONS = {  # why pairs are dropped, by the name of their count
    "empty": "empty on a side",
    "copies": "copies (data.drop_copies)",
    "duplicates": "duplicates (data.drop_duplicates)",
    "too_long": "too long (data.max_length)",
    "ratio": "too different in length (data.max_length_ratio)",
}


def nothing_left(counts: Sequence[Counts]) -> NmtError:
    """The error of corpora of which no pair is left, with what became of them."""
    totals = {words: sum(getattr(count, name) for count in counts) for name, words in REASONS.items()}
    found = ", ".join(f"{total:,} {words}" for words, total in totals.items() if total)
    return NmtError(f"data.train: none of the pairs read is left to train on: {found}")


class Repeats:
    """Counts the copies and duplicates among the pairs that are kept: in memory, 8 to 16 bytes a pair.

    Nothing is remembered where duplicates are dropped before.
    """

    def __init__(self, data: schema.DataConfig) -> None:
        self._seen = None if data.drop_duplicates else SeenBefore()

    def count(self, pairs: list[Pair], count: Counts) -> None:
        """Count these kept pairs, which come after those counted before."""
        assert count.kept_copies is not None and count.kept_duplicates is not None
        count.kept_copies += sum(source == target for source, target in pairs)
        if self._seen is not None and pairs:
            count.kept_duplicates += int((~self._seen.add(pairs)).sum())


class SeenBefore:
    """Which pairs have been seen, as 8-byte hashes in sorted arrays whose sizes double: 8 to 16 bytes a pair,
    where a Python set takes ten times that. Two of 10 million pairs are confused with probability 3e-6."""

    def __init__(self) -> None:
        self.runs: list[npt.NDArray[np.uint64]] = []  # largest first

    def add(self, pairs: list[Pair]) -> npt.NDArray[np.bool_]:
        """For each pair whether it is new [pairs]; from now on it is not."""
        digests = [hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest() for pair in pairs]
        hashes = np.frombuffer(b"".join(digests), dtype=np.uint64)
        new = np.zeros(len(hashes), dtype=np.bool_)
        new[np.unique(hashes, return_index=True)[1]] = True  # the first of equals within the chunk
        for run in self.runs:
            places = np.searchsorted(run, hashes).clip(max=len(run) - 1)
            new &= run[places] != hashes
        fresh = np.sort(hashes[new])
        while self.runs and len(self.runs[-1]) <= len(fresh):
            fresh = np.sort(np.concatenate((self.runs.pop(), fresh)), kind="stable")  # merges sorted runs
        if len(fresh):
            self.runs.append(fresh)
        return new


# --------------------------------------------------------------------------- report

_DROPPED = ["dropped: empty", "copies", "duplicates", "too long", "ratio"]  # headings, in the order of REASONS
_KEPT = ["kept: all", "copies", "duplicates"]


@dataclass(frozen=True)
class Report:
    """What the training data holds and what was dropped from it. As text: two tables."""

    languages: tuple[str, str]
    labels: tuple[str, ...]
    counts: tuple[Counts, ...]  # one a corpus, as the labels

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> "Report":
        """The report that `dataclasses.asdict` gave. KeyError or TypeError for what is none."""
        return cls(tuple(plain["languages"]), tuple(plain["labels"]), counts_of(plain["counts"]))

    def __str__(self) -> str:
        return "\n\n".join(table(rows) for rows in self.tables())

    def tables(self) -> tuple[list[list[str]], list[list[str]]]:
        """What was read, dropped and kept of each corpus, and what each side holds; a row of headings first."""
        corpora = [["corpus", "pairs", *_DROPPED, *_KEPT]]
        numbers = [
            [
                count.read,
                *(getattr(count, name) for name in REASONS),
                count.kept,
                count.kept_copies,
                count.kept_duplicates,
            ]
            for count in self.counts
        ]
        corpora += [[label, *_grouped(row)] for label, row in zip(self.labels, numbers, strict=True)]
        if len(numbers) > 1:
            corpora.append(["all", *_grouped([_total(column) for column in zip(*numbers, strict=True)])])
        sides = [["side", "words", "characters", "subwords", "unknown", "longest", "mean"]]
        for side, language in zip(("source", "target"), self.languages, strict=True):
            sides.append([f"{side} ({language})", *self._side([getattr(count, side) for count in self.counts])])
        return corpora, sides

    def _side(self, counts: list[SideCounts]) -> list[str]:
        words, characters, subwords, unknown = (
            sum(getattr(count, name) for count in counts) for name in ("words", "characters", "subwords", "unknown")
        )
        longest = max(count.longest for count in counts)
        mean = subwords / sum(count.kept for count in self.counts)
        return [*_grouped([words, characters, subwords, unknown, longest]), f"{mean:.1f}"]


def _total(numbers: Iterable[int | None]) -> int | None:
    """The sum; None where a number is not known."""
    known = list(numbers)
    return None if None in known else sum(filter(None, known))


def _grouped(numbers: Iterable[int | None]) -> list[str]:
    return ["?" if number is None else f"{number:,}" for number in numbers]
