"""Codes of a document's format inside the text of a translation memory: which of them stand between two words.

TMX has `bpt`, `ept`, `it`, `ph` and `ut`, with `sub` in them. What they enclose is markup, such as `<br/>`, and no
text. Most codes are left out, for they may stand inside of a word. A code that breaks the line, or that stands for
white space, becomes a line break, which is then read as a space. `x`, of XLIFF, becomes a space between words, for
nothing tells what it stands for.
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
# What of HTML, of the files of word processors, and of RTF separates words.
_SEPARATORS = re.compile(
    r"</?(?:br|hr|p|div|li|ul|ol|td|th|tr|table|h[1-6]|(?:w|a):br|w:cr|w:tab|w:p|text:(?:line-break|tab|s|p))(?=[\s/>])"
    r"|\\(?:line|par|page|column|tab|cell|row)(?![a-z])",
    re.IGNORECASE,
)
_WHITE_SPACE = re.compile(r"(?:\s|\\[nrt])+")  # `\n` as in the strings of a program
_ATTRIBUTES_OF_TYPE, _ATTRIBUTES_OF_TEXT = ("type", "ctype"), ("equiv-text", "equiv")


class InlineCode:
    """An element of a document's format, with all that it encloses."""

    def __init__(self, name: str, attributes: Mapping[str, str]) -> None:
        self._name, self._attributes, self._text, self._inside = name, attributes, list[str](), 1

    def start(self) -> None:
        """An element begins inside of it."""
        self._inside += 1

    def end(self) -> bool:
        """An element ends; returns whether it is the code itself."""
        self._inside -= 1
        return not self._inside

    def add(self, text: str) -> None:
        """Text that the code encloses; that of elements in it, such as a footnote in `sub`, is not its own."""
        if self._inside == 1:
            self._text.append(text)

    def replacement(self) -> str:
        """What the text has in place of the code; see `joined`."""
        given = self._attributes
        types = tuple(given[name] for name in _ATTRIBUTES_OF_TYPE if name in given)
        texts = ("".join(self._text), *(given[name] for name in _ATTRIBUTES_OF_TEXT if name in given))
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
