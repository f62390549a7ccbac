"""What the training text is like: lengths, characters and subwords, a sample of it, and pairs that are worth a look.

It is counted while the text is encoded, and stored beside the tokens, so that `nmt prepare --report` needs no further
pass over the text. Memory is bounded, and the result does not depend on how the text came in chunks.
"""

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from nmt.data.corpus import Pair
from nmt.data.report import SideChanges
from nmt.data.rules.characters import Lines
from nmt.data.rules.examples import DropExamples, shortened
from nmt.data.source_text import SourceText
from nmt.data.suspicious import suspicions
from nmt.data.text_changes import TextChanges
from nmt.data.token_store import TokenStore
from nmt.data.vocabulary import UNK, Tokenizer, Vocabulary
from nmt.errors import NmtError

T = TypeVar("T")
Lengths = npt.NDArray[np.int64]

FILE = "statistics.json"  # in the folder of a token store
OCTAVE = 8  # ratios of lengths are counted in steps of 1/8 of a factor of two
SAMPLE = 512  # pairs of a corpus that are kept as text
MOST = 30  # subwords and characters of each kind that are listed
# Occurrences of a subword in the training text that are needed to learn it well (Gowda and May 2020, "Finding the
# Optimal Vocabulary Size for Neural Machine Translation").
ENOUGH = 100


class CorpusStatistics:
    """Of one corpus; source first. Lengths are in subwords, without tags and EOS."""

    def __init__(self) -> None:
        self.lengths = Counter[int](), Counter[int]()  # pairs by the length of a side
        self.ratios = Counter[int]()  # pairs by round(8 · log2(target length / source length))
        self.unknown, self.bytes = [0, 0], [0, 0]  # subwords
        self.examples = DropExamples()  # of pairs dropped for their lengths
        self.suspicious = DropExamples()  # of pairs that are kept: see `suspicions`
        self.sample = EvenSample(SAMPLE)

    def to_json(self) -> dict[str, Any]:
        return {
            "lengths": [sorted(side.items()) for side in self.lengths],
            "ratios": sorted(self.ratios.items()),
            "unknown": self.unknown,
            "bytes": self.bytes,
            "examples": self.examples.to_json(),
            "suspicious": self.suspicious.to_json(),
            "sample": [list(map(shortened, pair)) for pair in self.sample.pairs],
        }


class EvenSample:
    """At most `most` pairs at equal distances: every first, second, fourth, eighth … one."""

    def __init__(self, most: int) -> None:
        self.most, self.pairs, self._step, self._seen = most, list[Pair](), 1, 0

    def add(self, pairs: list[Pair]) -> None:
        self.pairs += pairs[-self._seen % self._step :: self._step]
        self._seen += len(pairs)
        while len(self.pairs) > self.most:
            self.pairs, self._step = self.pairs[::2], 2 * self._step


class Statistics:
    """Of all corpora."""

    def __init__(self, corpora: int, vocabulary: Vocabulary) -> None:
        self.corpora = [CorpusStatistics() for _ in range(corpora)]
        self.notes: list[list[str]] = [[] for _ in range(corpora)]  # how each corpus is read, and what is left out
        self._vocabulary, self._tokenizers = vocabulary, (vocabulary.source, vocabulary.target)
        self._bytes = [np.array(tokenizer.are_bytes()) for tokenizer in self._tokenizers]  # [vocabulary]
        # How often each subword and each code point occurs.
        self._subwords = [np.zeros(len(tokenizer), np.int64) for tokenizer in self._tokenizers]
        self._sources = Counter[int](), Counter[int]()  # by length as trained on: all, those of several sentences
        self._characters = [np.zeros(0x110000, np.int64) for _ in self._tokenizers]
        self._changes = [TextChanges(vocabulary.source, written=False), TextChanges(vocabulary.target, written=True)]

    def add(self, corpus: int, pairs: list[Pair], tokens: TokenStore) -> None:
        """Count pairs that are kept. corpus: its number; tokens: of the pairs, without tags and variation."""
        mine, sides = self.corpora[corpus], (tokens.source, tokens.target)
        lines = tuple(Lines.of([pair[number] for pair in pairs]) for number in (0, 1))
        lengths = np.array([side.lengths for side in sides], np.int64) - 1  # [2, pairs], without EOS
        odd = np.zeros((2, len(pairs)), np.int64)  # unknown subwords and bytes of each side
        for number, side in enumerate(sides):
            of_bytes = self._bytes[number][side.ids]
            odd[number] = sums(of_bytes | (side.ids == UNK), side.offsets)
            mine.bytes[number] += int(of_bytes.sum())
            mine.unknown[number] += int((side.ids == UNK).sum())
            self._subwords[number] += np.bincount(side.ids, minlength=len(self._subwords[number]))
            characters = np.bincount(lines[number].codes)
            self._characters[number][: len(characters)] += characters
            self._changes[number].add(lines[number], np.flatnonzero(characters))
            mine.lengths[number].update(counts_of(lengths[number]))
        mine.ratios.update(counts_of(ratio_steps(*lengths)))
        mine.suspicious.add(pairs, suspicions(pairs, lines, lengths, odd))
        mine.sample.add(pairs)

    def add_sources(self, lengths: Lengths, several: npt.NDArray[np.bool_]) -> None:
        """Count sources as they are trained on, in all versions: their lengths without tags and EOS, and which of them
        have several sentences, both [sources]."""
        for counter, of_these in zip(self._sources, (lengths, lengths[several]), strict=True):
            counter.update(counts_of(of_these))

    def to_json(self) -> dict[str, Any]:
        """The content as `json.dumps` takes it."""
        shared = self._vocabulary.shared
        subwords = [self._subwords[0] + self._subwords[1]] if shared else self._subwords
        return {
            "corpora": [corpus.to_json() for corpus in self.corpora],
            "vocabularies": [use_of(*one) for one in zip(self._tokenizers, subwords, strict=not shared)],
            "sources": [sorted(counter.items()) for counter in self._sources],
            "characters": [coverage(*one) for one in zip(self._tokenizers, self._characters, strict=True)],
            "changes": [asdict(one.result()) for one in self._changes],
            "notes": self.notes,
        }

    def write(self, folder: Path) -> None:
        """Write them into the folder of a token store."""
        (folder / FILE).write_text(json.dumps(self.to_json()) + "\n", encoding="ascii")


def read(folder: Path) -> dict[str, Any] | None:
    """What `Statistics.write` wrote, `changes` as SideChanges and `notes` as tuples; None for a store of an earlier
    version, which has none. Raises NmtError if the file is damaged."""

    def parts(content: dict[str, Any]) -> dict[str, Any]:
        found = {part: content[part] for part in ("corpora", "vocabularies", "characters")}
        changes = tuple(map(SideChanges.of, content.get("changes", ())))
        return found | {"changes": changes, "notes": tuple(map(tuple, content.get("notes", ())))}

    return _stored(folder, parts)


def changes(folder: Path) -> tuple[SideChanges, ...]:
    """What the vocabulary changes in the text of each side; none for a store of an earlier version. Raises NmtError as
    `read`."""
    found = read(folder)
    return () if found is None else found["changes"]


def notes(folder: Path) -> tuple[tuple[str, ...], ...]:
    """How the file of each corpus is read, and what was left out; none for a store of an earlier version. Raises
    NmtError as `read`."""
    found = read(folder)
    return () if found is None else found["notes"]


def source_text(folder: Path, languages: Sequence[str]) -> SourceText | None:
    """What is known of the sources in a token store; None for a store of an earlier version, which does not say which
    of them have several sentences. languages: that of the sources of each corpus. Raises NmtError as `read`."""

    def of(content: dict[str, Any]) -> SourceText | None:
        if "sources" not in content:
            return None
        samples: dict[str, list[str]] = {language: [] for language in languages}
        for language, corpus in zip(languages, content["corpora"], strict=True):
            samples[language] += [source for source, _ in corpus["sample"]]
        lengths, several = map(dict, content["sources"])
        return SourceText.of(lengths, several, samples)

    return _stored(folder, of)


def _stored(folder: Path, of: Callable[[dict[str, Any]], T]) -> T | None:
    """What `of` makes of the stored content; None for a store of an earlier version, which has none. Raises NmtError if
    the file is damaged."""
    try:
        return of(json.loads((folder / FILE).read_text(encoding="ascii")))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NmtError(f"{folder / FILE}: damaged ({error}): delete the folder to build it again") from error


def ratio_steps(source: Lengths, target: Lengths) -> Lengths:
    """The ratio of each pair's lengths, target / source, as the nearest of 2^(k/8): k [pairs], from -64 to 64."""
    between = [2 ** ((step + 0.5) / OCTAVE) for step in range(-8 * OCTAVE, 8 * OCTAVE)]  # rounded alike everywhere
    return np.searchsorted(between, target / source) - 8 * OCTAVE


def counts_of(numbers: Lengths) -> dict[int, int]:
    """How often each number occurs."""
    found, counts = np.unique(numbers, return_counts=True)
    return dict(zip(found.tolist(), counts.tolist(), strict=True))


def sums(marked: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64]) -> Lengths:
    """How many are marked in each sequence: [sequences]. marked: [subwords of all sequences]."""
    before = np.append(0, np.cumsum(marked, dtype=np.int64))[offsets]
    return before[1:] - before[:-1]


def use_of(tokenizer: Tokenizer, used: Lengths) -> dict[str, Any]:
    """How a vocabulary is used. used: how often each subword is [vocabulary]; those that do not stand for text as it
    is (special ones, tags, single bytes) are left out."""
    spellings, counts = tokenizer.every_piece(), used.tolist()
    pieces = [(spellings[i], counts[i]) for i, is_text in enumerate(tokenizer.are_text()) if is_text]
    in_use = [one for one in pieces if one[1]]
    return {
        "size": len(tokenizer),
        "subwords": len(pieces),
        "enough": sum(count >= ENOUGH for _, count in pieces),
        "unused": len(pieces) - len(in_use),
        "unused_examples": sorted(piece for piece, count in pieces if not count)[:MOST],
        "rarest": sorted(in_use, key=lambda one: (one[1], one[0]))[:MOST],
        "longest": sorted(in_use, key=lambda one: (-len(one[0]), one[0]))[:MOST],
    }


def coverage(tokenizer: Tokenizer, used: Lengths) -> dict[str, Any]:
    """Which characters of a text a vocabulary can write without the unknown subword and without bytes. used: how often
    each character occurs [code points]."""
    present = np.flatnonzero(used).tolist()
    odd = {UNK, *(i for i, is_byte in enumerate(tokenizer.are_bytes()) if is_byte)}
    encoded = tokenizer.encode(list(map(chr, present)))
    missing = [code for code, ids in zip(present, encoded, strict=True) if odd.intersection(ids)]
    missing.sort(key=lambda code: (-used[code], code))
    return {
        "characters": int(used.sum()),
        "distinct": len(present),
        "missing": int(used[missing].sum()),
        "missing_distinct": len(missing),
        "most_frequent_missing": [(chr(code), int(used[code])) for code in missing[:MOST]],
    }
