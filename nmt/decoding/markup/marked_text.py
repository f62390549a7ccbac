"""The text of a document or fragment in HTML or XML, line by line for the translator, and its translation in the same
markup.

Tags, comments and most attributes stay as they are, character by character; the values of `title`, `alt`,
`placeholder` and `aria-label` are translated. Each sentence in which there are tags is a line, without them, and so is
a block without tags. In the translation the tags go around the words that belong to theirs; see
nmt.decoding.markup.placement. What is not translated in a sentence (`<code>`) is text in it, and then in place of what
the model made of it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from html import escape, unescape
from itertools import accumulate, chain

from nmt.config.unspaced_scripts import UNSPACED
from nmt.decoding.markup.aligned_words import AlignedWords, can_search
from nmt.decoding.markup.blocks import RULES, WHITE, Markup, MarkupPart, line_of, parts_of_sentences
from nmt.decoding.markup.elements import LINE, Element, Span, with_elements
from nmt.decoding.markup.placement import place
from nmt.decoding.protected_text import protected_spans
from nmt.decoding.translation import Translation

# Of a tag. A name is looked for only where one can begin, or a long one would take quadratic time.
_ATTRIBUTE = re.compile(
    r"""(?<![^\s"'/])(?P<name>[^\s"'<>/=]+)\s*=\s*
    (?:(?P<quote>["'])(?P<quoted>.*?)(?P=quote)|(?P<bare>[^\s"'<>][^\s<>]*))""",
    re.DOTALL | re.VERBOSE,
)
_IN_WORD = re.compile(rf"[^\W{UNSPACED}]{{2}}")
_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))  # characters for private use


@dataclass(frozen=True)
class MarkedLine:
    """What is translated by itself. written: as it stands in the document, from what is before its text to what is
    behind; elements: those in it, the outer ones first; as_written: its text in the document."""

    text: str
    written: str
    elements: Sequence[Element] = ()
    before: str = ""
    after: str = ""
    as_written: Callable[[str], str] = str

    @classmethod
    def of_sentence(cls, parts: Sequence[MarkupPart]) -> "MarkedLine":
        """Of a text and its tags; what stands before and behind the text are tags and white space."""
        before, trimmed = _without_white(parts)
        after, trimmed = _without_white(trimmed, at_end=True)
        text, elements = _elements(trimmed)
        around, behind = dict(elements), ""
        for number, element in elements.items():
            if element.parent != LINE or not element.is_tag or element.stop not in (0, len(text)):
                continue
            del around[number]  # a tag before or behind all text
            if element.stop:
                behind += element.before
            else:
                before += element.before
        numbers = {number: i for i, number in enumerate(around)}
        inside = [
            element if element.parent == LINE else replace(element, parent=numbers[element.parent])
            for element in around.values()
        ]
        written = "".join(part.html for part in parts)
        return cls(text, written, inside, before, behind + after, partial(escape, quote=False))

    def translated(self, translation: Translation, keep: tuple[str, ...] = ("verbatim",)) -> str:
        """Its translation as it stands in the document. What is its own translation, or has none, stays as it was.
        keep: patterns as decoding.keep; what they find in both is aligned."""
        if translation.text in ("", self.text):
            return self.written
        if not self.elements:
            return f"{self.before}{self.as_written(translation.text)}{self.after}"
        text, copies = translation.text, dict[int, Span]()
        replaced = {i: self.text[each.start : each.stop] for i, each in enumerate(self.elements) if each.replaces}
        often = Counter(replaced.values())
        for number, own in replaced.items() if can_search(len(replaced), self.text, text) else ():
            if own and often[own] == 1 and text.count(own) == self.text.count(own) == 1:
                copies[number] = text.index(own), text.index(own) + len(own)
        of_elements = [((self.elements[i].start, self.elements[i].stop), span) for i, span in copies.items()]
        of_elements += _items(self.text, text, of_elements, keep)
        words = AlignedWords.of(self.text, translation, of_elements, len(self.elements))
        places = place(self.elements, words, copies)
        return f"{self.before}{with_elements(text, self.elements, places, copies, self.as_written)}{self.after}"


def _items(
    line: str, text: str, others: Sequence[tuple[Span, Span]], keep: tuple[str, ...]
) -> Iterator[tuple[Span, Span]]:
    """What `keep` finds in a line and as often in its translation, beside other copies."""
    of_line, of_text = (_places(each, [pair[i] for pair in others], keep) for i, each in enumerate((line, text)))
    for item, places in of_line.items():
        if len(places) == len(of_text.get(item, [])):
            yield from zip(places, of_text[item], strict=True)


def _places(text: str, others: Sequence[Span], keep: tuple[str, ...]) -> dict[str, list[Span]]:
    """Where each item stands that has no part in other ones."""
    taken, found = {i for span in others for i in range(*span)}, dict[str, list[Span]]()
    for start, stop in protected_spans(text, keep):
        if taken.isdisjoint(range(start, stop)):
            found.setdefault(text[start:stop], []).append((start, stop))
    return found


def _without_white(parts: Sequence[MarkupPart], *, at_end: bool = False) -> tuple[str, list[MarkupPart]]:
    """The white space before (or behind) all text that is beside no tag, and the parts without it. White space beside
    tags is added to them."""
    white, trimmed, has_text = "", list[MarkupPart](), False
    for part in reversed(parts) if at_end else parts:
        if part.kind == "text" and not has_text:
            html = part.html.rstrip(WHITE) if at_end else part.html.lstrip(WHITE)
            beside = part.html.removeprefix(html) if at_end else part.html.removesuffix(html)
            if trimmed:
                tag = trimmed[-1].html
                trimmed[-1] = replace(trimmed[-1], html=beside + tag if at_end else tag + beside)
            else:
                white = beside
            part = replace(part, html=html)
        has_text = has_text or part.text != ""
        trimmed.append(part)
    return white, trimmed[::-1] if at_end else trimmed


def _elements(parts: Sequence[MarkupPart]) -> tuple[str, dict[int, Element]]:
    """The text of a sentence, and its elements by the numbers of the parts at which they begin."""
    texts, size, last = list[str](), 0, ""  # size: of all texts; last: their last character
    open_, tags = list[tuple[int, int]](), Counter[str]()
    found, ends = dict[int, Element](), dict[int, int]()
    from_before = LINE  # the number of the last element that began in the sentence before
    for number, part in enumerate(parts):
        start, added = size, part.text
        added = added.lstrip(" ") if last in ("", " ") else added
        texts.append(added)
        size, last = size + len(added), added[-1:] or last
        stop = size - (last == " ")
        if part.kind == "untranslated":
            found[number] = Element(min(start, stop), stop, part.html, replaces=True)
        elif part.kind != "text":  # a tag is alone until the other one is found
            found[number] = Element(stop, stop, part.html)
        if part.kind == "start":
            open_.append((number, start))
            tags[part.tag] += 1
        elif part.kind == "end" and tags[part.tag]:
            while True:
                first, start = open_.pop()
                tags[parts[first].tag] -= 1
                if parts[first].tag == part.tag:  # the others have no end
                    break
            ends[first] = number
            found[first] = Element(min(start, stop), stop, parts[first].html, found.pop(number).before)
        elif part.kind == "end" and not open_ and stop:
            from_before -= 1  # around all before it
            ends[from_before] = number
            found[from_before] = Element(0, stop, "", found.pop(number).before, goes_on="from before")
    text = "".join(texts).rstrip(" ")
    for first, start in open_:
        if start < len(text):
            ends[first] = len(parts)
            found[first] = Element(start, len(text), parts[first].html, goes_on="behind")
    parents, (before, behind) = _parents(sorted(found), ends), _characters_beside(parts)
    for number, parent in parents.items():
        element = found[number]
        start = element.start + (element.start < element.stop and text[element.start] == " ")
        beside = (before[number], behind[ends.get(number, number)]) if element.is_alone else element.beside
        found[number] = replace(element, start=start, parent=parent, beside=beside)
    return text, _with_whole_words(text, {number: found[number] for number in parents})


def _with_whole_words(text: str, elements: dict[int, Element]) -> dict[int, Element]:
    """Letters beside an untranslated element, as in `<code>x</code>s`, are a part of it: in the translation it stands
    in place of a whole word."""
    taken = {i for each in elements.values() if each.replaces for i in range(each.start, each.stop)}
    for number, element in elements.items():
        if not element.replaces or element.start == element.stop:
            continue
        start, stop = element.start, element.stop
        while start - 1 not in taken and _IN_WORD.fullmatch(text[max(0, start - 1) : start + 1]):
            start -= 1
        while stop not in taken and _IN_WORD.fullmatch(text[stop - 1 : stop + 1]):
            stop += 1
        taken |= {*range(start, element.start), *range(element.stop, stop)}
        before, after = escape(text[start : element.start], quote=False), escape(text[element.stop : stop], quote=False)
        beside = text[start - 1 : start] or " ", text[stop : stop + 1] or " "
        if before or after:
            new = f"{before}{element.before}{after}"
            elements[number] = replace(element, start=start, stop=stop, before=new, beside=beside)
    return elements


def _characters_beside(parts: Sequence[MarkupPart]) -> tuple[list[str], list[str]]:
    """The last character of the text before each part, and the first one of the text behind it; a space where there is
    none."""
    texts = [part.text for part in parts]
    before = accumulate(texts[:-1], lambda last, text: text[-1:] or last, initial=" ")
    behind = accumulate(texts[:0:-1], lambda last, text: text[:1] or last, initial=" ")
    return list(before), list(behind)[::-1]


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
    """A text with tags, such as a document. lines: what is to be translated; what has no letter is not. markup: None
    for a text without tags, which is one line whatever it has. language: its code, if it is known, for the ends
    of sentences."""

    def __init__(self, text: str, language: str = "", markup: Markup | None = "html"):
        if markup not in (None, *RULES):
            raise ValueError(f"markup: {markup!r}: expected one of {', '.join(RULES)}")
        self.lines: list[MarkedLine] = []
        self._parts: list[str | int] = []  # as they stay, or the number of a line
        self._attributes = _Attributes(text, RULES[markup].attributes if markup else frozenset(), self.lines)
        if markup is None:
            self._add_line(MarkedLine(text, text))
            return
        for sentence in parts_of_sentences(text, markup, language):
            parts = [self._attributes.taken_out(part) for part in sentence]
            if any(part.kind == "text" and has_letter(part.text) for part in parts):
                self._add_line(MarkedLine.of_sentence(parts))
            else:
                self._parts += [part.html for part in parts]

    def _add_line(self, line: MarkedLine) -> None:
        self._parts.append(len(self.lines))
        self.lines.append(line)

    def with_lines(self, lines: Sequence[str]) -> str:
        """The text with these translations of its lines, each as MarkedLine.translated gives it."""
        text = "".join(part if isinstance(part, str) else lines[part] for part in self._parts)
        return self._attributes.put_back(text, lines)


class _Attributes:
    """Attributes whose values are translated: taken out of their tags, and put back into the translated text."""

    def __init__(self, text: str, names: Set[str], lines: list[MarkedLine]):
        """Each value is added to `lines`."""
        self._names, self._lines = names, lines
        self._numbers: list[int] = []  # of the line of each value
        used = {*text, *unescape(text)}
        self._mark = next(mark for mark in map(chr, chain(*_PRIVATE)) if mark not in used)

    def taken_out(self, part: MarkupPart) -> MarkupPart:
        """A tag with the number of each value in place of it."""
        if not self._names or not part.has_attributes:
            return part
        return replace(part, html=_ATTRIBUTE.sub(self._marked, part.html))

    def _marked(self, found: re.Match[str]) -> str:
        kind = "quoted" if found["quote"] else "bare"
        value = found[kind]
        if found["name"].lower() not in self._names or not has_letter(unescape(value)):
            return found[0]
        self._numbers.append(len(self._lines))
        as_written = escape if found["quote"] else _quoted
        self._lines.append(MarkedLine(line_of(value).strip(" "), value, as_written=as_written))
        start, stop = (place - found.start() for place in found.span(kind))
        return f"{found[0][:start]}{self._mark}{len(self._numbers) - 1}{self._mark}{found[0][stop:]}"

    def put_back(self, text: str, lines: Sequence[str]) -> str:
        """The text with these translations of the values."""
        if not self._numbers:
            return text
        return re.sub(f"{self._mark}([0-9]+){self._mark}", lambda found: lines[self._numbers[int(found[1])]], text)


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'


def has_letter(text: str) -> bool:
    """Whether there is something to translate in a text."""
    return any(map(str.isalpha, text))
