"""Splits the text and the tags of a document or fragment in HTML or XML into blocks and their sentences.

A block ends at elements such as `<p>`, `<li>` and `<br>`. Inline elements, such as `<b>`, `<a>` and all elements of
XML, are inside a block. The concatenated parts are the document, character by character.
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
    """inline: elements inside a sentence, None for all; other elements end a line. void: elements without an end tag.
    untranslated: elements that are not translated, in addition to those with `translate="no"` or
    `class="notranslate"`. with_line_breaks: elements in which a line break ends a line. attributes: those whose values
    are translated."""

    inline: Set[str] | None = None
    void: Set[str] = frozenset()
    untranslated: Set[str] = frozenset()
    with_line_breaks: Set[str] = frozenset()
    attributes: Set[str] = frozenset()

    def is_inline(self, tag: str) -> bool:
        return self.inline is None or tag in self.inline or tag.startswith(_ALWAYS_INLINE)


_ALWAYS_INLINE = ("nmt", "!")  # tags in place of template codes, and comments that begin an element
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
_DOCTYPE = re.compile(r"<!DOCTYPE[^\[>]*\[.*?\]\s*>", re.DOTALL)  # with its own entities
_KNOCKOUT = re.compile(r"\s*(/?)ko\b")  # comments around a part of a page


@dataclass(frozen=True)
class _Token:
    kind: Literal["text", "start", "end", "other"]
    start: int  # position of its first character
    tag: str = ""
    translate: str = "inherit"  # the value of this attribute


class _Tokens(HTMLParser):
    """The tokens of a document, in order. Each token ends where the next one begins."""

    def __init__(self, html: str, *, in_xml: bool):
        super().__init__()
        self._in_xml, self._has_doctype = in_xml, False
        if in_xml:  # in HTML the contents of `<script>` and similar elements are no markup
            self.CDATA_CONTENT_ELEMENTS = self.RCDATA_CONTENT_ELEMENTS = ()  # type: ignore[misc]
        self.tokens: list[_Token] = []
        self._lines = [0, *accumulate(len(line) + 1 for line in html.split("\n"))]
        end = html.rfind(">") + 1
        self.feed(html[:end])
        self.close()
        if end < len(html):  # no tag ends after this: the parser would search for an end at each `<`
            self._add_text(end)

    def _add_text(self, start: int) -> None:
        if not self.tokens or self.tokens[-1].kind != "text":  # the parser splits a text at `<` or `&`
            self.tokens.append(_Token("text", start))

    def _position(self) -> int:
        line, column = self.getpos()
        return self._lines[line - 1] + column

    def _add(self, kind: Literal["start", "end", "other"], tag: str = "", translate: str = "inherit") -> None:
        self.tokens.append(_Token(kind, self._position(), tag, translate))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        translate = (attributes.get("translate", "inherit") or "").lower()
        if "notranslate" in (attributes.get("class") or "").split():  # in pages that are older than `translate`
            translate = "no"
        self._add("start", tag, translate)

    def handle_endtag(self, tag: str) -> None:
        self._add("end", tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("other", tag)

    def handle_data(self, data: str) -> None:
        self._add_text(self._position())

    def handle_comment(self, data: str) -> None:
        if match := _KNOCKOUT.match(data):
            self._add("end" if match[1] else "start", "!ko")
        else:
            self._add("other")

    def _add_other(self, data: str) -> None:
        self._add("other")

    handle_pi = unknown_decl = _add_other

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def parse_html_declaration(self, i: int) -> int:
        """Python's method ends a DOCTYPE at the first `>`. A document has at most one DOCTYPE."""
        if self._in_xml and not self._has_doctype and self.rawdata.startswith("<!DOCTYPE", i):
            self._has_doctype = True
            if doctype := _DOCTYPE.match(self.rawdata, i):
                self._add("other")
                return doctype.end()
        return super().parse_html_declaration(i)

    def parse_comment(self, i: int, report: bool = True) -> int:
        """A comment without an end continues to the end of the document, as in browsers. Python's method searches for
        the end again at each following comment."""
        if self.rawdata.find("--", i + 4) >= 0 and (end := super().parse_comment(i, report)) >= 0:
            return end
        self._add("other")
        return len(self.rawdata)

    def parse_pi(self, i: int) -> int:
        """Python's method ends a processing instruction at the first `>`, as in HTML. In XML and PHP it ends at
        `?>`."""
        if not self._in_xml and not self.rawdata.startswith(("<?php", "<?="), i):
            return super().parse_pi(i)
        self._add("other")
        end = self.rawdata.find("?>", i)
        return len(self.rawdata) if end < 0 else end + 2

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """`<![` begins a comment in HTML, which ends at `>`. In XML it begins text that is not translated, up to `]]>`.
        Python's method raises AssertionError."""
        if not self._in_xml:
            return self.parse_bogus_comment(i, report)
        self._add("other")
        end = self.rawdata.find("]]>", i)
        return len(self.rawdata) if end < 0 else end + 3


@dataclass(frozen=True)
class MarkupPart:
    """A text, a tag, or an untranslated part of a sentence: an element with its tags, or a reference to an entity that
    the document defines. has_attributes: whether the attributes of a tag can be translated."""

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
        end = self.html.rfind(">") + 1  # no tag ends after this: the pattern would search for an end at each `<`
        return line_of(_TAG.sub("", self.html[:end]) + self.html[end:])


def line_of(html: str) -> str:
    """A text without tags as a line: references are replaced by their characters, white space by single spaces."""
    return _SPACE.sub(" ", unescape(html))


def parts_of_sentences(document: str, markup: Markup, language: str = "") -> Iterator[list[MarkupPart]]:
    """The sentences of each block, and the parts between blocks. A block without tags is not split. language: its code,
    if it is known, to find the ends of sentences."""
    for block in _blocks(document, RULES[markup]):
        yield from _sentences(block, language)


def _blocks(html: str, rules: MarkupRules) -> Iterator[list[MarkupPart]]:
    """The parts between two ends of lines. All parts together are the document."""
    # Each: tag, whether it is translated, whether its sentences have elements, whether it has line breaks.
    open_elements = [("", True, True, False)]
    open_tags, block, tokens = Counter[str](), list[MarkupPart](), _Tokens(html, in_xml=rules.inline is None).tokens
    depth = 0  # number of elements around an untranslated element of a sentence; 0: the part is not in such an element
    inside = list[str]()  # the contents of that element
    starts = [0, *(token.start for token in tokens[1:]), len(html)]
    for token, start, end in zip(tokens, starts, starts[1:], strict=False):
        _, translated, mixed, breaks = open_elements[-1]
        inline = mixed and (not token.tag or rules.is_inline(token.tag))  # text and comments have no tag
        is_alone = token.kind == "start" and token.tag in rules.void
        kind = "other" if is_alone or (token.kind == "text" and not translated) else token.kind
        is_translated = {"no": False, "yes": True, "": True}.get(token.translate, translated)
        has_attributes = is_translated and token.tag != "" and kind != "end" and not token.tag.startswith("!")
        part = MarkupPart(kind, html[start:end], token.tag, has_attributes)
        if kind == "start":
            is_read = is_translated and token.tag not in rules.untranslated
            breaks = breaks or token.tag in rules.with_line_breaks
            if inline and not is_read and not depth:
                depth, inside = len(open_elements), []
            open_elements.append((token.tag, is_read, mixed if inline else is_read and not breaks, breaks))
            open_tags[token.tag] += 1
        elif token.kind == "end" and open_tags[token.tag]:
            closed = ""
            while closed != token.tag:
                closed, *_ = open_elements.pop()
                open_tags[closed] -= 1
        if depth and len(open_elements) >= depth:
            inside.append(html[start:end])
            if len(open_elements) == depth:
                block.append(MarkupPart("untranslated", "".join(inside)))
                depth = 0
            continue
        if depth:  # ended by the end of an element around it
            block.append(MarkupPart("untranslated", "".join(inside)))
        depth = 0
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
    yield [*block, MarkupPart("untranslated", "".join(inside))] if depth else block


def _without_own_entities(part: MarkupPart) -> Iterator[MarkupPart]:
    """Split a text at references to entities that are not in HTML. These references are untranslated parts."""
    end = 0
    for match in _REFERENCE.finditer(part.html) if part.kind == "text" and "&" in part.html else ():
        if match[0].startswith("&#") or match[0][1:] in html5:
            continue
        if match.start() > end:
            yield replace(part, html=part.html[end : match.start()])
        yield MarkupPart("untranslated", match[0])
        end = match.end()
    if end < len(part.html) or not end:
        yield replace(part, html=part.html[end:])


def _sentences(block: Sequence[MarkupPart], language: str) -> Iterator[list[MarkupPart]]:
    """Split a block into its sentences. A block without tags is not split."""
    if len(block) < 2:
        yield list(block)
        return
    texts = list[str]()
    for part in block:
        if part.kind == "text":  # without references: the semicolon of one could end a sentence
            texts.append(_REFERENCE.sub(lambda match: "x" * len(match[0]), part.html))
        elif part.kind == "untranslated":
            texts.append("x" * len(part.html))
    lengths = map(len, sentences("".join(texts), language))
    sentence, remaining = list[MarkupPart](), next(lengths, 0)  # remaining: characters of the sentence
    for part in block:
        if not remaining and part.kind != "end":
            yield sentence
            sentence, remaining = [], next(lengths, 0)
        start = 0  # of the rest of the part
        while part.kind == "text" and len(part.html) - start > remaining:
            yield [*sentence, replace(part, html=part.html[start : start + remaining])]
            sentence, start, remaining = [], start + remaining, next(lengths)
        sentence.append(replace(part, html=part.html[start:]) if start else part)
        if part.kind in ("text", "untranslated"):
            remaining -= len(part.html) - start
    yield sentence
