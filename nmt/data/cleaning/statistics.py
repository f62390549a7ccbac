"""Statistics of the training text: lengths, characters and subwords, a sample, and suspicious pairs.

They are counted while the text is encoded, shard by shard, and stored beside the tokens, so that `nmt prepare --report`
needs no further pass over the text. Memory is bounded. The result does not depend on the shards, except for the counts
of repeated sentences: see `SideStatistics`.
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
MARKED = 20  # pairs of a corpus with marked terms, likewise
COMMONEST = 100  # sentences of a side that are counted
MOST = 30  # subwords and characters of each kind that are listed
# Occurrences of a subword in the training text that are needed to learn it well (Gowda and May 2020, "Finding the
# Optimal Vocabulary Size for Neural Machine Translation").
ENOUGH = 100


@dataclass
class SideStatistics:
    """Statistics of one side. Lengths are in subwords, without tags and EOS.

    Repeated sentences are found by the method of Misra and Gries (1982, "Finding repeated elements"), and parts are
    merged as by Agarwal et al. (2012, "Mergeable summaries"): if there are more than k = `COMMONEST` sentences, the
    (k+1)-th largest weight is subtracted from all weights, and sentences without weight are left out. So a weight is
    too low by at most n / (k + 1) for n pairs. The count of a sentence begins when it gets a weight. It is at least its
    weight and never too high. It is exact if no sentence was left out before, as in one shard.
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
        """Keep at most `COMMONEST` sentences, by their weights."""
        subtracted = sorted(self.weights.values(), reverse=True)[COMMONEST : COMMONEST + 1]
        self.weights = self.weights - Counter(dict.fromkeys(self.weights, sum(subtracted)))
        self.sentences = Counter({text: self.sentences[text] for text in self.weights})

    def commonest(self) -> tuple[str, int] | None:
        """The most frequent sentence, shortened, and its count; None if no sentence is repeated."""
        text, count = min(self.sentences.items(), key=lambda item: (-item[1], item[0]), default=("", 0))
        return (shortened(text), count) if count > 1 else None

    def to_json(self) -> dict[str, list[tuple[Any, int]]]:
        return {counter.name: _items(getattr(self, counter.name)) for counter in fields(self)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "SideStatistics":
        return cls(**{name: Counter(dict(items)) for name, items in content.items()})

    def changes(self) -> SideChanges:
        """The changes by the vocabulary, for reports."""
        counts = (sorted(each.items(), key=lambda item: (-item[1], item[0])) for each in (self.removed, self.lost))
        removed, lost = (tuple(most[:MOST]) for most in counts)
        return SideChanges(self.lines.total(), self.removed.total(), removed, self.lines[False], lost)


@dataclass
class CorpusStatistics:
    """Statistics of a corpus, or of a part of it."""

    sides: tuple[SideStatistics, SideStatistics] = field(default_factory=lambda: (SideStatistics(), SideStatistics()))
    ratios: Counter[int] = field(default_factory=Counter)  # pairs by round(8 · log2(target length / source length))
    sources: Counter[int] = field(default_factory=Counter)  # sources in all versions, by length
    several: Counter[int] = field(default_factory=Counter)  # the same for sources with several sentences
    examples: DropExamples = field(default_factory=DropExamples)  # of pairs dropped for their lengths
    suspicious: DropExamples = field(default_factory=DropExamples)  # of pairs that are kept: see `suspicions`
    sample: list[Pair] = field(default_factory=list)
    marked: list[Pair] = field(default_factory=list)  # examples of pairs with marked terms

    def merge(self, other: "CorpusStatistics") -> None:
        """Add the statistics of the next part."""
        for side, other_side in zip(self.sides, other.sides, strict=True):
            side.merge(other_side)
        self.ratios.update(other.ratios)
        self.sources.update(other.sources)
        self.several.update(other.several)
        self.examples.merge(other.examples)
        self.suspicious.merge(other.suspicious)
        self.sample += other.sample
        self.marked = (self.marked + other.marked)[:MARKED]

    def to_json(self) -> dict[str, Any]:
        return {
            "sides": [side.to_json() for side in self.sides],
            **{name: _items(getattr(self, name)) for name in ("ratios", "sources", "several")},
            **{name: getattr(self, name).to_json() for name in ("examples", "suspicious")},
            "sample": self.sample,
            "marked": self.marked,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "CorpusStatistics":
        source, target = map(SideStatistics.from_json, content["sides"])
        ratios, sources, several = (Counter(dict(content[name])) for name in ("ratios", "sources", "several"))
        examples, suspicious = (DropExamples.from_json(content[name]) for name in ("examples", "suspicious"))
        sample, marked = ([(first, second) for first, second in content[name]] for name in ("sample", "marked"))
        return cls((source, target), ratios, sources, several, examples, suspicious, sample, marked)


def _items(counter: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counter.items())


class StatisticsCounter:
    """Counts the statistics of pairs that come in chunks."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._statistics, self._tokenizers = CorpusStatistics(), (vocabulary.source, vocabulary.target)
        self._bytes = [np.array(tokenizer.are_bytes()) for tokenizer in self._tokenizers]  # [vocabulary]
        # How often each subword and each code point occurs.
        self._subwords = [np.zeros(len(tokenizer), np.int64) for tokenizer in self._tokenizers]
        self._characters = [np.zeros(0x110000, np.int64) for _ in self._tokenizers]
        self._changes = [TextChanges(vocabulary.source, written=False), TextChanges(vocabulary.target, written=True)]
        self._sentences = [Counter[str](), Counter[str]()]

    def add(self, pairs: list[Pair], tokens: TokenStore) -> None:
        """Count kept pairs. tokens: the tokens of the pairs, without tags and variation."""
        statistics, sides = self._statistics, (tokens.source, tokens.target)
        lines = tuple(TextLines.from_texts([pair[i] for pair in pairs]) for i in (0, 1))
        lengths = np.array([side.lengths for side in sides], np.int64) - 1  # [2, pairs], without EOS
        odd = np.zeros((2, len(pairs)), np.int64)  # unknown subwords and bytes of each side
        for i, side in enumerate(sides):
            odd[i] = sums(self._bytes[i][side.ids] | (side.ids == UNK), side.offsets)
            self._subwords[i] += np.bincount(side.ids, minlength=len(self._subwords[i]))
            characters = np.bincount(lines[i].codes)
            self._characters[i][: len(characters)] += characters
            self._changes[i].add(lines[i], np.flatnonzero(characters))
            self._sentences[i].update(lines[i].texts)
            statistics.sides[i].lengths.update(counts_of(lengths[i]))
        statistics.ratios.update(counts_of(ratio_steps(*lengths)))
        statistics.suspicious.add(pairs, suspicions(pairs, lines, lengths, odd))

    def add_sources(self, lengths: Lengths, several: npt.NDArray[np.bool_]) -> None:
        """Count sources in all versions. lengths: without tags and EOS [sources]. several: whether each has several
        sentences [sources]."""
        self._statistics.sources.update(counts_of(lengths))
        self._statistics.several.update(counts_of(lengths[several]))

    def add_examples(self, dropped: DropExamples, sample: Sequence[Pair], marked: Sequence[Pair]) -> None:
        """Add examples of pairs that were dropped for their lengths, pairs of the sample, and pairs with marked
        terms."""
        self._statistics.examples.merge(dropped)
        self._statistics.sample += sample
        self._statistics.marked = [*self._statistics.marked, *marked][:MARKED]

    def result(self) -> CorpusStatistics:
        """Return the statistics. Nothing may be added afterwards."""
        for i, side in enumerate(self._statistics.sides):
            for counter, counts in ((side.subwords, self._subwords[i]), (side.characters, self._characters[i])):
                present = np.flatnonzero(counts)
                counter.update(dict(zip(present.tolist(), counts[present].tolist(), strict=True)))
            changes = self._changes[i]
            side.removed, side.lost, side.lines = changes.removed, changes.lost, changes.lines
            side.sentences = side.weights = self._sentences[i]
            side.leave_out_rare()
        return self._statistics


def write(folder: Path, corpora: Sequence[CorpusStatistics], vocabulary: Vocabulary, about: Mapping[str, Any]) -> None:
    """Write the statistics of all corpora into the folder of a token store. about: their `notes` and `scores`."""
    both, sides = CorpusStatistics(), (vocabulary.source, vocabulary.target)
    for corpus in corpora:
        both.merge(corpus)
    subwords, characters = zip(*((side.subwords, side.characters) for side in both.sides), strict=True)
    content = {
        "corpora": [_corpus_content(corpus, sides) for corpus in corpora],
        "vocabularies": (
            [use_of(vocabulary.source, subwords[0] + subwords[1])]
            if vocabulary.shared
            else list(map(use_of, sides, subwords))
        ),
        "sources": [_items(both.sources), _items(both.several)],
        "characters": list(map(coverage, sides, characters)),
        "changes": [asdict(side.changes()) for side in both.sides],
        **about,
    }
    (folder / FILE).write_text(json.dumps(content) + "\n", encoding="ascii")


def _corpus_content(corpus: CorpusStatistics, tokenizers: Sequence[Tokenizer]) -> dict[str, Any]:
    byte_ids = [np.flatnonzero(tokenizer.are_bytes()).tolist() for tokenizer in tokenizers]
    return {
        "lengths": [_items(side.lengths) for side in corpus.sides],
        "ratios": _items(corpus.ratios),
        "unknown": [side.subwords[UNK] for side in corpus.sides],
        "bytes": [sum(side.subwords[i] for i in ids) for side, ids in zip(corpus.sides, byte_ids, strict=True)],
        "examples": corpus.examples.to_json(),
        "suspicious": corpus.suspicious.to_json(),
        "commonest": [side.commonest() for side in corpus.sides],
        **{name: [list(map(shortened, pair)) for pair in getattr(corpus, name)] for name in ("sample", "marked")},
    }


def read(folder: Path) -> dict[str, Any]:
    """Read what `write` wrote, with `changes` as SideChanges and `notes` as tuples. Raises NmtError if the file is
    missing or damaged."""
    try:
        content: dict[str, Any] = json.loads((folder / FILE).read_text(encoding="ascii"))
        content["changes"] = tuple(map(SideChanges.from_json, content["changes"]))
        content["notes"] = tuple(map(tuple, content["notes"]))
        content.setdefault("scores", [{} for _ in content["corpora"]])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NmtError(f"{folder / FILE}: damaged ({error}): delete the folder to build it again") from error
    return content


def source_text(counted: Mapping[str, Any], languages: Sequence[str]) -> SourceText:
    """The properties of the sources. counted: from `read`. languages: the source language of each corpus."""
    samples: dict[str, list[str]] = {language: [] for language in languages}
    for language, corpus in zip(languages, counted["corpora"], strict=True):
        samples[language] += [source for source, _ in corpus["sample"]]
    lengths, several = map(dict, counted["sources"])
    return SourceText.from_counts(lengths, several, samples)


def ratio_steps(source: Lengths, target: Lengths) -> Lengths:
    """The ratio of each pair's lengths, target / source, as the nearest of 2^(k/8): k [pairs], from -64 to 64."""
    between = [2 ** ((step + 0.5) / OCTAVE) for step in range(-8 * OCTAVE, 8 * OCTAVE)]  # the same on every machine
    return np.searchsorted(between, target / source) - 8 * OCTAVE


def counts_of(values: Lengths) -> dict[int, int]:
    """How often each value occurs."""
    distinct, counts = np.unique(values, return_counts=True)
    return dict(zip(distinct.tolist(), counts.tolist(), strict=True))


def sums(marked: npt.NDArray[np.bool_], offsets: npt.NDArray[np.int64]) -> Lengths:
    """How many are marked in each sequence: [sequences]. marked: [subwords of all sequences]."""
    before = np.append(0, np.cumsum(marked, dtype=np.int64))[offsets]
    return before[1:] - before[:-1]


def use_of(tokenizer: Tokenizer, used: Counter[int]) -> dict[str, Any]:
    """How a vocabulary is used. used: how often each subword occurs. Subwords that are not text (special subwords,
    tags, single bytes) are left out."""
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
    """Which characters of a text a vocabulary can encode without the unknown subword and without bytes. used: how often
    each character occurs, by code point."""
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
