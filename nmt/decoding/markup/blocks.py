"""The text and the tags of a document or fragment in HTML or XML, cut into blocks and their sentences.

A block ends at elements such as `<p>`, `<li>` and `<br>`. Elements such as `<b>` and `<a>` stand inside of it, and so
do all elements of XML. Concatenated, the parts are the document, character by character.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from html import unescape
from html.entities import html5
from html.parser import HTMLParser
from itertools import accumulate
from typing import Literal

from nmt.data.subwords.sentences import sentences

Markup = Literal["html", "xml"]
WHITE = " \t\n\r\f"  # HTML's white space, to which a no-break space does not belong


@dataclass(frozen=True)
class MarkupRules:
    """inline: the elements inside of a sentence, None for all; the others are ends of lines. void: those without an end
    tag. untranslated: besides those with `translate="no"` or `class="notranslate"`. with_line_breaks: those in which
    they end a line. attributes: those whose values are translated."""

    inline: Set[str] | None = None
    void: Set[str] = frozenset()
    untranslated: Set[str] = frozenset()
    with_line_breaks: Set[str] = frozenset()
    attributes: Set[str] = frozenset()

    def is_inline(self, tag: str) -> bool:
        return self.inline is None or tag in self.inline or tag.startswith(_ALWAYS_INLINE)


_ALWAYS_INLINE = ("nmt", "!")  # tags that stand for codes of templates, and comments that begin an element
_INLINE = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span strike",
    "strong sub sup time tt u var wbr",
)
_VOID = "area base br col embed hr img input link meta param source track wbr"
_UNTRANSLATED = (
    "address applet audio canvas code embed script style time video",  # as LibreTranslate has them
    "kbd math samp var",
)
_HTML = MarkupRules(
    inline=frozenset(" ".join(_INLINE).split()),
    void=frozenset(_VOID.split()),
    untranslated=frozenset(" ".join(_UNTRANSLATED).split()),
    with_line_breaks=frozenset({"pre", "textarea"}),
    attributes=frozenset({"alt", "aria-label", "placeholder", "title"}),
)
RULES: Mapping[Markup, MarkupRules] = {"html": _HTML, "xml": MarkupRules()}
_SPACE = re.compile(f"[{WHITE}]+")
_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
_TAG, _REFERENCE = re.compile("<[^>]*>"), re.compile(r"&[^&;\s]*;")
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*\[.*?\]\s*>", re.DOTALL)  # with entities of its own
_KNOCKOUT = re.compile(r"\s*(/?)ko\b")  # comments around a part of a page


@dataclass(frozen=True)
class _Token:
    kind: Literal["text", "start", "end", "other"]
    start: int  # its first character
    tag: str = ""
    translate: str = "inherit"  # this attribute


class _Tokens(HTMLParser):
    """The parts of a document, in the order of their first characters: each ends where the next begins."""

    def __init__(self, html: str, *, in_xml: bool):
        super().__init__()
        self._in_xml, self._has_doctype = in_xml, False
        if in_xml:  # in HTML what stands in `<script>` and the like is no markup
            self.CDATA_CONTENT_ELEMENTS = self.RCDATA_CONTENT_ELEMENTS = ()  # type: ignore[misc]
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
        translate = (named.get("translate", "inherit") or "").lower()
        if "notranslate" in (named.get("class") or "").split():  # as pages of before that attribute say it
            translate = "no"
        self._add("start", tag, translate)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("other", tag)

    def handle_data(self, data: str) -> None:
        self._add_text(self._place())

    def handle_comment(self, data: str) -> None:
        if found := _KNOCKOUT.match(data):
            self._add("end" if found[1] else "start", "!ko")
        else:
            self._add("other")

    def _add_other(self, data: str) -> None:
        self._add("other")

    handle_pi = unknown_decl = _add_other

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def parse_html_declaration(self, i: int) -> int:
        """Python's own method ends a DOCTYPE at the first `>`. A document has at most one."""
        if self._in_xml and not self._has_doctype and self.rawdata.startswith("<!DOCTYPE", i):
            self._has_doctype = True
            if doctype := _DOCTYPE.match(self.rawdata, i):
                self._add("other")
                return doctype.end()
        return super().parse_html_declaration(i)

    def parse_comment(self, i: int, report: bool = True) -> int:
        """A comment without an end goes on up to the end of the document, as in browsers. Python's own method looks for
        the end again at each comment that follows."""
        if self.rawdata.find("--", i + 4) >= 0 and (end := super().parse_comment(i, report)) >= 0:
            return end
        self._add("other")
        return len(self.rawdata)

    def parse_pi(self, i: int) -> int:
        """Python's own method ends it at the first `>`, as HTML says; in XML and PHP it ends at `?>`."""
        if not self._in_xml and not self.rawdata.startswith(("<?php", "<?="), i):
            return super().parse_pi(i)
        self._add("other")
        end = self.rawdata.find("?>", i)
        return len(self.rawdata) if end < 0 else end + 2

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """`<![` begins a comment in HTML, which ends at `>`; in XML it is text that is not translated, up to `]]>`.
        Python's own method raises AssertionError."""
        if not self._in_xml:
            return self.parse_bogus_comment(i, report)
        self._add("other")
        end = self.rawdata.find("]]>", i)
        return len(self.rawdata) if end < 0 else end + 3


@dataclass(frozen=True)
class MarkupPart:
    """A text, a tag, or (untranslated) what in a sentence is not translated: an element from its tag to its tag, or a
    reference to an entity of the document's own. has_attributes: whether those of a tag can be translated."""

    kind: Literal["text", "start", "end", "other", "untranslated"]
    html: str
    tag: str = ""
    has_attributes: bool = False

    @property
    def text(self) -> str:
        if self.kind not in ("text", "untranslated"):
            return ""
        if self.kind == "text":
            return line_of(self.html)
        end = self.html.rfind(">") + 1  # behind it no tag ends: each `<` would look for its end
        return line_of(_TAG.sub("", self.html[:end]) + self.html[end:])


def line_of(html: str) -> str:
    """A text without tags, as a line: without references, and with single spaces."""
    return _SPACE.sub(" ", unescape(html))


def parts_of_sentences(document: str, markup: Markup, language: str = "") -> Iterator[list[MarkupPart]]:
    """The sentences of each block, or all of it if no tag is in it; and whatever is between blocks. language: its code,
    if it is known, for the ends of sentences."""
    for block in _blocks(document, RULES[markup]):
        yield from _cut(block, language)


def _blocks(html: str, rules: MarkupRules) -> Iterator[list[MarkupPart]]:
    """What stands between two ends of lines. All parts together are the document."""
    open_elements = [("", True, True, False)]  # tag, translated, with elements in its sentences, with line breaks
    open_tags, block, tokens = Counter[str](), list[MarkupPart](), _Tokens(html, in_xml=rules.inline is None).found
    around = 0  # how many elements are open around one in a sentence that is not translated; 0: this is in none
    inside = list[str]()  # what stands in that one
    starts = [0, *(token.start for token in tokens[1:]), len(html)]
    for token, start, end in zip(tokens, starts, starts[1:], strict=False):
        _, translated, mixed, breaks = open_elements[-1]
        inline = mixed and (not token.tag or rules.is_inline(token.tag))  # text and comments have no tag
        is_alone = token.kind == "start" and token.tag in rules.void
        kind = "other" if is_alone or (token.kind == "text" and not translated) else token.kind
        wanted = {"no": False, "yes": True, "": True}.get(token.translate, translated)
        has_attributes = wanted and token.tag != "" and kind != "end" and not token.tag.startswith("!")
        part = MarkupPart(kind, html[start:end], token.tag, has_attributes)
        if kind == "start":
            is_read, breaks = (
                wanted and token.tag not in rules.untranslated,
                breaks or token.tag in rules.with_line_breaks,
            )
            if inline and not is_read and not around:
                around, inside = len(open_elements), []
            open_elements.append((token.tag, is_read, mixed if inline else is_read and not breaks, breaks))
            open_tags[token.tag] += 1
        elif token.kind == "end" and open_tags[token.tag]:
            closed = ""
            while closed != token.tag:
                closed, *_ = open_elements.pop()
                open_tags[closed] -= 1
        if around and len(open_elements) >= around:
            inside.append(html[start:end])
            if len(open_elements) == around:
                block.append(MarkupPart("untranslated", "".join(inside)))
                around = 0
            continue
        if around:  # ended by the end of an element around it
            block.append(MarkupPart("untranslated", "".join(inside)))
        around = 0
        if not inline and block:
            yield block
            block = []
        if inline:
            block += _without_own_entities(part)
        elif breaks and part.kind == "text":
            lines = (replace(part, html=line) for line in _LINE_END.split(part.html))
            yield from (list(_without_own_entities(line)) for line in lines)
        else:
            yield [part]
    yield [*block, MarkupPart("untranslated", "".join(inside))] if around else block


def _without_own_entities(part: MarkupPart) -> Iterator[MarkupPart]:
    """A part; a text in pieces, where a reference to an entity that HTML does not have is one of them."""
    end = 0
    for found in _REFERENCE.finditer(part.html) if part.kind == "text" and "&" in part.html else ():
        if found[0].startswith("&#") or found[0][1:] in html5:
            continue
        if found.start() > end:
            yield replace(part, html=part.html[end : found.start()])
        yield MarkupPart("untranslated", found[0])
        end = found.end()
    if end < len(part.html) or not end:
        yield replace(part, html=part.html[end:])


def _cut(block: Sequence[MarkupPart], language: str) -> Iterator[list[MarkupPart]]:
    """The sentences of a block; all of it if no tag is in it."""
    if len(block) < 2:
        yield list(block)
        return
    text = "".join(  # a reference is letters here, as its semicolon could end a sentence
        _REFERENCE.sub(lambda found: "x" * len(found[0]), part.html) if part.kind == "text" else "x" * len(part.html)
        for part in block
        if part.kind in ("text", "untranslated")
    )
    lengths = map(len, sentences(text, language))
    sentence, left = list[MarkupPart](), next(lengths, 0)
    for part in block:
        if not left and part.kind != "end":
            yield sentence
            sentence, left = [], next(lengths, 0)
        start = 0  # of what is left of the part
        while part.kind == "text" and len(part.html) - start > left:
            yield [*sentence, replace(part, html=part.html[start : start + left])]
            sentence, start, left = [], start + left, next(lengths)
        sentence.append(replace(part, html=part.html[start:]) if start else part)
        left -= (len(part.html) - start) * (part.kind in ("text", "untranslated"))
    yield sentence
