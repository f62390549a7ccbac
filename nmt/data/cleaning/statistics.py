"""What the training text is like: lengths, characters and subwords, a sample of it, and pairs that are worth a look.

It is counted while the text is encoded, shard by shard, and stored beside the tokens, so that `nmt prepare --report`
needs no further pass over the text. Memory is bounded, and the result does not depend on the shards, but for the counts
of sentences that are repeated: see `SideStatistics`.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nmt.data.batches.token_store import TokenStore
from nmt.data.cleaning.rules.characters import TextLines
from nmt.data.cleaning.rules.examples import DropExamples, shortened
from nmt.data.cleaning.source_text import SourceText
from nmt.data.cleaning.summary import SideChanges
from nmt.data.cleaning.suspicious import suspicions
from nmt.data.cleaning.text_changes import TextChanges
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.vocabulary import UNK, Tokenizer, Vocabulary
from nmt.errors import NmtError

Lengths = npt.NDArray[np.int64]

FILE = "statistics.json"  # in the folder of a token store
OCTAVE = 8  # ratios of lengths are counted in steps of 1/8 of a factor of two
SAMPLE = 512  # pairs of a corpus that are kept as text
COMMONEST = 100  # sentences of a side that are counted
MOST = 30  # subwords and characters of each kind that are listed
# Occurrences of a subword in the training text that are needed to learn it well (Gowda and May 2020, "Finding the
# Optimal Vocabulary Size for Neural Machine Translation").
ENOUGH = 100


@dataclass
class SideStatistics:
    """Of the source or the target. Lengths are in subwords, without tags and EOS.

    The sentences that are repeated are found as by Misra and Gries (1982, "Finding repeated elements"), and of several
    parts as by Agarwal et al. (2012, "Mergeable summaries"): where there are more than k = `COMMONEST`, the (k+1)-th
    largest weight is subtracted from all weights, and those without weight are left out. So a weight is too low by at
    most n / (k + 1) of n pairs. The count of a sentence, which begins when it gets a weight, is at least its weight and
    never too high; it is exact where nothing was left out before, as in one shard.
    """

    lengths: Counter[int] = field(default_factory=Counter)  # pairs by length
    subwords: Counter[int] = field(default_factory=Counter)  # how often each occurs, by id
    characters: Counter[int] = field(default_factory=Counter)  # by code point
    # What the vocabulary changes: see `TextChanges`.
    removed: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    lines: Counter[bool] = field(default_factory=Counter)
    sentences: Counter[str] = field(default_factory=Counter)
    weights: Counter[str] = field(default_factory=Counter)  # of the sentences

    def merge(self, other: "SideStatistics") -> None:
        for counter in fields(self):
            getattr(self, counter.name).update(getattr(other, counter.name))
        self.leave_out_rare()

    def leave_out_rare(self) -> None:
        """Leave out all but `COMMONEST` sentences at most, by their weights."""
        subtracted = sorted(self.weights.values(), reverse=True)[COMMONEST : COMMONEST + 1]
        self.weights = self.weights - Counter(dict.fromkeys(self.weights, sum(subtracted)))
        self.sentences = Counter({text: self.sentences[text] for text in self.weights})

    def commonest(self) -> tuple[str, int] | None:
        """The most frequent sentence of those that are repeated, shortened, and its count; None: there is none."""
        text, count = min(self.sentences.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
        return (shortened(text), count) if count > 1 else None

    def to_json(self) -> dict[str, list[tuple[Any, int]]]:
        return {counter.name: _items(getattr(self, counter.name)) for counter in fields(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "SideStatistics":
        return cls(**{name: Counter(dict(items)) for name, items in content.items()})

    def changes(self) -> SideChanges:
        """What the vocabulary changes, as reports show it."""
        removed, lost = (_most(counts) for counts in (self.removed, self.lost))
        return SideChanges(self.lines.total(), self.removed.total(), removed, self.lines[False], lost)


@dataclass
class CorpusStatistics:
    """Of one corpus, or a part of it."""

    sides: tuple[SideStatistics, SideStatistics] = field(default_factory=lambda: (SideStatistics(), SideStatistics()))
    ratios: Counter[int] = field(default_factory=Counter)  # pairs by round(8 · log2(target length / source length))
    sources: Counter[int] = field(default_factory=Counter)  # as trained on, in all versions, by length
    several: Counter[int] = field(default_factory=Counter)  # those of several sentences
    examples: DropExamples = field(default_factory=DropExamples)  # of pairs dropped for their lengths
    suspicious: DropExamples = field(default_factory=DropExamples)  # of pairs that are kept: see `suspicions`
    sample: list[Pair] = field(default_factory=list)

    def merge(self, other: "CorpusStatistics") -> None:
        """Add those of the part after this one."""
        for mine, its in zip(self.sides, other.sides, strict=True):
            mine.merge(its)
        self.ratios.update(other.ratios)
        self.sources.update(other.sources)
        self.several.update(other.several)
        self.examples.merge(other.examples)
        self.suspicious.merge(other.suspicious)
        self.sample += other.sample

    def to_json(self) -> dict[str, Any]:
        return {
            "sides": [side.to_json() for side in self.sides],
            **{name: _items(getattr(self, name)) for name in ("ratios", "sources", "several")},
            **{name: getattr(self, name).to_json() for name in ("examples", "suspicious")},
            "sample": self.sample,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "CorpusStatistics":
        source, target = map(SideStatistics.from_json, content["sides"])
        ratios, sources, several = (Counter(dict(content[name])) for name in ("ratios", "sources", "several"))
        examples, suspicious = (DropExamples.from_json(content[name]) for name in ("examples", "suspicious"))
        sample = [(source_text, target_text) for source_text, target_text in content["sample"]]
        return cls((source, target), ratios, sources, several, examples, suspicious, sample)


def _items(counter: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counter.items())


def _most(counter: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:MOST])


class StatisticsCounter:
    """Counts the statistics of pairs that come in chunks."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._found, self._tokenizers = CorpusStatistics(), (vocabulary.source, vocabulary.target)
        self._bytes = [np.array(tokenizer.are_bytes()) for tokenizer in self._tokenizers]  # [vocabulary]
        # How often each subword and each code point occurs.
        self._subwords = [np.zeros(len(tokenizer), np.int64) for tokenizer in self._tokenizers]
        self._characters = [np.zeros(0x110000, np.int64) for _ in self._tokenizers]
        self._changes = [TextChanges(vocabulary.source, written=False), TextChanges(vocabulary.target, written=True)]
        self._sentences = [Counter[str](), Counter[str]()]

    def add(self, pairs: list[Pair], tokens: TokenStore) -> None:
        """Count pairs that are kept. tokens: of the pairs, without tags and variation."""
        mine, sides = self._found, (tokens.source, tokens.target)
        lines = tuple(TextLines.of([pair[number] for pair in pairs]) for number in (0, 1))
        lengths = np.array([side.lengths for side in sides], np.int64) - 1  # [2, pairs], without EOS
        odd = np.zeros((2, len(pairs)), np.int64)  # unknown subwords and bytes of each side
        for number, side in enumerate(sides):
            odd[number] = sums(self._bytes[number][side.ids] | (side.ids == UNK), side.offsets)
            self._subwords[number] += np.bincount(side.ids, minlength=len(self._subwords[number]))
            characters = np.bincount(lines[number].codes)
            self._characters[number][: len(characters)] += characters
            self._changes[number].add(lines[number], np.flatnonzero(characters))
            self._sentences[number].update(lines[number].texts)
            mine.sides[number].lengths.update(counts_of(lengths[number]))
        mine.ratios.update(counts_of(ratio_steps(*lengths)))
        mine.suspicious.add(pairs, suspicions(pairs, lines, lengths, odd))

    def add_sources(self, lengths: Lengths, several: npt.NDArray[np.bool_]) -> None:
        """Count sources as they are trained on, in all versions: their lengths without tags and EOS, and which of them
        have several sentences, both [sources]."""
        self._found.sources.update(counts_of(lengths))
        self._found.several.update(counts_of(lengths[several]))

    def add_examples(self, dropped: DropExamples, sample: Sequence[Pair]) -> None:
        """Examples of pairs dropped for their lengths, and the pairs that are in the sample."""
        self._found.examples.merge(dropped)
        self._found.sample += sample

    def result(self) -> CorpusStatistics:
        """What was counted. Nothing may be added after it."""
        for number, side in enumerate(self._found.sides):
            for counter, counts in (
                (side.subwords, self._subwords[number]),
                (side.characters, self._characters[number]),
            ):
                present = np.flatnonzero(counts)
                counter.update(dict(zip(present.tolist(), counts[present].tolist(), strict=True)))
            changes = self._changes[number]
            side.removed, side.lost, side.lines = changes.removed, changes.lost, changes.lines
            side.sentences = side.weights = self._sentences[number]
            side.leave_out_rare()
        return self._found


def write(
    folder: Path, corpora: Sequence[CorpusStatistics], notes: Sequence[Sequence[str]], vocabulary: Vocabulary
) -> None:
    """Write the statistics of all corpora into the folder of a token store. notes: how each corpus is read, and what
    was left out."""
    both, sides = CorpusStatistics(), (vocabulary.source, vocabulary.target)
    for corpus in corpora:
        both.merge(corpus)
    subwords = [side.subwords for side in both.sides]
    content = {
        "corpora": [_of_corpus(corpus, sides) for corpus in corpora],
        "vocabularies": (
            [use_of(vocabulary.source, subwords[0] + subwords[1])]
            if vocabulary.shared
            else [use_of(*corpus) for corpus in zip(sides, subwords, strict=True)]
        ),
        "sources": [_items(both.sources), _items(both.several)],
        "characters": [
            coverage(*corpus) for corpus in zip(sides, (side.characters for side in both.sides), strict=True)
        ],
        "changes": [asdict(side.changes()) for side in both.sides],
        "notes": notes,
    }
    (folder / FILE).write_text(json.dumps(content) + "\n", encoding="ascii")


def _of_corpus(corpus: CorpusStatistics, tokenizers: Sequence[Tokenizer]) -> dict[str, Any]:
    of_bytes = [np.flatnonzero(tokenizer.are_bytes()).tolist() for tokenizer in tokenizers]
    return {
        "lengths": [_items(side.lengths) for side in corpus.sides],
        "ratios": _items(corpus.ratios),
        "unknown": [side.subwords[UNK] for side in corpus.sides],
        "bytes": [sum(side.subwords[i] for i in ids) for side, ids in zip(corpus.sides, of_bytes, strict=True)],
        "examples": corpus.examples.to_json(),
        "suspicious": corpus.suspicious.to_json(),
        "commonest": [side.commonest() for side in corpus.sides],
        "sample": [list(map(shortened, pair)) for pair in corpus.sample],
    }


def read(folder: Path) -> dict[str, Any]:
    """What `write` wrote, `changes` as SideChanges and `notes` as tuples. Raises NmtError if the file is missing or
    damaged."""
    try:
        content: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="ascii"))
        content["changes"] = tuple(map(SideChanges.of, content["changes"]))
        content["notes"] = tuple(map(tuple, content["notes"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NmtError(f"{folder / FILE}: damaged ({error}): delete the folder to build it again") from error
    return content


def source_text(counted: Mapping[str, Any], languages: Sequence[str]) -> SourceText:
    """What is known of the sources. counted: as `read`; languages: that of the sources of each corpus."""
    samples: dict[str, list[str]] = {language: [] for language in languages}
    for language, corpus in zip(languages, counted["corpora"], strict=True):
        samples[language] += [source for source, _ in corpus["sample"]]
    lengths, several = map(dict, counted["sources"])
    return SourceText.of(lengths, several, samples)


def ratio_steps(source: Lengths, target: Lengths) -> Lengths:
    """The ratio of each pair's lengths, target / source, as the nearest of 2^(k/8): k [pairs], from -64 to 64."""
    between = [2 ** ((step + 0.5) / OCTAVE) for step in range(-8 * OCTAVE, 8 * OCTAVE)]  # rounded alike everywhere
    return np.searchsorted(between, target / source) - 8 * OCTAVE


def counts_of(numbers: Lengths) -> dict[int, int]:
    """How often each number occurs."""
    distinct, counts = np.unique(numbers, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


def sums(marked: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64]) -> Lengths:
    """How many are marked in each sequence: [sequences]. marked: [subwords of all sequences]."""
    before = np.append(0, np.cumsum(marked, dtype=np.int64))[offsets]
    return before[1:] - before[:-1]


def use_of(tokenizer: Tokenizer, used: Counter[int]) -> dict[str, Any]:
    """How a vocabulary is used. used: how often each subword occurs; those that do not stand for text as it is (special
    ones, tags, single bytes) are left out."""
    spellings = tokenizer.every_piece()
    pieces = [(spellings[i], used[i]) for i, is_text in enumerate(tokenizer.are_text()) if is_text]
    in_use = [entry for entry in pieces if entry[1]]
    return {
        "size": len(tokenizer),
        "subwords": len(pieces),
        "enough": sum(count >= ENOUGH for _, count in pieces),
        "unused": len(pieces) - len(in_use),
        "unused_examples": sorted(piece for piece, count in pieces if not count)[:MOST],
        "rarest": sorted(in_use, key=lambda entry: (entry[1], entry[0]))[:MOST],
        "longest": sorted(in_use, key=lambda entry: (-len(entry[0]), entry[0]))[:MOST],
    }


def coverage(tokenizer: Tokenizer, used: Counter[int]) -> dict[str, Any]:
    """Which characters of a text a vocabulary can write without the unknown subword and without bytes. used: how often
    each character occurs, by its code point."""
    present = sorted(used)
    odd = {UNK, *(i for i, is_byte in enumerate(tokenizer.are_bytes()) if is_byte)}
    encoded = tokenizer.encode(list(map(chr, present)))
    missing = [code for code, ids in zip(present, encoded, strict=True) if odd.intersection(ids)]
    missing.sort(key=lambda code: (-used[code], code))
    return {
        "characters": used.total(),
        "distinct": len(present),
        "missing": sum(used[code] for code in missing),
        "missing_distinct": len(missing),
        "most_frequent_missing": [(chr(code), used[code]) for code in missing[:MOST]],
    }
