"""Counts of the glossary terms in lines, and the message about them. Loads no PyTorch."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nmt.terms.glossary import Glossary
from nmt.terms.used_term import UsedTerm

if TYPE_CHECKING:
    from nmt.decoding.engine_protocol import SearchInput
    from nmt.decoding.translation import Translation

log = logging.getLogger("nmt")

_Row = list[int | str]
_NAMED = 10  # at most, in messages
_HOW = {
    "own": "in the model's own translation",
    "learned": "translated by a model that has learned terms",
    "placed": "placed",
    "failed": "not in place",
}


@dataclass
class TermCounts:
    """Counts of the terms that were found in lines.

    how: the number of terms by `UsedTerm.how`; lines: those with terms; failed: the first terms that are not in place:
    the line number (0: not known), the source term and the target term; near: the first words that differ from a source
    term in their ending only: the line number, the source term and the word.
    """

    how: dict[str, int] = field(default_factory=dict)
    lines: int = 0
    failed: list[_Row] = field(default_factory=list)
    near: list[_Row] = field(default_factory=list)

    def __add__(self, other: "TermCounts") -> "TermCounts":
        how = {name: self.how.get(name, 0) + other.how.get(name, 0) for name in self.how | other.how}
        failed = [*self.failed, *other.failed][:_NAMED]
        return TermCounts(how, self.lines + other.lines, failed, _merged(self.near, other.near))

    def count(self, line: int, texts: Sequence[str], used: Sequence[UsedTerm], glossary: Glossary) -> None:
        """Count the terms of a line, and its near misses. line: its number, or 0; texts: of its parts."""
        for term in used:
            self.how[term.how] = self.how.get(term.how, 0) + 1
            if term.how == "failed" and len(self.failed) < _NAMED:
                self.failed.append([line, term.source, term.target])
        self.lines += bool(used)
        for text in texts if len(self.near) < _NAMED else ():
            near: list[_Row] = [[line, term.source, word] for term, word in glossary.near_misses(text)]
            self.near = _merged(self.near, near) if near else self.near

    def log(self, lines: int) -> None:
        """Log the counts. lines: all lines that were translated."""
        if total := sum(self.how.values()):
            parts = ", ".join(f"{self.how[how]:,} {words}" for how, words in _HOW.items() if how in self.how)
            terms = "1 term" if total == 1 else f"{total:,} terms"
            message = f"glossary: {terms} in {self.lines:,} of {lines:,} lines: {parts}"
            if not self.failed:
                log.info("%s", message)
            else:
                others = self.how["failed"] - len(self.failed)
                more = f", and {others:,} more" if others else ""
                log.warning("%s: %s%s", message, ", ".join(f"{_in_line(row)} -> {row[2]}" for row in self.failed), more)
        elif lines:
            log.warning("glossary: none of its source terms occurs in the %s lines", f"{lines:,}")
        if self.near:
            words = ", ".join(f"{_in_line(row[:2])}: {row[2]}" for row in self.near)
            log.warning(
                "glossary: some words may be forms of its terms, and were not translated with it: %s%s: add them as "
                "forms: %s|%s",
                *(words, ", …" if len(self.near) == _NAMED else "", self.near[0][1], self.near[0][2]),
            )


def counted(
    parts: Mapping[int, Sequence["SearchInput"]],
    translations: Sequence[Sequence["Translation"]],
    glossary: Glossary,
    first: int | None,
) -> TermCounts:
    """The counts of the terms in the lines of a chunk, and its first near misses. parts: as `Inputs.parts`; first: the
    number of the chunk's first line; None: the user knows no line numbers."""
    counts = TermCounts()
    for i, line_parts in parts.items():
        texts, used = [part.text for part in line_parts], translations[i][0].terms or ()
        counts.count(0 if first is None else first + i, texts, used, glossary)
    return counts


def _merged(near: list[_Row], more: list[_Row]) -> list[_Row]:
    """The first near misses, each word once."""
    merged = dict[tuple[int | str, ...], _Row]()
    for row in (*near, *more):
        merged.setdefault(tuple(row[1:]), row)
    return list(merged.values())[:_NAMED]


def _in_line(row: _Row) -> str:
    return f"line {row[0]}: {row[1]}" if row[0] else str(row[1])
