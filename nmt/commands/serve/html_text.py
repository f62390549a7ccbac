"""The text of an HTML document or fragment, line by line for the translator, and its translation in the same markup.

Tags, attributes and comments stay as they are, character by character. A text that ends at block elements (`<p>`,
`<li>`, `<br>`, …) is a line. If elements such as `<b>` and `<a>` stand inside of it, each of its sentences is a line,
without them, and so is the text of each element. An element goes where the translation of its text, or its text as it
is, is found once in the translation of the sentence. If it is not, it goes around as large a part of that in the same
place: right less often, but the sentence is. One that is not translated (`<code>`) goes behind the sentence then.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape, unescape
from html.parser import HTMLParser
from itertools import accumulate
from typing import Literal

from nmt.data.sentences import UNSPACED, sentences

# Elements inside of a sentence. All others are ends of lines.
_INLINE = {
    *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins"),
    *("kbd", "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "time", "tt", "u"),
    "var",
}
_VOID = {
    *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr")
}
# Elements that LibreTranslate does not translate either, besides `translate="no"`.
_UNTRANSLATED = {"address", "applet", "audio", "canvas", "code", "embed", "script", "style", "time", "video"}
_WITH_LINE_BREAKS = {"pre", "textarea"}
_WHITE = " \t\n\r\f"  # HTML's white space, to which a no-break space does not belong
_SPACE = re.compile(f"[{_WHITE}]+")
_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_TAG, _REFERENCE = re.compile("<[^>]*>"), re.compile(r"&[^;\s]*;")
_LETTER = rf"[^\W{UNSPACED}]"  # or a digit, of a script with spaces between words
_WORD = re.compile(f"{_LETTER}+|[{UNSPACED}]")


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

    def _add_other(self, data: str) -> None:
        self._add("other")

    handle_comment = handle_pi = unknown_decl = _add_other

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """`<![` begins a comment in HTML, which ends at `>`. Python's own method raises AssertionError."""
        return self.parse_bogus_comment(i, report)


@dataclass(frozen=True)
class _Part:
    """A text, a tag, or (untranslated) an element in a sentence that is not translated, from its tag to its tag."""

    kind: Literal["text", "start", "end", "other", "untranslated"]
    html: str
    tag: str = ""

    @property
    def text(self) -> str:
        if self.kind not in ("text", "untranslated"):
            return ""
        return _SPACE.sub(" ", unescape(self.html if self.kind == "text" else _TAG.sub("", self.html)))


@dataclass(frozen=True)
class _Element:
    """The characters from start to stop of a sentence, and the tags around them. after: empty if the element is not
    translated; before has its text too then."""

    start: int
    stop: int
    before: str
    after: str


@dataclass(frozen=True)
class _Place:
    """Where an element stands in a translation."""

    start: int
    stop: int
    element: _Element

    def fits(self, other: "_Place") -> bool:
        """Whether it stands beside the other, or one in the other as in the source."""
        beside = self.stop <= other.start or other.stop <= self.start
        return beside or self._is_inside(other) or other._is_inside(self)

    def _is_inside(self, other: "_Place") -> bool:
        inner, outer = self.element, other.element
        was_inside = outer.start <= inner.start and inner.stop <= outer.stop
        return was_inside and other.start <= self.start and self.stop <= other.stop


class _Sentence:
    """Parts of a document whose text is a line, unless there is nothing to translate in it."""

    def __init__(self, parts: Sequence[_Part], lines: list[str]):
        """Adds its lines to `lines`."""
        self.html, self.numbers = "".join(part.html for part in parts), dict[str, int]()  # of its lines
        if not any(part.kind == "text" and _has_letter(part.text) for part in parts):
            return
        self._read(parts)
        texts = [self.text, *(self._own(one) for one in self.elements if one.after)]
        new = dict.fromkeys(filter(_has_letter, texts))
        self.numbers = {text: number for number, text in enumerate(new, len(lines))}
        lines += new

    def _own(self, element: _Element) -> str:
        return self.text[element.start : element.stop]

    def _read(self, parts: Sequence[_Part]) -> None:
        """Its text, its elements, the outer ones first, and what goes before and behind the text: white space, and tags
        without a text or without their other tag."""
        text, found, open_ = "", dict[int, _Element](), list[tuple[int, int]]()
        loose = {number: part.html for number, part in enumerate(parts) if part.kind != "text"}
        for number, part in enumerate(parts):
            start, added = len(text), part.text
            text += added.lstrip(" ") if text[-1:] in ("", " ") else added
            first = number
            if part.kind == "start":
                open_.append((number, start))
            elif part.kind == "end" and open_ and parts[open_[-1][0]].tag == part.tag:
                first, start = open_.pop()
            if (first < number or part.kind == "untranslated") and (own := text[start:].strip(" ")):
                stop = len(text.rstrip(" "))
                after = loose.pop(number) if first < number else ""
                found[first] = _Element(stop - len(own), stop, loose.pop(first), after)
        self.text, self.elements = text.rstrip(" "), [found[number] for number in sorted(found)]
        html = "".join(part.html for part in parts if part.text)
        begin = next(number for number, part in enumerate(parts) if part.text.strip(" "))
        self.before = html[: len(html) - len(html.lstrip(_WHITE))]
        self.before += "".join(tag for number, tag in loose.items() if number < begin)
        self.after = "".join(tag for number, tag in loose.items() if number > begin) + html[len(html.rstrip(_WHITE)) :]

    def translated(self, translations: Sequence[str]) -> str:
        if not self.numbers or (whole := translations[self.numbers[self.text]]) == self.text:
            return self.html
        places, words = dict[int, _Place](), [found.span() for found in _WORD.finditer(whole)]
        for certain in (True, False):
            for number, element in enumerate(self.elements):
                if number in places or not (certain or element.after):
                    continue
                found = self._found(element, whole, translations) if certain else self._likely(element, whole, words)
                if found and all(map(_Place(*found, element).fits, places.values())):
                    places[number] = _Place(*found, element)
        left = [(number, element) for number, element in enumerate(self.elements) if number not in places]
        places |= {number: _Place(0, len(whole), element) for number, element in left if element.after}
        behind = "".join(f" {element.before}" for _, element in left if not element.after)
        in_order = sorted(places.items(), key=lambda one: (one[1].start, -one[1].stop, one[0]))  # the outer ones first
        html, end, open_ = "", 0, list[_Place]()
        for place in [*(place for _, place in in_order), None]:
            while open_ and (place is None or open_[-1].stop <= place.start):
                closed = open_.pop()
                html += escape(whole[end : closed.stop], quote=False) + closed.element.after
                end = closed.stop
            if place:
                html += escape(whole[end : place.start], quote=False) + place.element.before
                end = place.start if place.element.after else place.stop
                open_.append(place)
        return self.before + html + escape(whole[end:], quote=False) + behind + self.after

    def _found(self, element: _Element, whole: str, translations: Sequence[str]) -> tuple[int, int] | None:
        """Where its text stands in the translation of the sentence: by its own translation, or as it is, as names do.
        None if that is not certain: it must stand there once, as whole words where it does so in the source, and where
        the script has spaces between them. Alone, it may begin with a capital letter and end with a full stop."""
        own = self._own(element)
        before = f"(?<!{_LETTER})" * (not re.match(_LETTER, self.text[element.start - 1 : element.start]))
        after = f"(?!{_LETTER})" * (not re.match(_LETTER, self.text[element.stop : element.stop + 1]))
        alone = [translations[self.numbers[own]]] if element.after and own in self.numbers else []
        for text in [*alone, own]:
            words = (text if own.endswith(".") else text.rstrip(".")).strip()
            if not words or words.lower() not in whole.lower():  # much faster than to search
                continue
            found = re.finditer(f"{before}{re.escape(words)}{after}", whole, re.IGNORECASE)
            if (first := next(found, None)) and not next(found, None):
                return first.span()
        return None

    def _likely(self, element: _Element, whole: str, words: list[tuple[int, int]]) -> tuple[int, int] | None:
        """As large a part of the translation, in the same place and in whole words; None if it has none."""
        if not words:
            return None
        scale = 2 * len(whole) / len(self.text)
        first, last = (bisect_left(words, place * scale, key=sum) for place in (element.start, element.stop))
        first = min(first, len(words) - 1)
        return words[first][0], words[max(first, last - 1)][1]


class HtmlText:
    """A document. lines: what is to be translated; a text without a letter is not. language: its code, if it is known,
    for the ends of sentences."""

    def __init__(self, html: str, language: str = ""):
        self.characters = len(html)
        self.lines: list[str] = []
        parts = (sentence for block in _blocks(html) for sentence in _cut(block, language))
        self._sentences = [_Sentence(sentence, self.lines) for sentence in parts]

    def join(self, translations: Sequence[str]) -> str:
        """The document with these translations of the lines. What is its own translation comes back as it was."""
        return "".join(sentence.translated(translations) for sentence in self._sentences)


def _blocks(html: str) -> Iterator[list[_Part]]:
    """What stands between two ends of lines. All parts together are the document."""
    open_elements = [("", True, True, False)]  # tag, translated, with elements in its sentences, with line breaks
    open_tags, block, tokens = Counter[str](), list[_Part](), _Tokens(html).found
    around = 0  # how many elements are open around one in a sentence that is not translated; 0: this is in none
    starts = [0, *(token.start for token in tokens[1:]), len(html)]
    for token, start, end in zip(tokens, starts, starts[1:], strict=False):
        _, translated, mixed, breaks = open_elements[-1]
        inline = mixed and (token.kind == "text" or (token.kind != "other" and token.tag in _INLINE))
        part = _Part(token.kind if translated or token.kind != "text" else "other", html[start:end], token.tag)
        if token.kind == "start" and token.tag not in _VOID:
            wanted = {"no": False, "yes": True, "": True}.get(token.translate, translated)
            inside, breaks = wanted and token.tag not in _UNTRANSLATED, breaks or token.tag in _WITH_LINE_BREAKS
            if inline and not inside and not around:
                around, part = len(open_elements), _Part("untranslated", "")
                block.append(part)
            open_elements.append((token.tag, inside, mixed if inline else inside and not breaks, breaks))
            open_tags[token.tag] += 1
        elif token.kind == "end" and open_tags[token.tag]:
            closed = ""
            while closed != token.tag:
                closed, *_ = open_elements.pop()
                open_tags[closed] -= 1
        if around and len(open_elements) >= around:
            block[-1] = replace(block[-1], html=block[-1].html + html[start:end])
            around = around if len(open_elements) > around else 0
            continue
        around = 0
        if not inline and block:
            yield block
            block = []
        if inline:
            block.append(part)
        elif breaks and part.kind == "text":
            yield from ([replace(part, html=line)] for line in _LINE_END.split(part.html))
        else:
            yield [part]
    yield block


def _cut(block: list[_Part], language: str) -> Iterator[list[_Part]]:
    """The sentences of a block; all of it if no tag is in it."""
    if len(block) < 2:
        yield block
        return
    text = "".join(  # a reference is letters here, as its semicolon could end a sentence
        _REFERENCE.sub(lambda found: "x" * len(found[0]), part.html) if part.kind == "text" else "x" * len(part.html)
        for part in block
        if part.kind in ("text", "untranslated")
    )
    lengths = map(len, sentences(text, language))
    sentence, left = list[_Part](), next(lengths, 0)
    for part in block:
        if not left and part.kind != "end":
            yield sentence
            sentence, left = [], next(lengths, 0)
        while part.kind == "text" and len(part.html) > left:
            yield [*sentence, replace(part, html=part.html[:left])]
            sentence, part, left = [], replace(part, html=part.html[left:]), next(lengths)
        sentence.append(part)
        left -= len(part.html) * (part.kind in ("text", "untranslated"))
    yield sentence


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))
