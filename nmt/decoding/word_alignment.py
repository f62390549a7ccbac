"""Joins subwords to words."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nmt.config.word_characters import continues_word

_SPACE = "▁"  # as SentencePiece writes it
_BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")


@dataclass(frozen=True)
class Word:
    """The subwords from start to end - 1 of a sentence."""

    text: str
    start: int
    end: int


class _Unit(Word):
    """One subword, or several that form one unit, such as the bytes of a character."""

    @property
    def begins(self) -> bool:
        return self.text.startswith(_SPACE)

    @property
    def is_punctuation(self) -> bool:
        return all(unicodedata.category(letter)[0] in "PS" for letter in self.text)

    @property
    def is_unspaced(self) -> bool:
        """Whether the script has no spaces between words. Korean has them, although `continues_word` excludes
        Korean."""
        first = self.text.removeprefix(_SPACE)[:1]
        return first.isalpha() and not continues_word(first) and not unicodedata.name(first, "").startswith("HANGUL")


def to_words(pieces: Sequence[str]) -> list[Word]:
    """Join the subwords of a sentence to words, in order. The last subword, EOS, is a word of its own.

    A word begins where SentencePiece has a space. Punctuation before and after a word is a word of its own, and so is
    each subword of a script without spaces.
    """
    groups: list[list[_Unit]] = []
    for unit in _units(pieces[:-1]):
        if groups and not (unit.begins or unit.is_unspaced or groups[-1][-1].is_unspaced):
            groups[-1].append(unit)
        else:
            groups.append([unit])
    words = list[Word]()
    for group in groups:
        words += map(_word, _without_punctuation(group))
    return [*words, Word(pieces[-1], len(pieces) - 1, len(pieces))]


def _units(pieces: Sequence[str]) -> list[_Unit]:
    """The subwords as units. The bytes of one character are joined, and a lone space is joined with the next
    subword."""
    characters: list[_Unit] = []
    bytes_so_far = b""  # of the last unit
    for i, piece in enumerate(pieces):
        byte = _BYTE.match(piece)
        value = bytes.fromhex(byte[1]) if byte else b""
        if value and value[0] & 0xC0 == 0x80 and bytes_so_far:
            bytes_so_far += value
            characters[-1] = _Unit(bytes_so_far.decode(errors="replace"), characters[-1].start, i + 1)
            continue
        bytes_so_far = value
        characters.append(_Unit(value.decode(errors="replace") if value else piece, i, i + 1))
    joined: list[_Unit] = []
    for unit in characters:
        if joined and joined[-1].text == _SPACE and not unit.begins:
            joined[-1] = _Unit(_SPACE + unit.text, joined[-1].start, unit.end)
        else:
            joined.append(unit)
    return joined


def _without_punctuation(group: list[_Unit]) -> Iterator[list[_Unit]]:
    """The punctuation before a word, the word, and the punctuation after it."""
    inside = [i for i, unit in enumerate(group) if not unit.is_punctuation]
    first, last = (inside[0], inside[-1] + 1) if inside else (0, len(group))
    yield from (part for part in (group[:first], group[first:last], group[last:]) if part)


def _word(units: Sequence[_Unit]) -> Word:
    text = "".join(unit.text for unit in units).replace(_SPACE, " ").strip()
    return Word(text or _SPACE, units[0].start, units[-1].end)
