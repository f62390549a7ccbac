"""Extracts the text of a document or fragment in HTML or XML, line by line, and puts translations into the same markup.

Tags, comments and most attributes are not changed; the values of `title`, `alt`, `placeholder` and `aria-label` are
translated. A sentence with tags is one line, without its tags; so is a block without tags. In the translation the tags
are placed around the words that correspond to those in the source; see nmt.decoding.markup.placement. The text of an
untranslated element in a sentence, such as `<code>`, is translated with the sentence, and then replaced by the element.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from html import escape, unescape
from itertools import accumulate, chain

from nmt.config.unspaced_scripts import UNSPACED
from nmt.decoding.markup.aligned_words import AlignedWords, can_search
from nmt.decoding.markup.blocks import RULES, WHITE, Markup, MarkupPart, line_of, parts_of_sentences
from nmt.decoding.markup.elements import LINE, Element, Span, with_elements
from nmt.decoding.markup.placement import place_elements
from nmt.decoding.protected_text import protected_pattern, protected_spans
from nmt.decoding.translation import Translation

# An attribute of a tag. A name is matched only where one can begin: otherwise a long one would take quadratic time.
_ATTRIBUTE = re.compile(
    r"""(?<![^\s"'/])(?P<name>[^\s"'<>/=]+)\s*=\s*
    (?:(?P<quote>["'])(?P<quoted>.*?)(?P=quote)|(?P<bare>[^\s"'<>][^\s<>]*))""",
    re.DOTALL | re.VERBOSE,
)
_IN_WORD = re.compile(rf"[^\W{UNSPACED}]{{2}}")
_PRIVATE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE))  # characters for private use


@dataclass(frozen=True)
class MarkedLine:
    """A text that is translated by itself. written: its text in the document, with the markup before and after it;
    elements: the elements in it, outer ones first; as_written: escapes a text for the document."""

    text: str
    written: str
    elements: Sequence[Element] = ()
    before: str = ""
    after: str = ""
    as_written: Callable[[str], str] = str

    @classmethod
    def from_sentence(cls, parts: Sequence[MarkupPart]) -> "MarkedLine":
        """A line for a sentence with tags. `before` and `after` are the tags and white space around its text."""
        before, trimmed = _without_white(parts)
        after, trimmed = _without_white(trimmed, at_end=True)
        text, elements = _elements(trimmed)
        inside, tags_after = dict(elements), ""
        for i, element in elements.items():
            if element.parent != LINE or not element.is_tag or element.stop not in (0, len(text)):
                continue
            del inside[i]  # a tag before or after all text
            if element.stop:
                tags_after += element.before
            else:
                before += element.before
        indices = {LINE: LINE} | {old: new for new, old in enumerate(inside)}
        with_parents = [replace(element, parent=indices[element.parent]) for element in inside.values()]
        written = "".join(part.html for part in parts)
        return cls(text, written, with_parents, before, tags_after + after, _escaped)

    def translated(self, translation: Translation, patterns: tuple[str, ...] = ("verbatim",)) -> str:
        """The translation with its markup, for the document. Empty if the model wrote nothing except protected text.
        patterns: as decoding.keep; text that they match in both the line and its translation is aligned."""
        if translation.text == self.text:
            return self.written
        protected = protected_pattern(patterns)
        has_words = has_letter(protected.sub("", self.text))
        if not (protected.sub("", translation.text) if has_words else translation.text).strip():
            return ""
        if not self.elements:
            return f"{self.before}{self.as_written(translation.text)}{self.after}"
        text, copies = translation.text, dict[int, Span]()
        replaced = {i: self.text[item.start : item.stop] for i, item in enumerate(self.elements) if item.replaces}
        counts = Counter(replaced.values())
        for i, content in replaced.items() if can_search(len(replaced), self.text, text) else ():
            if content and counts[content] == 1 and text.count(content) == self.text.count(content) == 1:
                copies[i] = text.index(content), text.index(content) + len(content)
        span_pairs = [((self.elements[i].start, self.elements[i].stop), span) for i, span in copies.items()]
        span_pairs += _protected_pairs(self.text, text, span_pairs, patterns)
        words = AlignedWords.from_translation(self.text, translation, span_pairs, len(self.elements))
        spans = place_elements(self.elements, words, copies)
        return f"{self.before}{with_elements(text, self.elements, spans, copies, self.as_written)}{self.after}"


def _protected_pairs(
    line: str, text: str, others: Sequence[tuple[Span, Span]], patterns: tuple[str, ...]
) -> Iterator[tuple[Span, Span]]:
    """The spans of protected text in a line and in its translation, if it occurs equally often in both and does not
    overlap the other pairs."""
    in_line = _protected_texts(line, [source for source, _ in others], patterns)
    in_text = _protected_texts(text, [target for _, target in others], patterns)
    for protected, spans in in_line.items():
        if len(spans) == len(in_text.get(protected, [])):
            yield from zip(spans, in_text[protected], strict=True)


def _protected_texts(text: str, others: Sequence[Span], patterns: tuple[str, ...]) -> dict[str, list[Span]]:
    """The spans of each protected text. Those that overlap others are left out."""
    taken, spans = set[int](), dict[str, list[Span]]()
    for span in others:
        taken.update(range(*span))
    for start, stop in protected_spans(text, patterns):
        if taken.isdisjoint(range(start, stop)):
            spans.setdefault(text[start:stop], []).append((start, stop))
    return spans


def _without_white(parts: Sequence[MarkupPart], *, at_end: bool = False) -> tuple[str, list[MarkupPart]]:
    """The white space before (or after) all text, and the parts without it. White space beside a tag is added to the
    tag instead."""
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
    """The text of a sentence, and its elements by the index of the part at which each begins."""
    texts, size, last = list[str](), 0, ""  # size: characters so far; last: the last one
    open_, tags = list[tuple[int, int]](), Counter[str]()
    elements, ends = dict[int, Element](), dict[int, int]()
    from_before = LINE  # a negative index for each element that began in the sentence before
    for i, part in enumerate(parts):
        start, added = size, part.text
        added = added.lstrip(" ") if last in ("", " ") else added
        texts.append(added)
        size, last = size + len(added), added[-1:] or last
        stop = size - (last == " ")
        if part.kind == "untranslated":
            elements[i] = Element(min(start, stop), stop, part.html, replaces=True)
        elif part.kind != "text":  # a tag is an element by itself until its other tag is read
            elements[i] = Element(stop, stop, part.html)
        if part.kind == "start":
            open_.append((i, start))
            tags[part.tag] += 1
        elif part.kind == "end" and tags[part.tag]:
            while True:
                first, start = open_.pop()
                tags[parts[first].tag] -= 1
                if parts[first].tag == part.tag:  # the other elements have no end tag
                    break
            ends[first] = i
            elements[first] = Element(min(start, stop), stop, parts[first].html, elements.pop(i).before)
        elif part.kind == "end" and not open_ and stop:
            from_before -= 1  # around all text before the tag
            ends[from_before] = i
            elements[from_before] = Element(0, stop, "", elements.pop(i).before, goes_on="from before")
    text = "".join(texts).rstrip(" ")
    for first, start in open_:
        if start < len(text):
            ends[first] = len(parts)
            elements[first] = Element(start, len(text), parts[first].html, goes_on="behind")
    parents, (before, after) = _parents(sorted(elements), ends), _characters_beside(parts)
    for i, parent in parents.items():
        element = elements[i]
        start = element.start + (element.start < element.stop and text[element.start] == " ")
        beside = (before[i], after[ends.get(i, i)]) if element.is_alone else element.beside
        elements[i] = replace(element, start=start, parent=parent, beside=beside)
    return text, _with_whole_words(text, {i: elements[i] for i in parents})


def _with_whole_words(text: str, elements: dict[int, Element]) -> dict[int, Element]:
    """Extend untranslated elements to whole words: the s of `<code>x</code>s` becomes part of the element. In the
    translation the element replaces a whole word."""
    taken = set[int]()
    for element in elements.values():
        if element.replaces:
            taken.update(range(element.start, element.stop))
    for i, element in elements.items():
        if not element.replaces or element.start == element.stop:
            continue
        start, stop = element.start, element.stop
        while start - 1 not in taken and _IN_WORD.fullmatch(text[max(0, start - 1) : start + 1]):
            start -= 1
        while stop not in taken and _IN_WORD.fullmatch(text[stop - 1 : stop + 1]):
            stop += 1
        taken |= {*range(start, element.start), *range(element.stop, stop)}
        before, after = _escaped(text[start : element.start]), _escaped(text[element.stop : stop])
        beside = text[start - 1 : start] or " ", text[stop : stop + 1] or " "
        if before or after:
            new = f"{before}{element.before}{after}"
            elements[i] = replace(element, start=start, stop=stop, before=new, beside=beside)
    return elements


def _characters_beside(parts: Sequence[MarkupPart]) -> tuple[list[str], list[str]]:
    """The last character of the text before each part, and the first one after it; a space if there is none."""
    texts = [part.text for part in parts]
    before = accumulate(texts[:-1], lambda last, text: text[-1:] or last, initial=" ")
    after = accumulate(texts[:0:-1], lambda first, text: text[:1] or first, initial=" ")
    return list(before), list(after)[::-1]


def _parents(parts: Sequence[int], ends: Mapping[int, int]) -> dict[int, int]:
    """The parent of each element, or LINE; by the indices of the parts at which the elements begin. ends: the part at
    which an element ends; elements without an entry are one part."""
    parents, around = dict[int, int](), list[int]()
    for part in parts:
        while around and ends[around[-1]] < part:
            around.pop()
        parents[part] = around[-1] if around else LINE
        if part in ends:
            around.append(part)
    return parents


class MarkedText:
    """A text with tags, such as a document. lines: the lines to translate; those without letters are left out. markup:
    None for a text without tags, which is always one line. language: its code, if it is known, to find the ends of
    sentences."""

    def __init__(self, text: str, language: str = "", markup: Markup | None = "html"):
        if markup not in (None, *RULES):
            raise ValueError(f"markup: {markup!r}: expected one of {', '.join(RULES)}")
        self.lines: list[MarkedLine] = []
        self._parts: list[str | int] = []  # markup that is not changed, or the index of a line
        self._attributes = _Attributes(text, RULES[markup].attributes if markup else frozenset(), self.lines)
        if markup is None:
            self._add_line(MarkedLine(text, text))
            return
        for sentence in parts_of_sentences(text, markup, language):
            parts = [self._attributes.extract(part) for part in sentence]
            if any(part.kind == "text" and has_letter(part.text) for part in parts):
                self._add_line(MarkedLine.from_sentence(parts))
            else:
                self._parts += [part.html for part in parts]

    def _add_line(self, line: MarkedLine) -> None:
        self._parts.append(len(self.lines))
        self.lines.append(line)

    def with_lines(self, lines: Sequence[str]) -> str:
        """The text with the translations of its lines, which are results of MarkedLine.translated. A line whose
        translation is empty is not changed."""
        lines = [new or line.written for new, line in zip(lines, self.lines, strict=True)]
        text = "".join(part if isinstance(part, str) else lines[part] for part in self._parts)
        return self._attributes.restore(text, lines)


class _Attributes:
    """Attributes whose values are translated. The values are extracted from their tags, and their translations are
    inserted into the translated text."""

    def __init__(self, text: str, names: Set[str], lines: list[MarkedLine]):
        """Each value is added to `lines`."""
        self._names, self._lines = names, lines
        self._line_indices: list[int] = []  # for each value, the index of its line
        used = {*text, *unescape(text)}
        self._mark = next(mark for mark in map(chr, chain(*_PRIVATE)) if mark not in used)

    def extract(self, part: MarkupPart) -> MarkupPart:
        """The part with the index of each value, between marks, in place of the value."""
        if not self._names or not part.has_attributes:
            return part
        return replace(part, html=_ATTRIBUTE.sub(self._marked, part.html))

    def _marked(self, match: re.Match[str]) -> str:
        kind = "quoted" if match["quote"] else "bare"
        value = match[kind]
        if match["name"].lower() not in self._names or not has_letter(unescape(value)):
            return match[0]
        index = len(self._line_indices)
        self._line_indices.append(len(self._lines))
        as_written = escape if match["quote"] else _quoted
        self._lines.append(MarkedLine(line_of(value).strip(" "), value, as_written=as_written))
        start, stop = (position - match.start() for position in match.span(kind))
        return f"{match[0][:start]}{self._mark}{index}{self._mark}{match[0][stop:]}"

    def restore(self, text: str, lines: Sequence[str]) -> str:
        """The text with the translations of the values."""
        if not self._line_indices:
            return text
        pattern = f"{self._mark}([0-9]+){self._mark}"
        return re.sub(pattern, lambda match: lines[self._line_indices[int(match[1])]], text)


def _escaped(text: str) -> str:
    return escape(text, quote=False)


def _quoted(text: str) -> str:
    return f'"{escape(text)}"'


def has_letter(text: str) -> bool:
    """Whether a text has something to translate."""
    return any(map(str.isalpha, text))
