"""Which letters form a word."""

import unicodedata
from enum import Enum, auto
from functools import cache

from nmt.config.unspaced_scripts import is_unspaced

_JOINERS = "\u200c\u200d"  # occur inside words of Persian and Indian languages


class CharacterKind(Enum):
    """What a character is in a word."""

    SPACE = auto()
    WORD = auto()  # a letter or digit
    ALONE = auto()  # a letter that is a word by itself
    MARK = auto()  # belongs to the letter before it
    OTHER = auto()


@cache
def kind(letter: str) -> CharacterKind:
    """The kind of a character."""
    category = unicodedata.category(letter)
    if letter.isspace() or category == "Cc":
        return CharacterKind.SPACE
    if is_unspaced(letter):
        return CharacterKind.ALONE
    if category[0] in "LN" or category == "Pc":
        return CharacterKind.WORD
    if category[0] == "M" or letter in _JOINERS:
        return CharacterKind.MARK
    return CharacterKind.OTHER


def continues_word(piece: str) -> bool:
    """Whether a subword (▁ stands for a space) continues the word before it, so that a term before it is incomplete."""
    return bool(piece) and kind(piece[0]) in (CharacterKind.WORD, CharacterKind.MARK)


def in_one_word(text: str, place: int) -> bool:
    """Whether the character at a place, which may be counted from the end, and the one before it are in one word."""
    if place in (0, -len(text)):
        return False
    before, at = kind(text[place - 1]), kind(text[place])
    return at == CharacterKind.MARK or (at == CharacterKind.WORD and before in (CharacterKind.WORD, CharacterKind.MARK))
