"""Counts of the pairs of each corpus, read, dropped and kept, and a report on them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import starmap
from typing import Any, NamedTuple

from nmt.data.cleaning.rules.judge import MEANINGS
from nmt.errors import NmtError
from nmt.files.notes import shown
from nmt.files.table import fitted, without_zeros


@dataclass(frozen=True)
class SideCounts:
    """Counts of one side of the kept pairs. Subwords are counted without the end of sentence."""

    words: int = 0  # separated by white space
    characters: int = 0
    subwords: int = 0
    longest: int = 0  # subwords of the longest sentence
    unknown: int = 0  # subwords

    def __add__(self, other: "SideCounts") -> "SideCounts":
        sums = {part.name: getattr(self, part.name) + getattr(other, part.name) for part in fields(self)}
        return SideCounts(**sums | {"longest": max(self.longest, other.longest)})


@dataclass(frozen=True)
class SideChanges:
    """Changes by the vocabulary in the text of one side; see `nmt.data.cleaning.text_changes`. Characters are listed
    with their counts, the most frequent first."""

    lines: int
    removed: int  # invisible characters
    removed_characters: tuple[tuple[str, int], ...]
    not_written: int  # lines of the target that a model cannot write as they are
    lost_characters: tuple[tuple[str, int], ...]  # of these lines

    @classmethod
    def from_json(cls, recorded: Mapping[str, Any]) -> "SideChanges":
        """From the content of `dataclasses.asdict`. Raises KeyError or TypeError for other data."""
        lists = {
            name: tuple((character, n) for character, n in recorded[name])
            for name in ("removed_characters", "lost_characters")
        }
        return cls(**{**recorded, **lists})


class Dropped(NamedTuple):
    """The pairs that are dropped for one reason."""

    setting: str  # the setting that drops them, such as `data.clean.digits`; empty if there is none
    reason: str
    pairs: int

    def __str__(self) -> str:
        return f"{self.reason} ({self.setting})" if self.setting else self.reason


def _dropped_by(rule: str, pairs: int) -> Dropped:
    setting = rule if rule in MEANINGS else f"scores.{rule.split()[0]}"  # of a bound such as `kiwi below 0.7`
    return Dropped(f"data.clean.{setting}", MEANINGS.get(rule, rule), pairs)


@dataclass(frozen=True)
class CorpusCounts:
    """The pairs of a corpus, or of a part of it: read, dropped for each reason, and kept.

    The reasons are checked in the order empty, copies, duplicates, rules, too_long, ratio; a pair counts for the first.
    Counts of several parts can be added.
    """

    read: int = 0
    empty: int = 0  # a side is empty, or white space, or characters that normalization removes
    copies: int = 0  # data.drop_copies
    duplicates: int = 0  # data.drop_duplicates; the first one stays
    too_long: int = 0  # data.max_length
    ratio: int = 0  # data.max_length_ratio
    kept_copies: int = 0  # kept pairs whose sides are equal
    kept_duplicates: int = 0  # kept pairs that equal an earlier one
    source: SideCounts = SideCounts()
    target: SideCounts = SideCounts()
    rules: Mapping[str, int] = field(default_factory=dict)  # data.clean: dropped by each of its rules, by name
    marked: int = 0  # kept pairs with marked terms (data.augment.terms) in the first version of the text

    @property
    def kept(self) -> int:
        return self.read - sum(dropped.pairs for dropped in self.dropped)

    @property
    def by_rules(self) -> int:
        """Pairs dropped by all rules of data.clean."""
        return sum(self.rules.values())

    @property
    def dropped(self) -> list[Dropped]:
        """The pairs dropped for each reason, in the order of the checks."""
        return [
            Dropped("", "empty on a side", self.empty),
            Dropped("data.drop_copies", "copies", self.copies),
            Dropped("data.drop_duplicates", "duplicates", self.duplicates),
            *starmap(_dropped_by, self.rules.items()),
            Dropped("data.max_length", "too long", self.too_long),
            Dropped("data.max_length_ratio", "too different in length", self.ratio),
        ]

    def __add__(self, other: "CorpusCounts") -> "CorpusCounts":
        rules = {name: self.rules.get(name, 0) + other.rules.get(name, 0) for name in {**self.rules, **other.rules}}
        sums: dict[str, Any] = {
            part.name: getattr(self, part.name) + getattr(other, part.name)
            for part in fields(self)
            if part.name != "rules"
        }
        return CorpusCounts(**sums, rules=rules)


def counts_from(rows: Sequence[Mapping[str, Any]]) -> tuple[CorpusCounts, ...]:
    """The counts of each corpus, from the content of `dataclasses.asdict`. Raises KeyError or TypeError for other
    data."""
    counts = []
    for row in rows:
        parts: dict[str, Any] = {side: SideCounts(**row[side]) for side in ("source", "target")}
        own = {name: value for name, value in row.items() if name != "scores"}  # which earlier versions stored
        counts.append(CorpusCounts(**own | parts))
    return tuple(counts)


def nothing_left(counts: CorpusCounts, name: str = "data.train", advice: str = "") -> NmtError:
    """The error for training data, or for a corpus, of which no pair is kept. It has the number of dropped pairs for
    each reason."""
    dropped = ", ".join(f"{reason.pairs:,} {reason}" for reason in counts.dropped if reason.pairs)
    return NmtError(f"{name}: none of the {counts.read:,} pairs can be used for training: {dropped}{advice}")


_BY_RULES, _DROPPED = "dropped by the rules", "dropped: "
_CHANGES = ["change", "lines", "characters", "which"]
_NOTES = ["file", "how it is read, and what is left out"]
# By a table's first heading: the columns after the first that hold no numbers.
_TEXT_COLUMNS = {_CHANGES[0]: (3,), _NOTES[0]: (1,)}


@dataclass(frozen=True)
class DataSummary:
    """The counts of the training data. As text it is several tables, at most as wide as the terminal: dropped and kept
    pairs; pairs dropped by the rules of data.clean, if it is used; the text of each side; changes by the vocabulary, if
    there are any; notes on files, if there are any. Reasons for which nothing was dropped are left out."""

    languages: tuple[str, str]
    labels: tuple[str, ...]
    counts: tuple[CorpusCounts, ...]  # one for each corpus, in the order of the labels
    changes: tuple[SideChanges, ...]  # of source and target
    notes: tuple[tuple[str, ...], ...]  # on the file of each corpus

    @classmethod
    def from_json(cls, recorded: Mapping[str, Any]) -> "DataSummary":
        """From the content of `dataclasses.asdict`. Raises KeyError or TypeError for other data."""
        changes = tuple(map(SideChanges.from_json, recorded["changes"]))
        notes = tuple(map(tuple, recorded["notes"]))
        counts = counts_from(recorded["counts"])
        return cls(tuple(recorded["languages"]), tuple(recorded["labels"]), counts, changes, notes)

    def __str__(self) -> str:
        corpora, *others = self.tables()
        tables = [_dropped_first(without_zeros(corpora, keep=("pairs", "kept")))]
        for rows in others:
            shown = without_zeros(rows) if rows[0][0] == _BY_RULES else rows
            if len(shown[0]) > 1:
                tables.append(shown)
        return "\n\n".join(fitted(rows, left=[0, *_TEXT_COLUMNS.get(rows[0][0], ())]) for rows in tables)

    def tables(self) -> tuple[list[list[str]], ...]:
        """The tables: pairs of each corpus that were read, dropped and kept; pairs dropped by each rule of data.clean,
        if there are any; the text of each side; what is changed in it, if anything is; notes on files, if there are
        any. First rows: headings."""
        total = sum(self.counts, CorpusCounts())
        rows = [*zip(self.labels, self.counts, strict=True), *([("all", total)] if len(self.counts) > 1 else [])]
        corpora, rules = [self._headings(total)], [[_BY_RULES, *total.rules]]
        for label, count in rows:
            dropped = [count.empty, count.copies, count.duplicates]
            if total.rules:
                dropped.append(count.by_rules)
            dropped += [count.too_long, count.ratio]
            kept = [count.kept, count.kept_copies, count.kept_duplicates, *([count.marked] if total.marked else [])]
            corpora.append([label, *_grouped([count.read, *dropped, *kept])])
            rules.append([label, *_grouped(count.rules.get(rule, 0) for rule in total.rules)])
        sides = [["side", "words", "characters", "subwords", "unknown", "longest", "mean"]]
        for name, language in zip(("source", "target"), self.languages, strict=True):
            side: SideCounts = getattr(total, name)
            counts = _grouped([side.words, side.characters, side.subwords, side.unknown, side.longest])
            sides.append([f"{name} ({language})", *counts, f"{side.subwords / total.kept:.1f}"])
        tables = [corpora, rules, sides] if total.rules else [corpora, sides]
        if changes := self._changes():
            tables.append(changes)
        notes = [_NOTES]
        for label, corpus_notes in zip(self.labels, self.notes, strict=True):
            notes += [[label, note] for note in corpus_notes]
        if len(notes) > 1:
            tables.append(notes)
        return tuple(tables)

    def _changes(self) -> list[list[str]]:
        rows = []
        for name, language, side in zip(("source", "target"), self.languages, self.changes, strict=True):
            if side.removed:
                which = shown(side.removed_characters)
                rows.append([f"invisible, removed: {name} ({language})", "", f"{side.removed:,}", which])
            if side.not_written:
                count = f"{side.not_written:,} of {side.lines:,}"
                which = shown(side.lost_characters)
                rows.append([f"cannot be written: {name} ({language})", count, "", which])
        return [_CHANGES, *rows] if rows else []

    @staticmethod
    def _headings(total: CorpusCounts) -> list[str]:
        rules = ["rules"] if total.rules else []
        reasons = ["empty", "copies", "duplicates", *rules, "too long", "length ratio"]
        kept = ["kept", "kept copies", "kept duplicates", *(["with terms"] if total.marked else [])]
        return ["corpus", "pairs", f"{_DROPPED}{reasons[0]}", *reasons[1:], *kept]


def _dropped_first(rows: list[list[str]]) -> list[list[str]]:
    """The table of the corpora with `dropped: ` before the first of the remaining reasons."""
    headings = [heading.removeprefix(_DROPPED) for heading in rows[0]]
    if headings[2] != "kept":
        headings[2] = _DROPPED + headings[2]
    return [headings, *rows[1:]]


def _grouped(counts: Iterable[int]) -> list[str]:
    return [f"{count:,}" for count in counts]
