"""Id sequences of sentence pairs in flat arrays: in files that are mapped into memory, or in memory.

A store's folder holds for each side its subwords one after another (`source.ids`, uint16 or uint32), where
each sentence begins (`source.offsets`, int64, one more than there are pairs) and how long it is
(`source.lengths`, int32); and `meta.json`. Numbers are little-endian. Every sequence ends in EOS.
With BPE-dropout all pairs are there several times, one segmentation of the corpora after the other.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain, compress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.cleaning import Counts, Repeats, SideCounts, cleaned, counts_of, nothing_left
from nmt.data.corpus import Pair
from nmt.data.vocabulary import EOS, UNK, Tokenizer, Vocabulary
from nmt.device import usable_cores
from nmt.errors import NmtError

FORMAT = 1  # of the files; part of what a store is found by
Integers = npt.NDArray[np.integer[Any]]


class Sequences(Protocol):
    """What batches are made from: pairs of id sequences, each ending in EOS, known by their number."""

    def __len__(self) -> int:
        """How many pairs."""

    @property
    def source_lengths(self) -> Integers:
        """Subwords of each source, EOS counted: int32 [pairs]."""

    @property
    def target_lengths(self) -> Integers:
        """Subwords of each target, EOS counted: int32 [pairs]."""

    def pairs(self, indices: Integers) -> tuple[list[Integers], list[Integers]]:
        """The source and the target ids of the pairs asked for [n], in that order."""


@dataclass(frozen=True)
class Side:
    """The sequences of one side, end to end."""

    ids: Integers  # uint16 or uint32 [subwords of all sequences]
    offsets: npt.NDArray[np.int64]  # [pairs + 1]
    lengths: npt.NDArray[np.int32]  # [pairs]

    def take(self, indices: Integers) -> list[Integers]:
        starts, ends = self.offsets[indices].tolist(), self.offsets[indices + 1].tolist()
        return [self.ids[start:end] for start, end in zip(starts, ends, strict=True)]


@dataclass(frozen=True)
class TokenStore:
    """`Sequences` in flat arrays. A store of any size opens at once and takes memory as it is read."""

    source: Side
    target: Side

    def __len__(self) -> int:
        return len(self.source.lengths)

    @property
    def source_lengths(self) -> npt.NDArray[np.int32]:
        return self.source.lengths

    @property
    def target_lengths(self) -> npt.NDArray[np.int32]:
        return self.target.lengths

    def pairs(self, indices: Integers) -> tuple[list[Integers], list[Integers]]:
        """The source and the target ids of the pairs asked for [n], in that order: views, not copies."""
        return self.source.take(indices), self.target.take(indices)


def encode_pairs(pairs: Sequence[Pair], vocabulary: Vocabulary, threads: int = 1) -> TokenStore:
    """The pairs as a store in memory; none is left out."""

    def encoded(side: int, tokenizer: Tokenizer) -> Side:
        ids, lengths = _flat(tokenizer.encode([pair[side] for pair in pairs], threads), _dtype(tokenizer))
        return Side(ids, np.append(np.int64(0), lengths.cumsum(dtype=np.int64)), lengths)

    return TokenStore(encoded(0, vocabulary.source), encoded(1, vocabulary.target))


def _dtype(tokenizer: Tokenizer) -> str:
    return "<u2" if len(tokenizer) <= 2**16 else "<u4"


def _flat(sequences: list[list[int]], dtype: str) -> tuple[Integers, npt.NDArray[np.int32]]:
    """Sequences, to each of which EOS is added, end to end; and their lengths."""
    lengths = np.fromiter(map(len, sequences), np.int32, len(sequences)) + np.int32(1)
    ends = chain.from_iterable(chain.from_iterable((sequence, (EOS,)) for sequence in sequences))
    return np.fromiter(ends, dtype, int(lengths.sum(dtype=np.int64))), lengths


# --------------------------------------------------------------------------- build


def write(
    folder: Path,
    data: schema.DataConfig,
    vocabulary: Vocabulary,
    fingerprints: Sequence[str],
    dropout: float = 0.0,
    segmentations: int = 1,
) -> None:
    """Encode the training corpora, of these fingerprints, into files in `folder`, which is there and empty.

    With BPE-dropout they are encoded `segmentations` times.

    Pairs are dropped as `data` says, by their lengths without BPE-dropout, and counted in the first segmentation; a
    sentence that dropout would make longer than data.max_length is cut as without it. Memory does not grow with the
    corpora, except by 8 to 16 bytes a pair to know duplicates. Raises NmtError as `read_pairs` does, and if no pair is
    left.
    """
    every = [[Counts() for _ in data.train] for _ in range(segmentations)]
    counts, threads = every[0], data.workers or usable_cores()
    seeds, repeats = itertools.count(1), Repeats(data)
    with _Writer(folder, "source", vocabulary.source) as source, _Writer(folder, "target", vocabulary.target) as target:
        for count, pairs in chain.from_iterable(
            cleaned(data, counting, "encoding", fingerprints) for counting in every
        ):
            lines = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            ids = source.tokenizer.encode(lines[0], threads), target.tokenizer.encode(lines[1], threads)
            keep = _short_enough(*ids, data, count)
            if any(count is one for one in counts):
                repeats.count(list(compress(pairs, keep)), count)
            for writer, text, plain, side in zip(
                (source, target), lines, ids, (count.source, count.target), strict=True
            ):
                sentences, kept = list(compress(text, keep)), list(compress(plain, keep))
                if dropout:
                    drawn = writer.tokenizer.sample(sentences, dropout, next(seeds))
                    kept = [one if len(one) <= data.max_length else two for one, two in zip(drawn, kept, strict=True)]
                writer.append(sentences, kept, side)
    if not source.pairs:
        raise nothing_left(counts)
    meta = {
        "format": FORMAT,
        "pairs": source.pairs,
        "source": {"dtype": source.dtype, "subwords": source.end},
        "target": {"dtype": target.dtype, "subwords": target.end},
        "counts": [asdict(count) for count in counts],
    }
    (folder / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def _short_enough(
    source: list[list[int]], target: list[list[int]], data: schema.DataConfig, count: Counts
) -> list[bool]:
    """Which pairs of ids, without EOS, stay under the limits on length; the others are counted."""
    lengths = np.array([list(map(len, source)), list(map(len, target))], np.int64)  # [2, pairs]
    shorter, longer = lengths.min(axis=0, initial=2**62), lengths.max(axis=0, initial=0)
    something = shorter > 0
    fits = something & (longer <= data.max_length)
    keep = fits if data.max_length_ratio is None else fits & (longer <= data.max_length_ratio * shorter)
    count.empty += int((~something).sum())
    count.too_long += int((something & ~fits).sum())
    count.ratio += int((fits & ~keep).sum())
    kept: list[bool] = keep.tolist()
    return kept


class _Writer:
    """One side's files, written from the front to the end."""

    def __init__(self, folder: Path, name: str, tokenizer: Tokenizer) -> None:
        self.tokenizer, self.dtype = tokenizer, _dtype(tokenizer)
        self.pairs, self.end = 0, 0  # written so far; end: subwords, EOS counted
        self._ids, self._offsets, self._lengths = (
            (folder / f"{name}.{part}").open("wb") for part in ("ids", "offsets", "lengths")
        )
        self._offsets.write(np.zeros(1, "<i8").tobytes())

    def append(self, lines: list[str], sequences: list[list[int]], count: SideCounts) -> None:
        ids, lengths = _flat(sequences, self.dtype)
        _write(self._ids, ids, self.dtype)
        _write(self._lengths, lengths, "<i4")
        _write(self._offsets, self.end + lengths.cumsum(dtype=np.int64), "<i8")
        self.pairs += len(lines)
        self.end += len(ids)
        count.words += sum(len(line.split()) for line in lines)
        count.characters += sum(map(len, lines))
        count.subwords += len(ids) - len(lines)
        count.longest = max(count.longest, int(lengths.max(initial=1)) - 1)
        count.unknown += int(np.count_nonzero(ids == UNK))

    def __enter__(self) -> "_Writer":
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._ids, self._offsets, self._lengths):
            file.close()


def _write(file: BinaryIO, numbers: Integers, dtype: str) -> None:
    file.write(numbers.astype(dtype, copy=False).data)


# --------------------------------------------------------------------------- open


def load(folder: Path) -> tuple[TokenStore, tuple[Counts, ...]]:
    """Open a store that `write` made, and what it counted. Raises NmtError where files are cut or missing."""
    try:
        meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        sides = [_mapped(folder, name, meta["pairs"], meta[name]) for name in ("source", "target")]
        counts = counts_of(meta["counts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NmtError(f"{folder}: damaged token store ({error}): delete the folder, and it is built again") from error
    return TokenStore(*sides), counts


def counts(folder: Path) -> tuple[Counts, ...]:
    """What was counted when a store was made. Raises NmtError where that is damaged or missing."""
    try:
        return counts_of(json.loads((folder / "meta.json").read_text(encoding="utf-8"))["counts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NmtError(f"{folder / 'meta.json'}: damaged ({error})") from error


def _mapped(folder: Path, name: str, pairs: int, meta: dict[str, Any]) -> Side:
    def mapped(part: str, dtype: str, size: int) -> npt.NDArray[Any]:
        array = np.memmap(folder / f"{name}.{part}", dtype, mode="r")
        if len(array) != size:
            raise ValueError(f"{name}.{part} has {len(array):,} numbers, not {size:,}")
        return array.view(np.ndarray)  # whose slices are quicker than a memmap's

    return Side(
        mapped("ids", meta["dtype"], meta["subwords"]),
        mapped("offsets", "<i8", pairs + 1),
        mapped("lengths", "<i4", pairs),
    )
