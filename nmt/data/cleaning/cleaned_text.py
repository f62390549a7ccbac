"""The cleaned training text in a folder: shards of plain text, which users can open and train on again.

A shard holds the kept pairs of `SHARD_CHUNKS` chunks of a corpus. `0-00003.source` and `0-00003.target` have a pair on
each line (corpus 0 is the first corpus of data.train). `0-00003.json` is written last: a shard that has it is complete.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from nmt.data.cleaning.cleaner import CleanChunk, RawChunk
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.score_survey import Survey, Values
from nmt.data.cleaning.summary import CorpusCounts, counts_from
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.normalization import UsedCharacters
from nmt.errors import NmtError
from nmt.files import atomic, checksums

CHUNK_PAIRS = 4096  # pairs that are cleaned and encoded together: this bounds the memory
SHARD_CHUNKS = 16
SIDES = ("source", "target")
_CONTENT = "text.json"  # exists in the folder when the text is complete


@dataclass(frozen=True)
class Shard:
    corpus: int  # its index in data.train
    index: int  # of the shard in its corpus
    raw: str  # a hash of the text that was read for it
    text: tuple[str, ...]  # hashes of its two files
    kept: tuple[int, ...]  # pairs of each of its chunks
    counts: CorpusCounts
    examples: DropExamples  # of dropped pairs
    used: tuple[UsedCharacters, UsedCharacters]  # of source and target
    ranks: Values  # of its pairs: see `CleanChunk`; [0] if there are none

    @property
    def name(self) -> str:
        return shard_name(self.corpus, self.index)

    def chunks(self, folder: Path) -> Iterator[list[Pair]]:
        """The pairs of each chunk. Raises NmtError if the files of text have changed or are missing."""
        source, target = (
            _lines(folder, f"{self.name}.{side}", digest) for side, digest in zip(SIDES, self.text, strict=True)
        )
        pairs = zip(source, target, strict=True)
        return (list(islice(pairs, size)) for size in self.kept)

    def write(self, folder: Path) -> None:
        """Write everything except the text."""
        content = {
            "raw": self.raw,
            "text": self.text,
            "kept": self.kept,
            "counts": asdict(self.counts),
            "examples": self.examples.to_json(),
            "used": [{"lines": side.lines, "characters": side.counts} for side in self.used],
            "ranks": self.ranks.tolist(),
        }
        atomic.write_text(folder / f"{self.name}.json", json.dumps(content) + "\n")

    @classmethod
    def read(cls, folder: Path, name: str) -> "Shard":
        """Read what `write` wrote. Raises OSError, ValueError, KeyError or TypeError if it is damaged or missing."""
        content: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        corpus, index = map(int, name.split("-"))
        source, target = (UsedCharacters(side["lines"], Counter(side["characters"])) for side in content["used"])
        (counts,), examples = counts_from([content["counts"]]), DropExamples.from_json(content["examples"])
        raw, text, kept = content["raw"], tuple(content["text"]), tuple(content["kept"])
        ranks = np.array(content.get("ranks", []), np.float32)
        return cls(corpus, index, raw, text, kept, counts, examples, (source, target), ranks)


def _lines(folder: Path, name: str, digest: str) -> list[str]:
    try:
        text = (folder / name).read_bytes()
    except OSError as error:
        raise _damaged(folder, f"{name}: {error}") from None
    if hashlib.blake2b(text, digest_size=16).hexdigest() != digest:
        raise _damaged(folder, f"{name} has changed")
    return text.decode("utf-8", "surrogatepass").split("\n")[:-1]


def _damaged(folder: Path, reason: object) -> NmtError:
    return NmtError(f"{folder}: damaged cleaned text ({reason}): delete the folder to make it again")


def shard_of(chunk: RawChunk) -> tuple[int, int]:
    """The corpus of a chunk, and the index of its shard in the corpus."""
    return chunk.corpus, chunk.position // SHARD_CHUNKS


def shard_name(corpus: int, index: int) -> str:
    """The name of a shard's files, without their endings."""
    return f"{corpus}-{index:05}"


def written(folder: Path, chunks: Iterable[CleanChunk]) -> Iterator[CleanChunk]:
    """Write the chunks of one shard, and yield each after it is written. Raises NmtError if they cannot be written."""
    kept, raw, counts, examples = list[int](), hashlib.blake2b(digest_size=16), CorpusCounts(), DropExamples()
    used, (corpus, index) = (UsedCharacters(), UsedCharacters()), (0, 0)
    text, opened, ranks = tuple(hashlib.blake2b(digest_size=16) for _ in SIDES), list[BinaryIO](), list[Values]()
    try:
        for chunk in chunks:
            with atomic.reporting(folder, "data.store_dir"):
                if not opened:
                    corpus, index = shard_of(chunk.raw)
                    opened = [(folder / f"{shard_name(corpus, index)}.{side}").open("wb") for side in SIDES]
                for side, file in enumerate(opened):
                    lines = [pair[side] for pair in chunk.pairs]
                    data = "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
                    file.write(data)
                    text[side].update(data)
                    used[side].add(lines)
            kept.append(len(chunk.pairs))
            ranks.append(chunk.ranks)
            raw.update(_text_of(chunk.raw))
            counts += chunk.counts
            examples.merge(chunk.examples)
            yield chunk
    finally:
        for file in opened:
            with atomic.reporting(folder, "data.store_dir"):
                file.close()  # writes the buffer
    with atomic.reporting(folder, "data.store_dir"):
        for file in opened:
            atomic.sync(Path(file.name))
        digests = tuple(side.hexdigest() for side in text)
        shard_ranks = np.concatenate(ranks)
        Shard(corpus, index, raw.hexdigest(), digests, tuple(kept), counts, examples, used, shard_ranks).write(folder)


def find_kept(folder: Path, chunks: Sequence[RawChunk]) -> list[list[Pair]] | None:
    """The pairs that an interrupted preparation kept of each chunk of a shard. None if the shard does not exist, if it
    was made from other text, or if its files have changed."""
    raw = hashlib.blake2b(digest_size=16)
    for chunk in chunks:
        raw.update(_text_of(chunk))
    try:
        shard = Shard.read(folder, shard_name(*shard_of(chunks[0])))
        same = shard.raw == raw.hexdigest() and len(shard.kept) == len(chunks)
        return list(shard.chunks(folder)) if same else None
    except (OSError, ValueError, KeyError, TypeError, NmtError):
        return None


def _text_of(chunk: RawChunk) -> bytes:
    text = "\n".join(map("\n".join, chunk.pairs)).encode("utf-8", "surrogatepass")
    return text + b"\n" + b"".join(scores.tobytes() for scores in chunk.scores.values())


@dataclass(frozen=True)
class CleanedText:
    """All shards, in the order of the corpora."""

    folder: Path
    shards: tuple[Shard, ...]
    notes: tuple[tuple[str, ...], ...]  # of each corpus: how its file was read, and which lines were left out
    surveys: Sequence[Mapping[str, Survey]]  # of each corpus: of its scores, by name

    @classmethod
    def open(cls, folder: Path) -> "CleanedText":
        """Open the text of a folder. Raises NmtError if it is damaged."""
        checksums.check(folder)
        try:
            content = json.loads((folder / _CONTENT).read_text(encoding="utf-8"))
            shards = tuple(Shard.read(folder, name) for name in content["shards"])
            notes = tuple(map(tuple, content["notes"]))
            return cls(folder, shards, notes, content.get("scores", [{} for _ in notes]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(folder, error) from None

    @property
    def counts(self) -> list[CorpusCounts]:
        """The counts of each corpus."""
        counts = [CorpusCounts() for _ in self.notes]
        for shard in self.shards:
            counts[shard.corpus] += shard.counts
        return counts

    @property
    def examples(self) -> list[DropExamples]:
        """Examples of the dropped pairs of each corpus."""
        examples = [DropExamples() for _ in self.notes]
        for shard in self.shards:
            examples[shard.corpus].merge(shard.examples)
        return examples

    @property
    def used(self) -> list[tuple[UsedCharacters, UsedCharacters]]:
        """The characters used in the source and in the target of each corpus."""
        used = [(UsedCharacters(), UsedCharacters()) for _ in self.notes]
        for shard in self.shards:
            for side, shard_side in zip(used[shard.corpus], shard.used, strict=True):
                side.merge(shard_side)
        return used

    def chunks(self) -> Iterator[tuple[int, list[Pair]]]:
        """Yield the corpus and the pairs of each chunk. Raises NmtError if the text is damaged."""
        for shard in self.shards:
            for pairs in shard.chunks(self.folder):
                yield shard.corpus, pairs


def sampled_evenly(indices: npt.NDArray[np.int64], total: int, size: int) -> npt.NDArray[np.bool_]:
    """Whether the pairs with these indices [n] are in a sample of `size` of `total` pairs at equal distances: [n]."""
    return indices * size % total < size


def complete(folder: Path, notes: Sequence[Sequence[str]], surveys: Sequence[Mapping[str, Survey]]) -> None:
    """Write what `CleanedText` needs beside the shards of a folder. notes, surveys: as there."""
    numbers = sorted(tuple(map(int, path.stem.split("-"))) for path in folder.glob("*-*.json"))
    content = {"shards": [shard_name(*pair) for pair in numbers], "notes": notes, "scores": surveys}
    atomic.write_text(folder / _CONTENT, json.dumps(content, indent=1) + "\n")
    checksums.write(folder, folder.glob("*.json"))  # these have the hashes of the text
