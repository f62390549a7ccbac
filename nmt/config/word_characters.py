"""The kinds of characters that form words."""

import unicodedata
from enum import Enum, auto
from functools import cache

from nmt.config.unspaced_scripts import is_unspaced

_JOINERS = "\u200c\u200d"  # occur inside words of Persian and Indian languages


class CharacterKind(Enum):
    """The role of a character in a word."""

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


def in_one_word(text: str, index: int) -> bool:
    """Whether the character at an index, which may be negative, and the one before it are in the same word."""
    if index in (0, -len(text)):
        return False
    before, current = kind(text[index - 1]), kind(text[index])
    return current == CharacterKind.MARK or (
        current == CharacterKind.WORD and before in (CharacterKind.WORD, CharacterKind.MARK)
    )
