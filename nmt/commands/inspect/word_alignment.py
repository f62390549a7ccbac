"""Subwords as words, and attention between subwords as attention between words.

Shapes: T target and S source subwords, M and N their words.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nmt.decoding.glossary import continues_word

_SPACE = "▁"  # as SentencePiece writes it
_BYTE = re.compile(r"<0x([0-9A-F]{2})>\Z")


@dataclass(frozen=True)
class Word:
    """Subwords start … end-1 of a sentence, as one."""

    text: str
    start: int
    end: int


@dataclass(frozen=True)
class _Unit:
    """A subword, or several that cannot be taken apart."""

    text: str
    start: int
    end: int

    @property
    def begins(self) -> bool:
        return self.text.startswith(_SPACE)

    @property
    def is_punctuation(self) -> bool:
        return all(unicodedata.category(letter)[0] in "PS" for letter in self.text)

    @property
    def is_unspaced(self) -> bool:
        """Of a script without spaces between words: Korean has them, though glossaries must not count on it."""
        first = self.text.removeprefix(_SPACE)[:1]
        return first.isalpha() and not continues_word(first) and not unicodedata.name(first, "").startswith("HANGUL")


def words(pieces: Sequence[str]) -> list[Word]:
    """The words that subwords make, in order, none left out; the end of sentence, which is the last one, by itself.

    A word begins where SentencePiece has a space. Punctuation before and behind a word is another one, and so is each
    subword of a script without spaces, where SentencePiece marks no words.
    """
    groups: list[list[_Unit]] = []
    for unit in _units(pieces[:-1]):
        if groups and not (unit.begins or unit.is_unspaced or groups[-1][-1].is_unspaced):
            groups[-1].append(unit)
        else:
            groups.append([unit])
    found = [_word(part) for group in groups for part in _without_punctuation(group)]
    return [*found, Word(pieces[-1], len(pieces) - 1, len(pieces))]


def _units(pieces: Sequence[str]) -> list[_Unit]:
    """The subwords, bytes that make a character and a space before it together."""
    found: list[_Unit] = []
    bytes_so_far = b""  # of the last unit
    for place, piece in enumerate(pieces):
        byte = _BYTE.match(piece)
        value = bytes.fromhex(byte[1]) if byte else b""
        if value and value[0] & 0xC0 == 0x80 and bytes_so_far:
            bytes_so_far += value
            found[-1] = _Unit(bytes_so_far.decode(errors="replace"), found[-1].start, place + 1)
            continue
        bytes_so_far = value
        found.append(_Unit(value.decode(errors="replace") if value else piece, place, place + 1))
    joined: list[_Unit] = []
    for unit in found:
        if joined and joined[-1].text == _SPACE and not unit.begins:
            joined[-1] = _Unit(_SPACE + unit.text, joined[-1].start, unit.end)
        else:
            joined.append(unit)
    return joined


def _without_punctuation(group: list[_Unit]) -> Iterator[list[_Unit]]:
    """A word, and what punctuation there is on either side of it."""
    inside = [place for place, unit in enumerate(group) if not unit.is_punctuation]
    first, last = (inside[0], inside[-1] + 1) if inside else (0, len(group))
    yield from (part for part in (group[:first], group[first:last], group[last:]) if part)


def _word(units: Sequence[_Unit]) -> Word:
    text = "".join(unit.text for unit in units).replace(_SPACE, " ").strip()
    return Word(text or _SPACE, units[0].start, units[-1].end)


def by_word(weights: Tensor, rows: Sequence[Word], columns: Sequence[Word]) -> Tensor:
    """Attention between subwords [..., T, S] as attention between words [..., M, N]; a row stays 1 in sum.

    What is looked at in a word is the sum over its subwords, and a word looks as its subwords do on average (Clark et
    al. 2019, section 4.1).
    """
    to = torch.stack([weights[..., word.start : word.end].sum(dim=-1) for word in columns], dim=-1)  # [..., T, N]
    return torch.stack([to[..., word.start : word.end, :].mean(dim=-2) for word in rows], dim=-2)
