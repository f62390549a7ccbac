"""The text of an HTML document or fragment, line by line for the translator, and its translation in the same markup.

Tags, attributes and comments stay as they are, character by character. A text that ends at block elements (`<p>`,
`<li>`, `<br>`, …) is a line. If elements such as `<b>` and `<a>` stand inside of it, it is translated without them, and
so is the text of each. An element goes where the translation of its text, or its text as it is, is found once in the
translation of the whole; if one is not found, the texts between the tags are translated one by one.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape, unescape
from html.parser import HTMLParser
from itertools import accumulate, groupby
from typing import Literal

from nmt.data.sentences import UNSPACED

# Elements inside of a sentence. All others are ends of lines.
_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins"),
    *("kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u"),
    "var",
}
_VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"),
}
# Elements that LibreTranslate does not translate either, besides `translate="no"`.
_UNTRANSLATED = {"address", "applet", "audio", "canvas", "code", "embed", "script", "style", "time", "video"}
_WITH_LINE_BREAKS = {"pre", "textarea"}
_WHITE = " \t\n\r\f"  # HTML's white space, to which a no-break space does not belong
_SPACE = re.compile(f"[{_WHITE}]+")
_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_LETTER = rf"[^\W{UNSPACED}]"  # or a digit, of a script with spaces between words


@dataclass(frozen=True)
class _Token:
    kind: Literal["text", "start", "end", "other"]
    start: int  # its first character
    tag: str = ""
    translate: str = "inherit"  # this attribute


class _Tokens(HTMLParser):
    """The parts of a document, in the order of their first characters: each ends where the next begins."""

    def __init__(self, html: str):
        super().__init__()
        self.found: list[_Token] = []
        self._lines = [0, *accumulate(len(line) + 1 for line in html.split("\n"))]
        end = html.rfind(">") + 1
        self.feed(html[:end])
        self.close()
        if end < len(html):  # no tag ends here: the parser would look for its end again at each `<`
            self._add_text(end)

    def _add_text(self, start: int) -> None:
        if not self.found or self.found[-1].kind != "text":  # the parser gives a text with `<` or `&` in pieces
            self.found.append(_Token("text", start))

    def _place(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _add(self, kind: Literal["start", "end", "other"], tag: str = "", translate: str = "inherit") -> None:
        self.found.append(_Token(kind, self._place(), tag, translate))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self._add("start", tag, (named.get("translate", "inherit") or "").lower())

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("other", tag)

    def handle_data(self, data: str) -> None:
        self._add_text(self._place())

    def handle_comment(self, data: str) -> None:
        self._add("other")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")


@dataclass
class _Text:
    """A text between tags. line: its number among the lines; None: it is not translated."""

    html: str
    line: int | None = None

    def __post_init__(self) -> None:
        core = self.html.strip(_WHITE)
        self.before, _, self.after = self.html.partition(core) if core else (self.html, "", self.html)
        self.text = _SPACE.sub(" ", unescape(core))

    def place_in(self, whole: str, translations: Sequence[str]) -> tuple[int, int] | None:
        """Where the text stands in the translation of its sentence: by its own translation, or as it is, as names do.
        None if that is not certain."""
        own = [] if self.line is None else [translations[self.line]]
        places = (_only_place(text, self.text, whole) for text in [*own, self.text])
        return next((place for place in places if place), None)

    def translated(self, translations: Sequence[str]) -> str:
        if self.line is None:
            return self.html
        return self.before + escape(translations[self.line], quote=False) + self.after


@dataclass
class _Element:
    """One text with the tags around it; without any where it stands in no element of its sentence."""

    before: str
    text: _Text
    after: str


@dataclass
class _Sentence:
    """What stands between two ends of lines. line: the number of the line of all texts; None: the texts have their own
    lines only."""

    parts: list[str | _Text]
    elements: list[_Element] = field(default_factory=list)
    line: int | None = None

    def translated(self, translations: Sequence[str]) -> str:
        if self.line is not None and (placed := self._placed(translations[self.line], translations)) is not None:
            return placed
        return "".join(part if isinstance(part, str) else part.translated(translations) for part in self.parts)

    def _placed(self, whole: str, translations: Sequence[str]) -> str | None:
        """The translation of the whole with each element around its part; None if a part is not found."""
        places = list[tuple[int, int, _Element]]()
        for element in self.elements:
            if element.before:
                found = element.text.place_in(whole, translations)
                if found is None:
                    return None
                places.append((*found, element))
        places.sort(key=lambda place: place[:2])
        html, end = self.elements[0].text.before, 0
        for start, stop, element in places:
            if start < end:
                return None
            html += escape(whole[end:start], quote=False)
            text = element.text.html if element.text.line is None else escape(whole[start:stop], quote=False)
            html += element.before + text + element.after
            end = stop
        return html + escape(whole[end:], quote=False) + self.elements[-1].text.after


class HtmlText:
    """A document. lines: what is to be translated; a text without a letter is not."""

    def __init__(self, html: str):
        self.characters = len(html)
        self.lines: list[str] = []
        self._sentences = [self._numbered(parts, breaks) for parts, breaks in _sentences(html)]

    def join(self, translations: Sequence[str]) -> str:
        """The document with these translations of the lines."""
        return "".join(sentence.translated(translations) for sentence in self._sentences)

    def _numbered(self, parts: list["_Part"], breaks: bool) -> _Sentence:
        """A sentence whose texts have their lines. breaks: a line break in it is the end of a line."""
        found = list[str | _Text]()
        for part in parts:
            if part.kind != "text":
                found.append(part.html)
                continue
            for html in _LINE_END.split(part.html) if breaks else [part.html]:
                text = _Text(html)
                if part.translated and any(map(str.isalpha, text.text)):
                    text.line = self._add(text.text)
                found.append(text)
        sentence = _Sentence(found)
        elements = [] if breaks else _elements(parts, found)
        if any(one.before for one in elements) and any(
            one.text.line is not None and not one.before for one in elements
        ):
            sentence.elements = elements
            spaced = "".join(one.text.before + one.text.text + one.text.after for one in elements)
            sentence.line = self._add(_SPACE.sub(" ", spaced).strip(" "))
        return sentence

    def _add(self, line: str) -> int:
        self.lines.append(line)
        return len(self.lines) - 1


@dataclass(frozen=True)
class _Part:
    kind: Literal["text", "start", "end", "other"]
    html: str
    translated: bool


def _sentences(html: str) -> list[tuple[list[_Part], bool]]:
    """The parts of each sentence, and whether line breaks end lines in it. All parts together are the document."""
    keyed: list[tuple[int, bool, _Part]] = []  # with the number of the sentence
    open_elements, open_tags = list[tuple[str, bool, bool]](), Counter[str]()  # tag, translated, with line breaks
    tokens, number = _Tokens(html).found, 0
    starts = [0, *(token.start for token in tokens[1:]), len(html)]
    for token, start, end in zip(tokens, starts, starts[1:], strict=False):
        inline = token.kind == "text" or (token.kind != "other" and token.tag in _INLINE)
        number += not inline
        _, translated, breaks = open_elements[-1] if open_elements else ("", True, False)
        keyed.append((number, breaks, _Part(token.kind, html[start:end], translated)))
        number += not inline
        if token.kind == "start" and token.tag not in _VOID:
            wanted = {"no": False, "yes": True, "": True}.get(token.translate, translated)
            inside = wanted and token.tag not in _UNTRANSLATED
            open_elements.append((token.tag, inside, breaks or token.tag in _WITH_LINE_BREAKS))
            open_tags[token.tag] += 1
        elif token.kind == "end" and open_tags[token.tag]:
            closed = ""
            while closed != token.tag:
                closed, *_ = open_elements.pop()
                open_tags[closed] -= 1
    groups = (list(group) for _, group in groupby(keyed, key=lambda one: one[0]))
    return [([part for *_, part in group], group[0][1]) for group in groups]


def _elements(parts: list[_Part], found: list[str | _Text]) -> list[_Element]:
    """The texts of a sentence with the tags around each; none if an element has no text or more than one."""
    elements, before, depth = list[_Element](), "", 0
    for part, text in zip(parts, found, strict=True):
        if part.kind == "start":
            if depth and not before:  # a second text or element in this one
                return []
            before, depth = before + part.html, depth + 1
        elif isinstance(text, _Text):
            if depth and not before:
                return []
            elements.append(_Element(before, text, ""))
            before = ""
        elif part.kind == "end":
            if before or not depth:  # no text, or no start
                return []
            elements[-1].after += part.html
            depth -= 1
        else:
            return []
    return [] if depth or any(one.before and not one.text.text for one in elements) else elements


def _only_place(translation: str, source: str, whole: str) -> tuple[int, int] | None:
    """Where a translation of a part of a sentence stands in that of the whole; None unless it stands there once, as
    whole words where the script has spaces between them. The part may begin with a capital letter and end with a full
    stop, as it was translated alone."""
    if not source.endswith("."):
        translation = translation.rstrip(".")
    words = re.escape(translation.strip())
    found = (
        [match.span() for match in re.finditer(rf"(?<!{_LETTER}){words}(?!{_LETTER})", whole, re.IGNORECASE)]
        if words
        else []
    )
    return found[0] if len(found) == 1 else None
