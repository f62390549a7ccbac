"""A glossary: source terms with their prescribed translations, and where the terms are in a line."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from nmt.config.language_pairs import LanguagePair
from nmt.config.word_characters import CharacterKind, kind
from nmt.errors import NmtError
from nmt.terms import glossary_file
from nmt.terms.lexicon import same_letters

_BETWEEN_FORMS = re.compile(r"(?<!\\)\|")
_ALIKE = str.maketrans("yı", "ii")
_COMBINING = re.compile("[\u0300-\u036f]")
# Near misses. The letters and lengths were chosen by reading those of frequent nouns in English, German, Turkish,
# Finnish and Russian news. 70% to 90% of them are forms of the noun.
_SHORTEST_STEM, _LONGEST_ENDING = 3, 3
_VOWELS = frozenset("aeiouаеиоуыэюяьαεηιουω")  # with ь, which vowels replace
_REPLACED = _VOWELS | set("ksς")  # last letters that other endings replace: странА, страны
_OTHER_WORDS = ("ed", "al", "li")  # endings of other words, as in tested, regional, monthly
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
    """Source terms with their target terms. Each can have several forms.

    Terms match in any case, unless they have capitals after the first letter (NASA, New York). Two terms that differ in
    case only, such as `Essen` (food) and `essen` (to eat), match as they are written. At the start of a sentence, where
    `Essen` can be either, the one with the capital letter is found.
    """

    def __init__(self, entries: Iterable[tuple[str, str]], lines: Sequence[int] = ()):
        """entries: pairs (source term, target term); `|` separates the forms: ("doctor|doctors", "Arzt|Ärzte"), and
        `\\|` is the character itself. lines: of the entries in their file, for messages. Raises ValueError for an empty
        form, and for a source form that has another translation already."""
        self.terms: list[Term] = []
        terms = dict[tuple[str, ...], tuple[Term, int]]()  # by the units of a form, with the index of the entry
        translations = defaultdict[tuple[str, ...], set[tuple[str, ...]]](set)  # by the folded units of a form
        for i, (source, target) in enumerate(entries):
            where, term = f"{lines[i]}: " if lines else "", Term(_forms(source), _forms(target))
            forms = [tuple(unit.text for unit in _units(form)) for form in term.sources]
            if not all(forms) or not all(term.targets):
                raise ValueError(f"{where}empty term or form: {source!r} → {target!r}")
            for form, units in zip(term.sources, forms, strict=True):
                known, earlier = terms.setdefault(units, (term, i))
                if known.targets != term.targets:
                    both = f"{'|'.join(known.targets)!r} and {'|'.join(term.targets)!r}"
                    remedy = "remove one of them, or write both as forms of one term, separated by |"
                    first = f" (the first is in line {lines[earlier]})" if lines else ""
                    raise ValueError(f"{where}{form!r} has two translations, {both}: {remedy}{first}")
                translations[_folded(units)].add(term.targets)
            self.terms.append(term)
        self._as_written, self._in_any_case = _Forms(), _Forms()
        for units, (term, _) in terms.items():
            folded, letters = _folded(units), [letter for unit in units for letter in unit if letter.isalpha()]
            if any(map(str.isupper, letters[1:])) or len(translations[folded]) > 1:
                self._as_written.add(units, term)
            else:
                self._in_any_case.add(folded, term)

    @classmethod
    def load(cls, path: Path, pair: LanguagePair | None = None) -> "Glossary":
        """Read a glossary file: see `glossary_file.read`. pair: the languages of the job, if they are known. Raises
        NmtError for a file with problems."""
        entries = glossary_file.read(path, pair)
        try:
            return cls(((entry.source, entry.target) for entry in entries), lines=[entry.line for entry in entries])
        except ValueError as error:
            raise NmtError(f"{path}:{error}") from None

    @property
    def targets(self) -> list[str]:
        """All distinct target forms."""
        return list(dict.fromkeys(form for term in self.terms for form in term.targets))

    def find(self, line: str) -> list[FoundTerm]:
        """The terms in a line, in order; they do not overlap.

        Terms match complete words; in scripts without spaces (Chinese, Japanese, Korean, Thai, …) they match
        anywhere. The kind and number of spaces do not matter. Of overlapping terms the longest is taken; of equally
        long ones the first.
        """
        units = _units(line)
        spans = ((units[first].start, units[last - 1].stop, term) for first, last, term in self._places(units))
        return [FoundTerm(start, stop, line[start:stop], term) for start, stop, term in spans]

    def _places(self, units: Sequence["_Unit"]) -> list[tuple[int, int, Term]]:
        """The terms in a line: the indices of the first unit and after the last one."""
        texts = tuple(unit.text for unit in units)
        matches = [*self._as_written.matches(texts), *self._in_any_case.matches(_folded(texts))]
        # The sort is stable: of two equal terms, the case-sensitive one comes first.
        matches.sort(key=lambda match: (-sum(map(len, texts[match[0] : match[1]])), match[0]))
        free = [True] * len(units)
        places = list[tuple[int, int, Term]]()
        for first, last, term in matches:
            if all(free[first:last]):
                free[first:last] = [False] * (last - first)
                places.append((first, last, term))
        return sorted(places, key=lambda place: place[0])

    def near_misses(self, line: str) -> list[tuple[Term, str]]:
        """Terms that are probably in a line in a form that the glossary lacks, such as `doctors` for `doctor`, with
        their text in the line.

        The last word differs from that of the source term in its ending only, except for accents, and `i` for `y`.
        Terms with several source forms, and scripts without spaces between words, have no near misses.
        """
        units = _units(line)
        folded = _folded(unit.text for unit in units)
        found = {i for first, last, _ in self._places(units) for i in range(first, last)}
        misses = list[tuple[Term, str]]()
        for i in sorted(set(range(len(units))) - found):
            word = _plain_letters(folded[i])
            stems = (word[:stop] for stop in range(len(word), max(_SHORTEST_STEM, len(word) - _LONGEST_ENDING) - 1, -1))
            for term, (*before, last) in chain.from_iterable(self._by_stem.get(stem, ()) for stem in stems):
                first = i - len(before)
                if tuple(before) == folded[max(0, first) : i] and last != folded[i] and _may_be_form(word, last):
                    misses.append((term, line[units[first].start : units[i].stop]))
                    break
        return misses

    @cached_property
    def _by_stem(self) -> dict[str, list[tuple[Term, tuple[str, ...]]]]:
        """The terms with one source form, and its units, by the last word with and without its last letter."""
        by_stem = defaultdict[str, list[tuple[Term, tuple[str, ...]]]](list)
        units = [(term, _folded(unit.text for unit in _units(term.source))) for term in self.terms]
        for cut in (0, 1):  # for `parts`, `part` comes before `party`
            for term, form in units:
                if len(term.sources) == 1 and kind(form[-1][0]) == CharacterKind.WORD:
                    letters = _plain_letters(form[-1])
                    by_stem[letters[: len(letters) - cut]].append((term, form))
        return dict(by_stem)

    def entries(self, line: str) -> dict[str, list[str]]:
        """The terms in a line: the target forms of each source term, each term once."""
        return {found.term.source: list(found.term.targets) for found in self.find(line)}


def _plain_letters(word: str) -> str:
    """A word without accents, so that `Stadt` and `Städte` have a stem in common; likewise `city` and `cities`."""
    word = word if word.isascii() else _COMBINING.sub("", unicodedata.normalize("NFD", word))
    return word.translate(_ALIKE)


def _may_be_form(word: str, other: str) -> bool:
    """Whether a word without accents is probably a form of another word."""
    form = _plain_letters(other)
    stem = same_letters(word, form)
    ending, replaced = word[stem:], form[stem:]
    if word[-1].isdigit() or ending in _OTHER_WORDS:
        return False
    if stem == _SHORTEST_STEM:  # car, cars; not war, ward
        return not replaced and ending == "s"
    if replaced:
        return replaced in _REPLACED and len(ending) <= min(2, stem - 3)
    return len(ending) <= (_LONGEST_ENDING if form[-1] in _VOWELS else 2)


class _Forms:
    """Forms as tuples of units. Matching takes, at each unit, one lookup per length of the forms that begin with it."""

    def __init__(self) -> None:
        self.by_units: dict[tuple[str, ...], Term] = {}
        self.lengths: dict[str, set[int]] = {}  # by first unit: the lengths of forms, in units

    def add(self, units: tuple[str, ...], term: Term) -> None:
        """Add a form of a term. A form that was added before stays."""
        self.lengths.setdefault(units[0], set()).add(len(units))
        self.by_units.setdefault(units, term)

    def matches(self, units: tuple[str, ...]) -> Iterator[tuple[int, int, Term]]:
        """Every term in a text: the indices of its first unit and after its last one, and the term."""
        for start, unit in enumerate(units):
            for length in self.lengths.get(unit, ()):
                form = units[start : start + length]  # shorter at the end
                if len(form) == length and (term := self.by_units.get(form)) is not None:
                    yield start, start + length, term


class _Unit(NamedTuple):
    """A unit of terms: a word, a single letter of a script without spaces, or another character."""

    text: str  # NFKC
    start: int  # in the line
    stop: int


def _forms(side: str) -> tuple[str, ...]:
    return tuple(" ".join(form.replace("\\|", "|").split()) for form in _BETWEEN_FORMS.split(side))


def _folded(units: Iterable[str]) -> tuple[str, ...]:
    """Units in small letters. `İ` becomes `i`, as in Turkish."""
    return tuple(unit.casefold().replace("i\u0307", "i") for unit in units)


def _units(line: str) -> list[_Unit]:
    """The units of a line."""
    spans = (match.span() for match in _UNIT.finditer(line.translate(_CLASSES)))
    return [_Unit(_normal(line[start:stop]), start, stop) for start, stop in spans]


class _Classes(dict[int, str]):
    """Of each character: `w` in a word, `a` a word by itself, `m` mark, ` ` space, `o` other, `-` without meaning."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        if "\u1160" <= letter <= "\u11ff":  # a vowel or last consonant of a Korean syllable
            found = "m"
        elif letter not in _JOINERS and (code in _SELECTORS or unicodedata.category(letter) == "Cf"):
            found = "-"  # such as a soft hyphen
        else:  # a full-width letter is a letter of a word
            found = _CLASS_OF[kind(unicodedata.normalize("NFKC", letter)[0] if letter > "\uff00" else letter)]
        return self.setdefault(code, found)


_CLASSES, _CLASS_OF = _Classes(), dict(zip(CharacterKind, " wamo", strict=True))
_UNIT = re.compile("w(?:-*[wm])*|a(?:-*m)*|[om]")


def _normal(text: str) -> str:
    if text.isascii():
        return text
    text = "".join(letter for letter in text if _CLASSES[ord(letter)] != "-")
    return unicodedata.normalize("NFKC", text).replace("’", "'")
