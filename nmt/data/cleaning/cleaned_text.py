"""The cleaned training text in a folder: plain text in shards, which a user can open and train on again.

A shard is what is left of `SHARD_CHUNKS` chunks of a corpus. `0-00003.source` and `0-00003.target` have a pair per line
(corpus 0 is the first one of data.train). `0-00003.json` is written last, so that a shard that has it is complete.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from nmt.data.cleaning.cleaner import CleanChunk, RawChunk
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.summary import CorpusCounts, counts_from
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.normalization import UsedCharacters
from nmt.errors import NmtError
from nmt.files import atomic, checksums

CHUNK_PAIRS = 4096  # pairs that are cleaned and encoded together: this bounds the memory
SHARD_CHUNKS = 16
SIDES = ("source", "target")
_CONTENT = "text.json"  # of the folder; it is there when the text is complete


@dataclass(frozen=True)
class Shard:
    corpus: int  # its number in data.train
    number: int  # of the shard in its corpus
    raw: str  # a hash of the text that was read for it
    text: tuple[str, ...]  # hashes of its two files
    kept: tuple[int, ...]  # pairs of each of its chunks
    counts: CorpusCounts
    examples: DropExamples  # of what was dropped
    used: tuple[UsedCharacters, UsedCharacters]  # of source and target

    @property
    def name(self) -> str:
        return shard_name(self.corpus, self.number)

    def chunks(self, folder: Path) -> Iterator[list[Pair]]:
        """The pairs of each chunk. Raises NmtError if the files of text have changed or are missing."""
        source, target = (
            _lines(folder, f"{self.name}.{side}", known) for side, known in zip(SIDES, self.text, strict=True)
        )
        pairs = zip(source, target, strict=True)
        return (list(islice(pairs, size)) for size in self.kept)

    def write(self, folder: Path) -> None:
        """Write all but the text."""
        content = {
            "raw": self.raw,
            "text": self.text,
            "kept": self.kept,
            "counts": asdict(self.counts),
            "examples": self.examples.to_json(),
            "used": [{"lines": side.lines, "characters": side.counts} for side in self.used],
        }
        atomic.write_text(folder / f"{self.name}.json", json.dumps(content) + "\n")

    @classmethod
    def read(cls, folder: Path, name: str) -> "Shard":
        """What `write` wrote. Raises OSError, ValueError, KeyError or TypeError if it is damaged or missing."""
        content: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        corpus, number = map(int, name.split("-"))
        source, target = (UsedCharacters(side["lines"], Counter(side["characters"])) for side in content["used"])
        (counts,), examples = counts_from([content["counts"]]), DropExamples.from_json(content["examples"])
        raw, text, kept = content["raw"], tuple(content["text"]), tuple(content["kept"])
        return cls(corpus, number, raw, text, kept, counts, examples, (source, target))


def _lines(folder: Path, name: str, known: str) -> list[str]:
    try:
        text = (folder / name).read_bytes()
    except OSError as error:
        raise _damaged(folder, f"{name}: {error}") from None
    if hashlib.blake2b(text, digest_size=16).hexdigest() != known:
        raise _damaged(folder, f"{name} has changed")
    return text.decode("utf-8", "surrogatepass").split("\n")[:-1]


def _damaged(folder: Path, what: object) -> NmtError:
    return NmtError(f"{folder}: damaged cleaned text ({what}): delete the folder to make it again")


def shard_of(chunk: RawChunk) -> tuple[int, int]:
    """Its corpus, and the number of its shard in the corpus."""
    return chunk.corpus, chunk.number // SHARD_CHUNKS


def shard_name(corpus: int, number: int) -> str:
    """Its files have this name, with different endings."""
    return f"{corpus}-{number:05}"


def written(folder: Path, chunks: Iterable[CleanChunk]) -> Iterator[CleanChunk]:
    """The chunks of one shard, which are written on the way. Raises NmtError if they cannot be written."""
    kept, raw, counts, examples = list[int](), hashlib.blake2b(digest_size=16), CorpusCounts(), DropExamples()
    used, (corpus, number) = (UsedCharacters(), UsedCharacters()), (0, 0)
    text, opened = tuple(hashlib.blake2b(digest_size=16) for _ in SIDES), list[BinaryIO]()
    try:
        for chunk in chunks:
            with atomic.reporting(folder, "data.store_dir"):
                if not opened:
                    corpus, number = shard_of(chunk.raw)
                    opened = [(folder / f"{shard_name(corpus, number)}.{side}").open("wb") for side in SIDES]
                for side, file in enumerate(opened):
                    lines = [pair[side] for pair in chunk.pairs]
                    data = "\n".join([*lines, ""]).encode("utf-8", "surrogatepass")
                    file.write(data)
                    text[side].update(data)
                    used[side].add(lines)
            kept.append(len(chunk.pairs))
            raw.update(_text_of(chunk.raw))
            counts += chunk.counts
            examples.merge(chunk.examples)
            yield chunk
    finally:
        for file in opened:
            with atomic.reporting(folder, "data.store_dir"):
                file.close()  # writes what is left
    with atomic.reporting(folder, "data.store_dir"):
        for file in opened:
            atomic.sync(Path(file.name))
        digests = tuple(side.hexdigest() for side in text)
        Shard(corpus, number, raw.hexdigest(), digests, tuple(kept), counts, examples, used).write(folder)


def find_kept(folder: Path, chunks: Sequence[RawChunk]) -> list[list[Pair]] | None:
    """The pairs of each of the chunks of a shard that an interrupted preparation kept; None if it left no such shard,
    that of other text, or one that was changed after that."""
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
    return text + b"\n" + (b"" if chunk.scores is None else np.array(chunk.scores, np.float32).tobytes())


@dataclass(frozen=True)
class CleanedText:
    """All shards, in the order of the corpora."""

    folder: Path
    shards: tuple[Shard, ...]
    notes: tuple[tuple[str, ...], ...]  # of each corpus: how its file was read, and what was left out

    @classmethod
    def open(cls, folder: Path) -> "CleanedText":
        """That of a folder. Raises NmtError if it is damaged."""
        checksums.check(folder)
        try:
            content = json.loads((folder / _CONTENT).read_text(encoding="utf-8"))
            shards = tuple(Shard.read(folder, name) for name in content["shards"])
            return cls(folder, shards, tuple(map(tuple, content["notes"])))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(folder, error) from None

    @property
    def counts(self) -> list[CorpusCounts]:
        """Of each corpus."""
        return [sum((shard.counts for shard in of_corpus), CorpusCounts()) for of_corpus in self._by_corpus()]

    @property
    def examples(self) -> list[DropExamples]:
        """Of what was dropped of each corpus."""
        examples = [DropExamples() for _ in self.notes]
        for shard in self.shards:
            examples[shard.corpus].merge(shard.examples)
        return examples

    @property
    def used(self) -> list[tuple[UsedCharacters, UsedCharacters]]:
        """Of each corpus, of its source and its target."""
        used = [(UsedCharacters(), UsedCharacters()) for _ in self.notes]
        for shard in self.shards:
            for both, of_shard in zip(used[shard.corpus], shard.used, strict=True):
                both.merge(of_shard)
        return used

    def chunks(self) -> Iterator[tuple[int, list[Pair]]]:
        """The pairs of each chunk, after the number of its corpus. Raises NmtError if the text is damaged."""
        for shard in self.shards:
            for pairs in shard.chunks(self.folder):
                yield shard.corpus, pairs

    def _by_corpus(self) -> list[list[Shard]]:
        return [[shard for shard in self.shards if shard.corpus == corpus] for corpus in range(len(self.notes))]


def sampled_evenly(numbers: npt.NDArray[np.int64], total: int, size: int) -> npt.NDArray[np.bool_]:
    """Which of `total` pairs are in a sample of `size` pairs at equal distances. numbers: of the pairs asked for."""
    return numbers * size % total < size


def finish(unfinished: Path, folder: Path, notes: Sequence[Sequence[str]]) -> CleanedText:
    """Name the folder of text that is complete `folder`, and open it. notes: of each corpus."""
    with atomic.reporting(folder, "data.store_dir"):
        names = sorted(path.stem for path in unfinished.glob("*-*.json"))
        shards = sorted(names, key=lambda name: tuple(map(int, name.split("-"))))
        atomic.write_text(unfinished / _CONTENT, json.dumps({"shards": shards, "notes": notes}, indent=1) + "\n")
        checksums.write(unfinished, unfinished.glob("*.json"))  # these have the hashes of the text
        unfinished.rename(folder)
    return CleanedText.open(folder)
