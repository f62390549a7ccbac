"""A glossary: prescribed translations of source terms."""

import unicodedata
from collections.abc import Iterable, Iterator
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
                self._as_written.add(tuple(units), target)
            else:
                self._in_any_case.add(tuple(unit.casefold() for unit in units), target)

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
        targets = chain(*self._as_written.targets.values(), *self._in_any_case.targets.values())
        return list(dict.fromkeys(targets))

    def terms(self, line: str) -> list[list[str]]:
        """For each source term in the line, in order, its target terms. The translation must contain one of them.

        Terms match complete words; in scripts without spaces (Chinese, Japanese, Korean, Thai, …) they match
        anywhere. Matching is case-sensitive if a term has capitals after its first letter (NASA, New York), and
        ignores the kind and number of spaces. Of overlapping terms the longest is taken; of equally long ones the
        first. A term that occurs twice is returned once.
        """
        units = _units(line)
        folded = [unit.casefold() for unit in units]
        matches = [*self._as_written.matches(units), *self._in_any_case.matches(folded)]
        # The sort is stable: of two equal terms, the case-sensitive one comes first.
        matches.sort(key=lambda match: (-sum(map(len, units[match[0] : match[1]])), match[0]))
        free = [True] * len(units)
        taken = {}
        for start, end, targets in matches:
            if all(free[start:end]):
                free[start:end] = [False] * (end - start)
                taken[start] = targets
        distinct = {id(targets): list(targets) for _, targets in sorted(taken.items())}
        return list(distinct.values())


class _Terms:
    """Terms as tuples of units. Matching takes, at each unit, one lookup per length of the terms that begin with it."""

    def __init__(self) -> None:
        self.targets: dict[tuple[str, ...], list[str]] = {}
        self.lengths: dict[str, set[int]] = {}  # by first unit: the lengths of terms, in units

    def add(self, term: tuple[str, ...], target: str) -> None:
        targets = self.targets.setdefault(term, [])
        if target not in targets:
            targets.append(target)
        self.lengths.setdefault(term[0], set()).add(len(term))

    def matches(self, units: list[str]) -> Iterator[tuple[int, int, list[str]]]:
        """Every term in a text: its start, its end, its targets."""
        for start, unit in enumerate(units):
            for length in self.lengths.get(unit, ()):
                targets = self.targets.get(tuple(units[start : start + length]))
                if targets is not None:
                    yield start, start + length, targets


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
