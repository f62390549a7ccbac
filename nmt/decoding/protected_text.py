"""Finds protected text, which matches the patterns of decoding.keep, in lines and in their translations.

The pattern `verbatim` matches URLs, e-mail addresses, tags, and the placeholders of common frameworks, except those
that also occur in prose. In scripts without spaces between words, letters can follow them immediately.
"""

import re
import unicodedata
from collections import Counter
from functools import cache

from nmt.config.unspaced_scripts import HANGUL, UNSPACED
from nmt.data.subwords.copied_items import TAG

_UNSPACED = UNSPACED + HANGUL
_LETTER = rf"[^\W{_UNSPACED}]"  # or a digit, or `_`

# A URL: the characters that it can end with, and the rest. It contains brackets and braces only in pairs.
_URL_CHARACTER = rf"""[^\s<>"'“”„«»‘’.,;:!?…،؛؟।()\[\]{{}}{_UNSPACED}]"""
_IN_BRACKETS = rf"[^\s()\[\]<>{_UNSPACED}]{{0,200}}"
_IN_BRACES = r"\{[^{}]{0,80}\}|[^\s{}]{0,80}"
_URL_PARTS = rf"{_URL_CHARACTER}|\({_IN_BRACKETS}\)|\[{_IN_BRACKETS}\]|\{{(?:{_IN_BRACES})\}}"
_URL = rf"(?i:(?:https?|ftps?|sftp)://|(?<![a-z0-9.])(?:www\.|mailto:))(?:[.,;:!?…]*(?:{_URL_PARTS}))+"
_ASCII_DOMAIN = r"(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z0-9]{2,63}(?![A-Za-z0-9À-ɏ])"  # other scripts can follow it
_DOMAIN = rf"(?:{_LETTER}|-){{1,63}}(?:\.(?:{_LETTER}|-){{1,63}})+"
_EMAIL = rf"{_LETTER}(?:{_LETTER}|[.+-]){{0,63}}@(?:{_ASCII_DOMAIN}|{_DOMAIN})"

# printf, in C and other languages. A hyphen without a width belongs to a word: `50 %-iger`.
_FLAGS = r"(?:-(?=[\d*])|[+#0,]|'(?:[^\s\w%](?=-?\d))?){0,5}"  # PHP pads with the character after an apostrophe
_WIDTHS = r"(?:\d{1,9}|\*(?:\d{1,2}\$)?)?(?:\.(?:\d{1,9}|\*(?:\d{1,2}\$)?)?)?"
CONVERSION = rf"{_FLAGS}{_WIDTHS}(?:hh|h|ll|l|L|j|z|t|q)?[diouxXeEfFgGcCsSprn@]"  # after `%` or `%1$`
# Rare conversions, or those of some languages only (Go, Java). After a number, `%` is a percent sign.
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
    """One pattern for decoding.keep: regular expressions, or `verbatim`. Without any, it matches only empty text."""
    return re.compile("|".join(f"(?:{_VERBATIM if name == 'verbatim' else name})" for name in patterns))


def protected_spans(line: str, patterns: tuple[str, ...]) -> list[tuple[int, int]]:
    """The start and end of each protected text in a line. patterns: as decoding.keep."""
    return [match.span() for match in protected_pattern(patterns).finditer(line) if match[0]]


def has_invented(line: str, text: str) -> bool:
    """Whether a translation has a placeholder, such as `%s`, `{0}` or `$1`, that the line does not have. An amount
    whose number is in the line is no placeholder: `50 %` is `%50` in Turkish. Nor is an amount in the translation of a
    line without placeholders: `five percent` is `%5`."""
    placeholders = {match[0] for match in _PLACEHOLDER.finditer(line)}
    numbers = {"".join(str(unicodedata.digit(digit)) for digit in number) for number in re.findall(r"\d+", line)}
    text = _AMOUNT.sub(lambda match: "" if not placeholders or match[1] in numbers else match[0], text)
    return bool({match[0] for match in _PLACEHOLDER.finditer(text)} - placeholders)


def is_protected(line: str, text: str, patterns: tuple[str, ...]) -> bool:
    """Whether each protected text of a line occurs equally often in its translation. patterns: as decoding.keep."""
    in_line, in_text = _protected_counts(line, patterns), _protected_counts(text, patterns)
    return all(in_text[protected] == count for protected, count in in_line.items())


def _protected_counts(text: str, patterns: tuple[str, ...]) -> Counter[str]:
    return Counter(text[start:stop] for start, stop in protected_spans(text, patterns))
