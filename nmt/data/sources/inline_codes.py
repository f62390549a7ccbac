"""Codes of a document's format inside the text of a translation memory: which of them separate words.

TMX has `bpt`, `ept`, `it`, `ph` and `ut`, with `sub` in them. They enclose markup, such as `<br/>`, and not text. Most
codes are left out, because they may be inside a word. A code for a line break or white space becomes a line break,
which is then read as a space. `x`, of XLIFF, becomes a space between words, because its meaning is unknown.
"""

import html
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

NAMES = {"bpt", "ept", "it", "ph", "sub", "ut"}
PLACEHOLDER = "x"

_BREAK = "\n"
_UNKNOWN = "\0"  # which XML cannot hold
_BETWEEN_WORDS = re.compile(r"(?<=[\w.,:;!?…)»”])\0+(?=\w)")
# Types of codes: line, page and column breaks in the specification, and what tools call them.
_TYPES = {"lb", "pb", "cb", "br", "linebreak", "newline", "pagebreak", "columnbreak", "softreturn", "tab", "space"}
# Markup of HTML, of word processor files and of RTF that separates words.
_SEPARATORS = re.compile(
    r"</?(?:br|hr|p|div|li|ul|ol|td|th|tr|table|h[1-6]|(?:w|a):br|w:cr|w:tab|w:p|text:(?:line-break|tab|s|p))(?=[\s/>])"
    r"|\\(?:line|par|page|column|tab|cell|row)(?![a-z])",
    re.IGNORECASE,
)
_WHITE_SPACE = re.compile(r"(?:\s|\\[nrt])+")  # `\n` as in the strings of a program
_ATTRIBUTES_OF_TYPE, _ATTRIBUTES_OF_TEXT = ("type", "ctype"), ("equiv-text", "equiv")


class InlineCode:
    """An element of a document's format, with all its content."""

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self._name, self._attributes, self._text, self._inside = name, attributes, list[str](), 1

    def start(self) -> None:
        """An element begins inside this one."""
        self._inside += 1

    def end(self) -> bool:
        """An element ends. Returns whether it is this one."""
        self._inside -= 1
        return not self._inside

    def add(self, text: str) -> None:
        """Add text that the code encloses. Text of elements inside it, such as a footnote in `sub`, is ignored."""
        if self._inside == 1:
            self._text.append(text)

    def replacement(self) -> str:
        """The text that replaces the code; see `joined`."""
        attributes = self._attributes
        types = tuple(attributes[name] for name in _ATTRIBUTES_OF_TYPE if name in attributes)
        texts = ("".join(self._text), *(attributes[name] for name in _ATTRIBUTES_OF_TEXT if name in attributes))
        if _is_between_words(types, texts):
            return _BREAK
        return _UNKNOWN if self._name == PLACEHOLDER else ""


@lru_cache  # most codes of a file are alike
def _is_between_words(types: tuple[str, ...], texts: tuple[str, ...]) -> bool:
    return any(map(_is_break, types)) or any(map(_separates, texts))


def _is_break(kind: str) -> bool:
    return re.sub("[^a-z]", "", kind.lower().removeprefix("x-")) in _TYPES


def _separates(markup: str) -> bool:
    if not markup:
        return False
    markup = html.unescape(markup)
    return bool(_SEPARATORS.search(markup) or _WHITE_SPACE.fullmatch(markup))


def joined(parts: Sequence[str]) -> str:
    """The text of a segment from its parts, with a space for each unknown code between words."""
    text = "".join(parts)
    return _BETWEEN_WORDS.sub(" ", text).replace(_UNKNOWN, "") if _UNKNOWN in text else text
