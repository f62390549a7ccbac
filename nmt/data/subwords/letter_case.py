"""Text in capitals, in title case and in small letters, by the rules of its language.

Python's own functions follow Unicode: `ß` becomes `SS`, and a capital `Σ` at the end of a word becomes `ς`. Turkish and
Azerbaijani need more: their `i` becomes `İ`, and their `I` becomes `ı`.
"""

import re
from functools import partial
from operator import ne
from typing import Literal

from nmt.config.language_codes import two_letters
from nmt.data.subwords.copied_items import TAG, VERBATIM, map_outside_verbatim

Case = Literal["uppercase", "titlecase", "lowercase"]

_TURKIC = ("tr", "az")
# The first letter of a word, after quotes, brackets or tags; or what keeps its case. A word that begins with a digit or
# with a URL, an e-mail address or a placeholder has no such letter.
_FIRST_LETTER = re.compile(
    rf"(?P<before>(?:^|(?<=\s))(?:{TAG}|(?!{VERBATIM})[^\w\s])*+)(?!{VERBATIM})(?P<letter>[^\W\d_])|(?:{VERBATIM})"
)
# The first letter of a sentence. A sentence may begin with a number: `3 dogs` becomes `3 Dogs`.
_FIRST_LETTER_OF_SENTENCE = re.compile(
    rf"(?P<before>(?:{TAG}|(?!{VERBATIM})[\W\d_])*+)(?!{VERBATIM})(?P<letter>[^\W\d_])"
)
# Unicode has capitals for these letters, but text is not written with them.
_GEORGIAN = re.compile("[\u10d0-\u10ff]")


def change_case(text: str, case: Case, language: str) -> str:
    """The text in this case, unchanged if its script has no case. URLs, e-mail addresses and placeholders are not
    changed, because they are case-sensitive. language: a code such as `de` or `tr-TR`."""
    if not has_case(text):
        return text
    if case == "titlecase":
        return titlecase(text, language)  # which looks at what stands before a word
    change = uppercase if case == "uppercase" else lowercase
    return map_outside_verbatim(partial(change, language=language), text)


def has_case(text: str) -> bool:
    """Whether at least 9 of 10 letters of a text have a capital and a small form. (Text in other scripts often contains
    a Latin name.)"""
    cased = sum(map(ne, text.upper(), text.lower()))  # off by a few where a letter becomes two
    return 10 * cased >= max(1, 9 * sum(map(str.isalpha, text))) and not _GEORGIAN.search(text)


def uppercase(text: str, language: str) -> str:
    """All letters as capitals."""
    return (text.replace("i", "İ") if _is_turkic(language) else text).upper()


def lowercase(text: str, language: str) -> str:
    """All letters in lower case."""
    return (text.replace("İ", "i").replace("I", "ı") if _is_turkic(language) else text).lower()


def titlecase(text: str, language: str) -> str:
    """Every word with a capital first letter, also short words that an English title would not capitalize. Other
    letters are not changed. Words are separated by white space. URLs, e-mail addresses and placeholders are not
    changed."""

    def capital(match: re.Match[str]) -> str:
        return match["before"] + _capital(match["letter"], language) if match["letter"] else match[0]

    return _FIRST_LETTER.sub(capital, text)


def sentence_case(sentence: str, language: str) -> str:
    """A sentence in lower case with a capital first letter. There is no capital if the sentence begins with a URL, an
    e-mail address or a placeholder. These are not changed. Tags are skipped: `<b>Two dogs</b>`."""
    small = change_case(sentence, "lowercase", language)
    first = _FIRST_LETTER_OF_SENTENCE.match(small)
    if first is None:
        return small
    return first["before"] + _capital(first["letter"], language) + small[first.end() :]


def _capital(letter: str, language: str) -> str:
    return "İ" if letter == "i" and _is_turkic(language) else letter.title()


def _is_turkic(language: str) -> bool:
    return two_letters(language) in _TURKIC
