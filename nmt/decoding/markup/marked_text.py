"""The text of a document or fragment in HTML or XML, line by line for the translator, and its translation in the same
markup.

Tags, comments and most attributes stay as they are, character by character; `title`, `alt`, `placeholder` and
`aria-label` are translated. A text that ends at block elements (`<p>`,
`<li>`, `<br>`, …) is a line. If elements such as `<b>` and `<a>` stand inside of it, each of its sentences is a line,
without them. In the translation they go around the words that belong to theirs; see nmt.decoding.markup.placement. One
that is not translated (`<code>`) is text in the sentence, and then in place of what the model made of it.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from html import escape, unescape
from html.parser import HTMLParser
from itertools import accumulate
from typing import Literal

from nmt.data.sentences import sentences
from nmt.decoding.markup.aligned_words import AlignedWords, Span
from nmt.decoding.markup.placement import LINE, Element, joined, place
from nmt.decoding.translation import Translation

Markup = Literal["html", "xml"]


@dataclass(frozen=True)
class _Rules:
    """inline: the elements inside of a sentence, None for all; the others are ends of lines. void: those without an end
    tag. untranslated: besides those with `translate="no"`. with_line_breaks: those in which they end a line.
    attributes: those whose values are translated."""

    inline: Set[str] | None = None
    void: Set[str] = frozenset()
    untranslated: Set[str] = frozenset()
    with_line_breaks: Set[str] = frozenset()
    attributes: Set[str] = frozenset()

    def is_inline(self, tag: str) -> bool:
        return self.inline is None or tag in self.inline


_INLINE = (
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span strike",
    "strong sub sup time tt u var wbr",
)
_VOID = "area base br col embed hr img input link meta param source track wbr"
_UNTRANSLATED = "address applet audio canvas code embed script style time video"  # as LibreTranslate has them
_HTML = _Rules(
    inline=frozenset(" ".join(_INLINE).split()),
    void=frozenset(_VOID.split()),
    untranslated=frozenset(_UNTRANSLATED.split()),
    with_line_breaks=frozenset({"pre", "textarea"}),
    attributes=frozenset({"alt", "aria-label", "placeholder", "title"}),
)
_RULES: Mapping[Markup, _Rules] = {"html": _HTML, "xml": _Rules()}
_WHITE = " \t\n\r\f"  # HTML's white space, to which a no-break space does not belong
_SPACE = re.compile(f"[{_WHITE}]+")
_LINE_END = re.compile(r"(?<=\n)|(?<=\r)(?!\n)")
# Of a tag, with its value if it is quoted; a value without quotes is read over.
_ATTRIBUTE = re.compile(
    r"""(?P<name>[^\s"'<>/=]+)\s*=\s*(?:(?P<quote>["'])(?P<value>.*?)(?P=quote)|[^\s"'=<>`]+)""", re.DOTALL
)
_TAG, _REFERENCE = re.compile("<[^>]*>"), re.compile(r"&[^;\s]*;")


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
        self._in_xml = in_xml
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
        """`<![` begins a comment in HTML, which ends at `>`; in XML it is text that is not translated, up to `]]>`.
        Python's own method raises AssertionError."""
        if not self._in_xml:
            return self.parse_bogus_comment(i, report)
        self._add("other")
        end = self.rawdata.find("]]>", i)
        return len(self.rawdata) if end < 0 else end + 3


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


class _Sentence:
    """Parts of a document whose text is a line, unless there is nothing to translate in it."""

    def __init__(self, parts: Sequence[_Part], lines: list[str]):
        """Adds its line to `lines`."""
        self.html, self.number = "".join(part.html for part in parts), len(lines)  # of its line
        self.elements: Sequence[Element] = ()
        self.is_line = any(part.kind == "text" and _has_letter(part.text) for part in parts)
        if self.is_line:
            self._read(parts)
            lines.append(self.text)

    def _read(self, parts: Sequence[_Part]) -> None:
        """Its text, its elements, the outer ones first, and what goes before and behind the text: white space and
        tags."""
        text, open_ = "", list[tuple[int, int]]()
        found, ends = dict[int, Element](), dict[int, int]()
        for number, part in enumerate(parts):
            start, added = len(text), part.text
            text += added.lstrip(" ") if text[-1:] in ("", " ") else added
            stop = len(text.rstrip(" "))
            if part.kind == "untranslated":
                found[number] = Element(min(start, stop), stop, part.html, replaces=True)
            elif part.kind != "text":  # a tag is alone until the other one is found
                found[number] = Element(stop, stop, part.html, ends=part.kind == "end")
            if part.kind == "start":
                open_.append((number, start))
            elif part.kind == "end" and open_ and parts[open_[-1][0]].tag == part.tag:
                first, start = open_.pop()
                ends[first], start = number, stop - len(text[start:stop].lstrip(" "))
                found[first] = Element(start, stop, parts[first].html, found.pop(number).before)
        self.text, white = text.rstrip(" "), "".join(part.html for part in parts if part.text)
        self.before, self.after = white[: len(white) - len(white.lstrip(_WHITE))], ""
        around = _parents(sorted(found), ends)
        for number in [number for number, parent in around.items() if parent == LINE and number not in ends]:
            element = found[number]
            if element.replaces or element.stop not in (0, len(self.text)):
                continue
            del around[number]  # it stands before or behind all text
            if element.stop:
                self.after += element.before
            else:
                self.before += element.before
        self.after += white[len(white.rstrip(_WHITE)) :]
        numbers = {number: i for i, number in enumerate(around)}
        for number in filter(lambda number: found[number].replaces, around):
            found[number] = Element.instead(self.text, found[number].start, found[number].stop, found[number].before)
        self.elements = [replace(found[number], parent=numbers.get(parent, LINE)) for number, parent in around.items()]

    def translated(self, translations: Sequence[Translation]) -> str:
        if not self.is_line or (translation := translations[self.number]).text == self.text:
            return self.html
        text, copies = translation.text, dict[int, Span]()
        for number, element in enumerate(self.elements):
            own = self.text[element.start : element.stop]
            if element.replaces and text.count(own) == self.text.count(own) == 1:
                copies[number] = text.index(own), text.index(own) + len(own)
        words = AlignedWords.of(self.text, translation) if self.elements else None
        places = place(self.elements, words, copies) if words else []
        return f"{self.before}{joined(text, self.elements, places, copies, partial(escape, quote=False))}{self.after}"


def _parents(parts: Sequence[int], ends: Mapping[int, int]) -> dict[int, int]:
    """Of elements, by the numbers of the parts at which they begin: the element around each, or LINE. ends: of some,
    the part at which they end; the others are one part."""
    found, around = dict[int, int](), list[int]()
    for part in parts:
        while around and ends[around[-1]] < part:
            around.pop()
        found[part] = around[-1] if around else LINE
        if part in ends:
            around.append(part)
    return found


class MarkedText:
    """A text with tags, such as a document. lines: what is to be translated; a text without a letter is not.
    has_elements: whether there are tags in some of these lines, so that an alignment says where they go. language: its
    code, if it is known, for the ends of sentences. In XML all elements stand inside of sentences."""

    def __init__(self, text: str, language: str = "", markup: Markup = "html"):
        self.characters = len(text)
        self.lines: list[str] = []
        rules = _RULES[markup]
        self._attributes = _Attributes(text, rules.attributes, self.lines)
        blocks = _blocks(text, rules, self._attributes)
        parts = (sentence for block in blocks for sentence in _cut(block, language))
        self._sentences = [_Sentence(sentence, self.lines) for sentence in parts]
        self.has_elements = any(sentence.is_line and sentence.elements for sentence in self._sentences)

    def join(self, translations: Sequence[Translation]) -> str:
        """The text with these translations of the lines. What is its own translation comes back as it was."""
        text = "".join(sentence.translated(translations) for sentence in self._sentences)
        return self._attributes.put_back(text, translations)


class _Attributes:
    """Attributes whose values are translated. They are taken out of their tags, which are otherwise never read, and put
    back into the translated text."""

    def __init__(self, text: str, names: Set[str], lines: list[str]):
        """Each value is added to `lines`."""
        self._names, self._lines = names, lines
        self._values: list[tuple[str, int]] = []  # as it is written, and the number of its line
        self._mark = next(character for character in map(chr, range(0xE000, 0xF900)) if character not in text)

    def taken_out(self, tag: str) -> str:
        """A tag with the number of each value in place of it."""
        return _ATTRIBUTE.sub(self._marked, tag) if self._names else tag

    def _marked(self, found: re.Match[str]) -> str:
        quote, value = found["quote"], found["value"]
        if found["name"].lower() not in self._names or not quote or not _has_letter(unescape(value)):
            return found[0]
        self._values.append((value, len(self._lines)))
        self._lines.append(_SPACE.sub(" ", unescape(value)).strip(" "))
        start = found.start("value") - found.start()
        return f"{found[0][:start]}{self._mark}{len(self._values) - 1}{self._mark}{found[0][start + len(value) :]}"

    def put_back(self, text: str, translations: Sequence[Translation]) -> str:
        """The text with the translations of the values. What is its own translation stays as it was."""

        def value(found: re.Match[str]) -> str:
            written, number = self._values[int(found[1])]
            new = translations[number].text
            return written if new == self._lines[number] else escape(new)

        return re.sub(f"{self._mark}([0-9]+){self._mark}", value, text) if self._values else text


def _blocks(html: str, rules: _Rules, attributes: "_Attributes") -> Iterator[list[_Part]]:
    """What stands between two ends of lines. All parts together are the document."""
    open_elements = [("", True, True, False)]  # tag, translated, with elements in its sentences, with line breaks
    open_tags, block, tokens = Counter[str](), list[_Part](), _Tokens(html, in_xml=rules.inline is None).found
    around = 0  # how many elements are open around one in a sentence that is not translated; 0: this is in none
    starts = [0, *(token.start for token in tokens[1:]), len(html)]
    for token, start, end in zip(tokens, starts, starts[1:], strict=False):
        _, translated, mixed, breaks = open_elements[-1]
        inline = mixed and (not token.tag or rules.is_inline(token.tag))  # text and comments have no tag
        is_alone = token.kind == "start" and token.tag in rules.void
        kind = "other" if is_alone or (token.kind == "text" and not translated) else token.kind
        wanted = {"no": False, "yes": True, "": True}.get(token.translate, translated)
        is_tag = token.tag != "" and token.kind != "end"
        written = attributes.taken_out(html[start:end]) if is_tag and wanted else html[start:end]
        part = _Part(kind, written, token.tag)
        if kind == "start":
            inside, breaks = (
                wanted and token.tag not in rules.untranslated,
                breaks or token.tag in rules.with_line_breaks,
            )
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
