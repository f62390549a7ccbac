"""What decoding.keep names: found in lines and in their translations.

`verbatim` stands for URLs, e-mail addresses, tags, and those placeholders of the usual frameworks that are nothing else
in prose. In scripts without spaces between words, letters can follow them immediately.
"""

import re
import unicodedata
from collections import Counter
from functools import cache

from nmt.config.unspaced_scripts import HANGUL, UNSPACED
from nmt.data.subwords.copied_items import TAG

_UNSPACED = UNSPACED + HANGUL
_LETTER = rf"[^\W{_UNSPACED}]"  # or a digit, or `_`

# Of a URL: what it can end with, and the rest. Brackets belong to it in pairs, and so do placeholders.
_URL_CHARACTER = rf"""[^\s<>"'“”„«»‘’.,;:!?…،؛؟।()\[\]{{}}{_UNSPACED}]"""
_IN_BRACKETS = rf"[^\s()\[\]<>{_UNSPACED}]{{0,200}}"
_IN_BRACES = r"\{[^{}]{0,80}\}|[^\s{}]{0,80}"
_URL_PARTS = rf"{_URL_CHARACTER}|\({_IN_BRACKETS}\)|\[{_IN_BRACKETS}\]|\{{(?:{_IN_BRACES})\}}"
_URL = rf"(?i:(?:https?|ftps?|sftp)://|(?<![a-z0-9.])(?:www\.|mailto:))(?:[.,;:!?…]*(?:{_URL_PARTS}))+"
_ASCII_DOMAIN = r"(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z0-9]{2,63}(?![A-Za-z0-9À-ɏ])"  # other scripts can follow it
_DOMAIN = rf"(?:{_LETTER}|-){{1,63}}(?:\.(?:{_LETTER}|-){{1,63}})+"
_EMAIL = rf"{_LETTER}(?:{_LETTER}|[.+-]){{0,63}}@(?:{_ASCII_DOMAIN}|{_DOMAIN})"

# printf, of C and of languages that have it from there. A hyphen without a width is one in a word: `50 %-iger`.
_FLAGS = r"(?:-(?=[\d*])|[+#0,]|'(?:[^\s\w%](?=-?\d))?){0,5}"  # PHP fills with what is behind an apostrophe
_WIDTHS = r"(?:\d{1,9}|\*(?:\d{1,2}\$)?)?(?:\.(?:\d{1,9}|\*(?:\d{1,2}\$)?)?)?"
CONVERSION = rf"{_FLAGS}{_WIDTHS}(?:hh|h|ll|l|L|j|z|t|q)?[diouxXeEfFgGcCsSprn@]"  # what follows `%` or `%1$`
# Those that are rare elsewhere, or only in some languages (Go, Java): not behind a number, which is a percentage.
VERB = r"(?:[-+#]{0,3}(?:0\d{1,2})?(?:\.\d{1,2})?[vqTUwbBhHaAm]|[tT][A-Za-z])(?![A-Za-z0-9_])"
BEFORE_VERB = r"(?<!\d)(?<!\d[ \u00a0\u202f])"
_INDEX = r"(?:\d{1,2}\$|\[\d{1,2}\])?"  # of an argument, as in C or in Go
_PRINTF = "|".join(
    (
        r"(?:(?<![A-Za-z0-9_.,])\d[\d.,]{0,9})?%%",
        r"%(?:\d{1,2}\$)?#@\w{1,40}@",  # of Apple's plurals
        rf"%\([^()]{{1,60}}\){CONVERSION}",  # Python
        rf"%{_INDEX}{_FLAGS}{_WIDTHS}<\w{{1,40}}>(?:{CONVERSION})?",  # Ruby; <PRIu64> of gettext
        rf"{BEFORE_VERB}%{_INDEX}{VERB}",
        rf"(?<!\d)%{_INDEX}{CONVERSION}[A-Za-z0-9_]*",  # with a unit, as in `%dpx`, or the name in `%site`
        rf"%{_INDEX}{CONVERSION}(?![A-Za-z])",  # no `100%free`
    )
)
_NESTED = r"\{(?:[^{}]++|\{[^{}]{0,80}\}){0,9}\}"
_BRACES = "|".join(
    (
        r"\{\{\{[^{}]{0,200}\}\}\}",  # Mustache
        rf"\$?\{{\{{(?:[^{{}}]++|(?<=')[{{}}]{{1,4}}(?=')|{_NESTED}){{0,9}}\}}\}}",  # i18next, Vue, Angular, Jinja
        rf"\$\{{(?:[^{{}}]++|{_NESTED}){{0,9}}\}}",  # JavaScript
        r"\{%[^{}]{0,200}%\}|<%[^%<>]{0,200}%>",
        r"[$#%]?\{\s?[^\s{}]{0,80}\s?\}",  # ICU, Python, C#, Ruby, JavaScript, Fluent
    )
)
_VERBATIM = rf"{_URL}|{_BRACES}|{_PRINTF}|\$t\([^()]*\)|{TAG}|</?\d+\s?/?>|{_EMAIL}"  # without groups

_PLACEHOLDER = re.compile(rf"{_BRACES}|{_PRINTF}|%[0-9](?![.,]?\d)|(?<![A-Z])\$[0-9](?![.,]?\d|[A-Za-z])")
_AMOUNT = re.compile(r"[%$]([0-9]+)(?!\d|\$|%)")


@cache
def protected_pattern(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """What decoding.keep says, which is not empty: regular expressions, and `verbatim`."""
    return re.compile("|".join(f"(?:{_VERBATIM if each == 'verbatim' else each})" for each in patterns))


def protected_spans(line: str, patterns: tuple[str, ...]) -> list[tuple[int, int]]:
    """The characters of each item that is to be kept in a line. patterns: as decoding.keep."""
    return [found.span() for found in protected_pattern(patterns).finditer(line) if found[0]]


def has_invented(line: str, text: str) -> bool:
    """Whether a translation has a placeholder that its line has not, such as `%s`, `{0}` or `$1`. No placeholder is an
    amount, whose number is in the line: `50 %` is `%50` in Turkish. Nor is it one where the line has no placeholder at
    all: `five percent` is `%5`."""
    known = {found[0] for found in _PLACEHOLDER.finditer(line)}
    numbers = {"".join(str(unicodedata.digit(digit)) for digit in number) for number in re.findall(r"\d+", line)}
    text = _AMOUNT.sub(lambda found: "" if not known or found[1] in numbers else found[0], text)
    return bool({found[0] for found in _PLACEHOLDER.finditer(text)} - known)


def is_protected(line: str, text: str, patterns: tuple[str, ...]) -> bool:
    """Whether each item of a line is in its translation as often. patterns: as decoding.keep."""
    wanted, found = (Counter(each[slice(*span)] for span in protected_spans(each, patterns)) for each in (line, text))
    return all(found[item] == count for item, count in wanted.items())
