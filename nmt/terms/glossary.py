"""A glossary: source terms with their prescribed translations, and where the terms are in a line."""

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from nmt.config.language_pairs import LanguagePair
from nmt.config.word_characters import CharacterKind, kind
from nmt.errors import NmtError
from nmt.files.text import read_lines

_JOINERS = "\u200c\u200d"  # the only invisible characters that are letters of words
_SELECTORS = range(0xFE00, 0xFE10)


@dataclass(frozen=True)
class Term:
    """An entry of a glossary. sources: the source term as it is written in the glossary, and its other forms; targets:
    the target term, likewise."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def source(self) -> str:
        return self.sources[0]

    @property
    def target(self) -> str:
        return self.targets[0]


class FoundTerm(NamedTuple):
    """A term in a line: the positions of its first character and after its last one, and its text in the line."""

    start: int
    stop: int
    found_as: str
    term: Term


class Glossary:
    """Source terms with their target terms. Each can have several forms."""

    def __init__(self, entries: Iterable[tuple[str, str]], base: "Glossary | None" = None):
        """entries: pairs (source term, target term); `|` separates the forms: ("doctor|doctors", "Arzt|Ärzte"). base:
        another glossary, whose terms are found too, except for the source terms that both have.
        Raises ValueError for an empty term, and for a source term with two translations."""
        self._base, self._as_written, self._in_any_case = base, _Forms(), _Forms()
        self.terms: list[Term] = []
        for source, target in entries:
            sources, targets = (tuple(form.strip() for form in side.split("|")) for side in (source, target))
            if not all(map(_units, sources)) or not all(targets):
                raise ValueError(f"empty term: {source!r} → {target!r}")
            term = Term(sources, targets)
            for form in sources:
                self._add(form, term)
            self.terms.append(term)

    def _add(self, form: str, term: Term) -> None:
        """Add a source form. Raises ValueError if it has another translation already."""
        units = tuple(unit.text for unit in _units(form))
        letters = [letter for letter in form if letter.isalpha()]
        has_capitals = any(letter.isupper() for letter in letters[1:])
        forms = self._as_written if has_capitals else self._in_any_case
        known = forms.add(units if has_capitals else tuple(unit.casefold() for unit in units), term)
        if known.targets != term.targets:
            raise ValueError(f"two translations of {form!r}: {'|'.join(known.targets)!r}, {'|'.join(term.targets)!r}")

    @classmethod
    def load(cls, path: Path, pair: LanguagePair | None = None) -> "Glossary":
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
        """All distinct target forms."""
        return list(dict.fromkeys(form for term in self.terms for form in term.targets))

    def find(self, line: str) -> list[FoundTerm]:
        """The terms in a line, in order; they do not overlap.

        Terms match complete words; in scripts without spaces (Chinese, Japanese, Korean, Thai, …) they match
        anywhere. Matching is case-sensitive if a term has capitals after its first letter (NASA, New York), and
        ignores the kind and number of spaces. Of overlapping terms the longest is taken; of equally long ones the
        first.
        """
        units = _units(line)
        texts = [unit.text for unit in units]
        folded = [text.casefold() for text in texts]
        matches = [*self._matches(texts, folded)]
        # The sort is stable: of two equal terms, the case-sensitive one comes first, and those of the base last.
        matches.sort(key=lambda match: (-sum(map(len, texts[match[0] : match[1]])), match[0]))
        free = [True] * len(units)
        found = list[FoundTerm]()
        for first, last, term in matches:
            if all(free[first:last]):
                free[first:last] = [False] * (last - first)
                start, stop = units[first].start, units[last - 1].stop
                found.append(FoundTerm(start, stop, line[start:stop], term))
        return sorted(found, key=lambda one: one.start)

    def _matches(self, texts: list[str], folded: list[str]) -> Iterator[tuple[int, int, Term]]:
        yield from self._as_written.matches(texts)
        yield from self._in_any_case.matches(folded)
        if self._base is not None:
            yield from self._base._matches(texts, folded)

    def entries(self, line: str) -> dict[str, list[str]]:
        """The terms in a line: the target forms of each source term, each term once."""
        return {found.term.source: list(found.term.targets) for found in self.find(line)}


class _Forms:
    """Forms as tuples of units. Matching takes, at each unit, one lookup per length of the forms that begin with it."""

    def __init__(self) -> None:
        self.by_units: dict[tuple[str, ...], Term] = {}
        self.lengths: dict[str, set[int]] = {}  # by first unit: the lengths of forms, in units

    def add(self, units: tuple[str, ...], term: Term) -> Term:
        """Add a form of a term. Returns the term that has this form: another one if it was added before."""
        self.lengths.setdefault(units[0], set()).add(len(units))
        return self.by_units.setdefault(units, term)

    def matches(self, units: list[str]) -> Iterator[tuple[int, int, Term]]:
        """Every term in a text: the indices of its first unit and after its last one, and the term."""
        for start, unit in enumerate(units):
            for length in self.lengths.get(unit, ()):
                term = self.by_units.get(tuple(units[start : start + length]))
                if term is not None:
                    yield start, start + length, term


class _Unit(NamedTuple):
    """A unit of terms: a word, a single letter of a script without spaces, or another character."""

    text: str  # NFKC
    start: int  # in the line
    stop: int


def _units(line: str) -> list[_Unit]:
    """The units of a line."""
    spans = list[tuple[int, int]]()
    last = CharacterKind.SPACE
    for i, letter in enumerate(line):
        if _is_meaningless(letter):
            continue
        letter_kind = kind(letter)
        is_mark = letter_kind == CharacterKind.MARK and last in (CharacterKind.WORD, CharacterKind.ALONE)
        if is_mark or letter_kind == last == CharacterKind.WORD:
            spans[-1] = spans[-1][0], i + 1
        elif letter_kind != CharacterKind.SPACE:
            spans.append((i, i + 1))
        last = last if is_mark else letter_kind
    return [_Unit(_normal(line[start:stop]), start, stop) for start, stop in spans]


def _normal(text: str) -> str:
    if text.isascii():
        return text
    text = "".join(letter for letter in text if not _is_meaningless(letter))
    return unicodedata.normalize("NFKC", text).replace("’", "'")


def _is_meaningless(letter: str) -> bool:
    """Whether a character, such as a soft hyphen, has no meaning for a term."""
    if letter.isascii() or letter in _JOINERS:
        return False
    return ord(letter) in _SELECTORS or unicodedata.category(letter) == "Cf"
