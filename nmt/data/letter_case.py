"""Text in capitals, in title case and in small letters, by the rules of its language.

Python's own functions follow Unicode: `ß` becomes `SS`, and a capital `Σ` at the end of a word becomes `ς`. Turkish and
Azerbaijani need more: their `i` becomes `İ`, and their `I` becomes `ı`.
"""

import re
from collections.abc import Callable
from operator import ne
from typing import Literal

from nmt.config.language_codes import base
from nmt.data.copied_items import map_outside_verbatim

Case = Literal["uppercase", "titlecase", "lowercase"]

_TURKIC = ("tr", "az")
# The first letter of a word, after quotes or brackets. A word that begins with a digit has none.
_FIRST_LETTER = re.compile(r"(?:^|(?<=\s))[^\w\s]*[^\W\d_]")
# Unicode has capitals for these letters, but text is not written with them.
_GEORGIAN = re.compile("[\u10d0-\u10ff]")


def change_case(text: str, case: Case, language: str) -> str:
    """The text in this case; as it is if its script has no case. URLs, e-mail addresses and placeholders stay as they
    are, because another case would change what they stand for. language: a code such as `de` or `tr-TR`."""
    if not has_case(text):
        return text
    change: dict[Case, Callable[[str, str], str]] = {
        "uppercase": uppercase, "titlecase": titlecase, "lowercase": lowercase,
    }  # fmt: skip
    return map_outside_verbatim(lambda part: change[case](part, language), text)


def has_case(text: str) -> bool:
    """Whether nearly all letters of a text have a capital and a small form: 9 of 10, as text in other scripts often has
    a Latin name in it."""
    cased = sum(map(ne, text.upper(), text.lower()))  # a few more or less where a letter becomes two
    return 10 * cased >= max(1, 9 * sum(map(str.isalpha, text))) and not _GEORGIAN.search(text)


def uppercase(text: str, language: str) -> str:
    """All letters as capitals."""
    return (text.replace("i", "İ") if _is_turkic(language) else text).upper()


def lowercase(text: str, language: str) -> str:
    """All letters as small ones."""
    return (text.replace("İ", "i").replace("I", "ı") if _is_turkic(language) else text).lower()


def titlecase(text: str, language: str) -> str:
    """Every word with a capital, its other letters as they are: also short words, which an English title would leave
    small. Words are separated by white space."""
    turkic = _is_turkic(language)

    def capital(match: re.Match[str]) -> str:
        before, letter = match[0][:-1], match[0][-1]
        return before + ("İ" if turkic and letter == "i" else letter.title())

    return _FIRST_LETTER.sub(capital, text)


def _is_turkic(language: str) -> bool:
    return base(language) in _TURKIC
