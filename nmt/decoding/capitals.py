"""Lines in capitals are translated as sentences in lower case. Their translations are then written in capitals.

A model that has seen few capitals splits such a line into rare subwords, down to single letters. In lower case the line
has the same subwords as other text.
"""

import re

from nmt.data.subwords.copied_items import VERBATIM
from nmt.data.subwords.letter_case import change_case, has_case, sentence_case
from nmt.data.subwords.sentences import sentences

_WORD = re.compile(r"[^\W\d_]{2,}")
_VERBATIM = re.compile(VERBATIM)
# Fewer words or letters may be abbreviations, such as `EU, UN` or `IBM PC`.
_LEAST_WORDS, _LEAST_LETTERS = 2, 8
_MOST_LOWER = 1 / 9  # lower-case letters for each capital: `MEETING AT 5 pm IN THE OFFICE`


def is_in_capitals(line: str) -> bool:
    """Whether nearly all letters of a line are capitals, and it has enough words for a sentence or a headline. URLs,
    e-mail addresses and placeholders are not counted."""
    line = line.replace("ß", "SS")
    if not _has_words_in_capitals(line):  # most lines: the next steps take longer
        return False
    text = _VERBATIM.sub(" ", line)
    mostly = sum(map(str.islower, text)) <= _MOST_LOWER * sum(map(str.isupper, text))
    return mostly and has_case(text) and _has_words_in_capitals(text)


def _has_words_in_capitals(text: str) -> bool:
    words = list(filter(str.isupper, _WORD.findall(text)))
    return len(words) >= _LEAST_WORDS and sum(map(len, words)) >= _LEAST_LETTERS


def as_sentences(line: str, language: str) -> str:
    """The line in lower case, with a capital at the start of each sentence. URLs, e-mail addresses and placeholders are
    not changed, also at the start of a sentence."""
    inside = set[int]()  # the positions at which an item would be cut
    for match in _VERBATIM.finditer(line):
        inside.update(range(match.start() + 1, match.end()))
    parts, start, end = [], 0, 0
    for sentence in sentences(line, language):
        end += len(sentence)
        if end not in inside:  # `<a title="A. B.">` is one item
            parts.append(sentence_case(line[start:end], language))
            start = end
    return "".join(parts)


def in_capitals(text: str, language: str) -> str:
    """The text in capitals. URLs, e-mail addresses and placeholders are not changed."""
    return change_case(text, "uppercase", language)
