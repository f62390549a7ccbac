"""Id sequences of sentence pairs in flat arrays, in memory or in memory-mapped files.

For each side, a store's folder holds the subwords of all sentences (`source.ids`, uint16 or uint32), the start of each
sentence (`source.offsets`, int64 [pairs + 1]) and its length (`source.lengths`, int32 [pairs]). `meta.json` holds
sizes, counts and examples of dropped pairs. Numbers are little-endian. Every sequence ends in EOS. With BPE-dropout or
data.augment the store holds each pair in several versions, one after the other.

Files are memory-mapped. They must not be truncated while they are used: the operating system ends a process that reads
past their end.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.summary import CorpusCounts, counts_from, nothing_left
from nmt.data.subwords.vocabulary import EOS
from nmt.errors import NmtError

Integers = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class FlatSequences:
    """The id sequences of one side, end to end. Each ends in EOS."""

    ids: Integers  # uint16 or uint32 [subwords of all sequences]
    offsets: npt.NDArray[np.int64]  # [pairs + 1]
    lengths: npt.NDArray[np.int32]  # [pairs]; EOS counted

    def __len__(self) -> int:
        """The number of sequences."""
        return len(self.lengths)

    @classmethod
    def from_lists(cls, sequences: list[list[int]], vocabulary_size: int, end: bool = True) -> "FlatSequences":
        """From sequences without EOS. EOS is added to each unless `end` is False."""
        lengths = np.fromiter(map(len, sequences), np.int32, len(sequences)) + np.int32(end)
        ids = chain.from_iterable(chain.from_iterable((each, (EOS,)) for each in sequences) if end else sequences)
        dtype = "<u2" if vocabulary_size <= 2**16 else "<u4"
        return cls.from_flat(np.fromiter(ids, dtype, int(lengths.sum(dtype=np.int64))), lengths)

    @classmethod
    def from_flat(cls, ids: Integers, lengths: npt.NDArray[np.int32]) -> "FlatSequences":
        """From the ids [subwords of all sequences] and the length of each sequence."""
        return cls(ids, _offsets(lengths), lengths)

    @classmethod
    def joined(cls, parts: Sequence["FlatSequences"]) -> "FlatSequences":
        """The sequences of each part, one part after the other."""
        ids, lengths = [part.ids for part in parts], [part.lengths for part in parts]
        return cls.from_flat(np.concatenate(ids), np.concatenate(lengths))

    def pick(self, indices: Integers) -> "FlatSequences":
        """A copy of the sequences with these indices [n], in this order."""
        lengths = self.lengths[indices]
        offsets = _offsets(lengths)
        positions = np.arange(offsets[-1]) + np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        return FlatSequences(self.ids[positions], offsets, lengths)

    def after(self, tokens: list[int]) -> "FlatSequences":
        """The sequences with these tokens in front of each."""
        count, sequences = len(tokens), len(self.lengths)
        ids = np.insert(self.ids, np.repeat(self.offsets[:-1], count), tokens * sequences)
        return FlatSequences(ids, self.offsets + count * np.arange(sequences + 1), self.lengths + np.int32(count))

    def take(self, indices: Integers) -> list[Integers]:
        """The ids of the sequences with these indices [n], in this order, as views."""
        starts, ends = self.offsets[indices].tolist(), self.offsets[indices + 1].tolist()
        return [self.ids[start:end] for start, end in zip(starts, ends, strict=True)]


def _offsets(lengths: Integers) -> npt.NDArray[np.int64]:
    return np.append(np.int64(0), lengths.cumsum(dtype=np.int64))


@dataclass(frozen=True)
class TokenStore:
    """Pairs of id sequences. A store in files opens at once and takes memory only as it is read."""

    source: FlatSequences
    target: FlatSequences

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self.source)

    @property
    def sides(self) -> dict[str, FlatSequences]:
        """Both sides by name."""
        return {"source": self.source, "target": self.target}

    def pairs(self, indices: Integers) -> tuple[list[Integers], list[Integers]]:
        """The source and the target ids of the pairs with these indices [n], in this order, as views."""
        return self.source.take(indices), self.target.take(indices)

    def pick(self, indices: Integers) -> "TokenStore":
        """A copy in memory of the pairs with these indices [n], in this order."""
        return TokenStore(self.source.pick(indices), self.target.pick(indices))

    @classmethod
    def joined(cls, parts: Sequence["TokenStore"]) -> "TokenStore":
        """A copy in memory of the pairs of each part, one part after the other."""
        source, target = [part.source for part in parts], [part.target for part in parts]
        return cls(FlatSequences.joined(source), FlatSequences.joined(target))


def write(
    folder: Path, chunks: Iterable[tuple[int, TokenStore, CorpusCounts]], examples: Sequence[DropExamples] = ()
) -> None:
    """Write chunks of pairs one after the other into files in an empty folder.

    chunks: the corpus, the pairs and the counts of each chunk. examples: examples of dropped pairs of each corpus,
    which are read after the last chunk. Raises NmtError if there is no pair.
    """
    totals: dict[int, CorpusCounts] = {}
    with _Writer(folder, "source") as source, _Writer(folder, "target") as target:
        for corpus, tokens, counted in chunks:
            source.append(tokens.source)
            target.append(tokens.target)
            totals[corpus] = totals.get(corpus, CorpusCounts()) + counted
    if not source.pairs:
        raise nothing_left(sum(totals.values(), CorpusCounts()))
    meta = {
        "pairs": source.pairs,
        "source": {"dtype": source.dtype, "subwords": source.subwords},
        "target": {"dtype": target.dtype, "subwords": target.subwords},
        "counts": [asdict(counted) for counted in totals.values()],
        "examples": [corpus_examples.to_json() for corpus_examples in examples],
    }
    text = json.dumps(meta, indent=1, ensure_ascii=False) + "\n"
    (folder / "meta.json").write_text(text, encoding="utf-8", errors="backslashreplace")  # backslashes are valid JSON


class _Writer(ExitStack):
    """Writes the files of one side chunk by chunk, and closes them on exit."""

    def __init__(self, folder: Path, name: str) -> None:
        super().__init__()
        self.pairs, self.subwords, self.dtype = 0, 0, ""  # written so far; EOS counted
        self._ids, self._offsets, self._lengths = (
            self.enter_context((folder / f"{name}.{part}").open("wb")) for part in ("ids", "offsets", "lengths")
        )
        _write(self._offsets, np.zeros(1, "<i8"), "<i8")

    def append(self, sequences: FlatSequences) -> None:
        self.dtype = sequences.ids.dtype.str
        _write(self._ids, sequences.ids, self.dtype)
        _write(self._lengths, sequences.lengths, "<i4")
        _write(self._offsets, self.subwords + sequences.offsets[1:], "<i8")
        self.pairs += len(sequences.lengths)
        self.subwords += len(sequences.ids)


def _write(file: BinaryIO, numbers: Integers, dtype: str) -> None:
    file.write(numbers.astype(dtype, copy=False).data)


def load(folder: Path) -> tuple[TokenStore, tuple[CorpusCounts, ...]]:
    """Open a store. Also returns the counts of each corpus. Raises NmtError if files are damaged or missing."""
    try:
        meta = _meta(folder)
        source, target = (_mapped(folder, name, meta["pairs"], meta[name]) for name in ("source", "target"))
        return TokenStore(source, target), counts_from(meta["counts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NmtError(f"{folder}: damaged token store ({error}): delete the folder to build it again") from error


def examples(folder: Path) -> tuple[DropExamples, ...]:
    """Examples of the pairs that were dropped and nearly dropped in each corpus before encoding. Raises NmtError if
    their file is damaged or missing."""
    try:
        return tuple(map(DropExamples.from_json, _meta(folder)["examples"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise NmtError(f"{folder / 'meta.json'}: damaged ({error})") from error


def _meta(folder: Path) -> Any:
    return json.loads((folder / "meta.json").read_text(encoding="utf-8"))


def _mapped(folder: Path, name: str, pairs: int, meta: dict[str, Any]) -> FlatSequences:
    def mapped(part: str, dtype: str, size: int) -> npt.NDArray[Any]:
        array = np.memmap(folder / f"{name}.{part}", dtype, mode="r")
        if len(array) != size:
            raise ValueError(f"{name}.{part} has {len(array):,} numbers, not {size:,}")
        return array.view(np.ndarray)  # slices of an ndarray are faster than those of a memmap

    return FlatSequences(
        mapped("ids", meta["dtype"], meta["subwords"]),
        mapped("offsets", "<i8", pairs + 1),
        mapped("lengths", "<i4", pairs),
    )
