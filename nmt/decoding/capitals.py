"""Lines in capitals: they are translated as sentences in small letters, and their translations are put in capitals.

A model that has seen few capitals splits such a line into subwords that it does not know, down to single letters. As a
sentence it has the subwords of other text.
"""

import re

from nmt.data.letter_case import change_case
from nmt.decoding.long_input import sentences

_WORD = re.compile(r"[^\W\d_]{2,}")
_FIRST_LETTER = re.compile(r"[^\W\d_]")
# Fewer words or letters may be abbreviations, such as `EU, UN` or `IBM PC`.
_LEAST_WORDS, _LEAST_LETTERS = 2, 8


def is_in_capitals(line: str, language: str) -> bool:
    """Whether all letters of a line are capitals, but for URLs, e-mail addresses and placeholders, and there are enough
    of them to be sentences or a headline. language: its code."""
    words = list(filter(str.isupper, _WORD.findall(line)))  # most lines have none
    if len(words) < _LEAST_WORDS or sum(map(len, words)) < _LEAST_LETTERS:
        return False
    return change_case(line, "uppercase", language) == line != change_case(line, "lowercase", language)


def as_sentences(line: str, language: str) -> str:
    """The line in small letters, but for the first of each sentence."""

    def capital(letter: re.Match[str]) -> str:
        return change_case(letter[0], "uppercase", language)

    small = (change_case(sentence, "lowercase", language) for sentence in sentences(line))
    return "".join(_FIRST_LETTER.sub(capital, sentence, count=1) for sentence in small)


def in_capitals(text: str, language: str) -> str:
    """All letters as capitals, but for URLs, e-mail addresses and placeholders."""
    return change_case(text, "uppercase", language)
