"""A glossary: prescribed translations of source terms."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from nmt.data.subwords.normalization import MEANINGLESS
from nmt.decoding.search.scripts import CharacterKind, kind
from nmt.errors import NmtError
from nmt.files.text import read_lines

_NOTHING = dict.fromkeys(map(ord, MEANINGLESS))  # removes these characters


class Glossary:
    """Source terms with their target terms. The translation must contain one of the target terms."""

    def __init__(self, entries: Iterable[tuple[str, str]]):
        """entries: pairs (source term, target term). Raises ValueError for a source term that is only white space."""
        self._as_written, self._in_any_case = _Terms(), _Terms()
        for source, target in entries:
            units = _units(source)
            if not units:
                raise ValueError(f"empty source term: {source!r}")
            letters = [letter for letter in source if letter.isalpha()]
            if any(letter.isupper() for letter in letters[1:]):
                self._as_written.add(tuple(units), source, target)
            else:
                self._in_any_case.add(tuple(unit.casefold() for unit in units), source, target)

    @classmethod
    def load(cls, path: Path) -> "Glossary":
        """Read a UTF-8 file of lines `source term TAB target term`; empty lines and lines with # first are ignored.
        Raises NmtError if the file is missing or not UTF-8, or a line does not have exactly two terms."""
        entries = []
        for line_number, line in enumerate(read_lines(path), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            terms = [term.strip() for term in line.split("\t")]
            if len(terms) != 2 or not all(terms):
                raise NmtError(f"{path}:{line_number}: {line[:80]!r}: write a source term, one tab and a target term")
            entries.append((terms[0], terms[1]))
        return cls(entries)

    @property
    def targets(self) -> list[str]:
        """All distinct target terms."""
        terms = (*self._as_written.by_units.values(), *self._in_any_case.by_units.values())
        return list(dict.fromkeys(chain.from_iterable(term.targets for term in terms)))

    def terms(self, line: str) -> list[list[str]]:
        """For each source term in the line, in order, its target terms. The translation must contain one of them.

        Terms match complete words; in scripts without spaces (Chinese, Japanese, Korean, Thai, …) they match
        anywhere. Matching is case-sensitive if a term has capitals after its first letter (NASA, New York), and
        ignores the kind and number of spaces. Of overlapping terms the longest is taken; of equally long ones the
        first. A term that occurs twice is returned once.
        """
        return list(self.entries(line).values())

    def entries(self, line: str) -> dict[str, list[str]]:
        """As `terms`, by the source term as it is written in the glossary."""
        units = _units(line)
        folded = [unit.casefold() for unit in units]
        matches = [*self._as_written.matches(units), *self._in_any_case.matches(folded)]
        # The sort is stable: of two equal terms, the case-sensitive one comes first.
        matches.sort(key=lambda match: (-sum(map(len, units[match[0] : match[1]])), match[0]))
        free = [True] * len(units)
        taken = dict[int, _Term]()
        for start, end, term in matches:
            if all(free[start:end]):
                free[start:end] = [False] * (end - start)
                taken[start] = term
        found = [taken[start] for start in sorted(taken)]
        return {term.source: list(term.targets) for term in found}


@dataclass(frozen=True)
class _Term:
    source: str  # as it is written in the glossary
    targets: list[str] = field(default_factory=list)


class _Terms:
    """Terms as tuples of units. Matching takes, at each unit, one lookup per length of the terms that begin with it."""

    def __init__(self) -> None:
        self.by_units: dict[tuple[str, ...], _Term] = {}
        self.lengths: dict[str, set[int]] = {}  # by first unit: the lengths of terms, in units

    def add(self, units: tuple[str, ...], source: str, target: str) -> None:
        targets = self.by_units.setdefault(units, _Term(source)).targets
        if target not in targets:
            targets.append(target)
        self.lengths.setdefault(units[0], set()).add(len(units))

    def matches(self, units: list[str]) -> Iterator[tuple[int, int, _Term]]:
        """Every term in a text: its start, its end, the term."""
        for start, unit in enumerate(units):
            for length in self.lengths.get(unit, ()):
                term = self.by_units.get(tuple(units[start : start + length]))
                if term is not None:
                    yield start, start + length, term


def _units(text: str) -> list[str]:
    """Split a text into the units of terms: words, single letters of scripts without spaces, other characters."""
    units: list[str] = []
    last = CharacterKind.SPACE
    for letter in unicodedata.normalize("NFKC", text.translate(_NOTHING)).replace("’", "'"):
        letter_kind = kind(letter)
        if letter_kind == CharacterKind.MARK and last in (CharacterKind.WORD, CharacterKind.ALONE):
            units[-1] += letter
            continue
        if letter_kind == last == CharacterKind.WORD:
            units[-1] += letter
        elif letter_kind != CharacterKind.SPACE:
            units.append(letter)
        last = letter_kind
    return units
