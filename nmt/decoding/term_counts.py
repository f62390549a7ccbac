"""Counts of the glossary terms in lines, and the message about them. Loads no PyTorch."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from nmt.terms.glossary import Glossary
from nmt.terms.used_term import UsedTerm

if TYPE_CHECKING:
    from nmt.decoding.engine_protocol import SearchInput
    from nmt.decoding.translation import Translation

log = logging.getLogger("nmt")

_NAMED = 10  # at most, in messages
_HOW = {
    "own": "in the model's own translation",
    "learned": "translated by a model that has learned terms",
    "placed": "inserted",
    "failed": "not inserted",
}


@dataclass
class TermCounts:
    """Counts of the terms that were found in lines.

    how: the number of terms by `UsedTerm.how`; lines: those with terms; failed: the first terms that were not inserted,
    as text; near: the first words that differ from a source term in their ending only, as `term|word`, with the place.
    """

    how: dict[str, int] = field(default_factory=dict)
    lines: int = 0
    failed: list[str] = field(default_factory=list)
    near: dict[str, str] = field(default_factory=dict)

    def __add__(self, other: "TermCounts") -> "TermCounts":
        how = {name: self.how.get(name, 0) + other.how.get(name, 0) for name in self.how | other.how}
        near = self.near | other.near | self.near  # the first place of each word
        failed, near = [*self.failed, *other.failed][:_NAMED], dict(islice(near.items(), _NAMED))
        return TermCounts(how, self.lines + other.lines, failed, near)

    def count(self, line: int, texts: Sequence[str], used: Sequence[UsedTerm], glossary: Glossary) -> None:
        """Count the terms of a line, and its near misses. line: its number, or 0; texts: of its parts."""
        where = f"line {line}: " if line else ""
        for term in used:
            self.how[term.how] = self.how.get(term.how, 0) + 1
            if term.how == "failed" and len(self.failed) < _NAMED:
                self.failed.append(f"{where}{term.source} -> {term.target}")
        self.lines += bool(used)
        for text in texts if len(self.near) < _NAMED else ():
            for near, word in glossary.near_misses(text):
                self.near.setdefault(f"{near.source}|{word}", where)

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
                log.warning("%s: %s%s", message, ", ".join(self.failed), more)
        elif lines:
            log.warning("glossary: none of its source terms occurs in the %s lines", f"{lines:,}")
        if self.near:
            message = "glossary: these words may be forms of its terms, but were not found: %s%s: add them as forms"
            words = ", ".join(f"{where}{near}" for near, where in islice(self.near.items(), _NAMED))
            log.warning(message, words, ", …" if len(self.near) >= _NAMED else "")


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
