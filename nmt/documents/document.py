"""A document as segments that are translated. All other characters of the document do not change.

The reader of a format finds the segments of a document. A segment is a range of characters, the texts in it, and a
function that writes the range with other texts. A reader does not change what it does not understand.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape

from nmt.decoding.markup.blocks import RULES, Markup
from nmt.decoding.protected_text import has_invented, is_protected, protected_pattern
from nmt.documents.placeholders.codes import CUT, TAG

_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a pair, which JSON can contain; it is no character
_TRANSLATED_ATTRIBUTE = re.compile(
    rf"""(?<=[\s"'/])(?:{"|".join(sorted(RULES["html"].attributes))})\s*=\s*
    (?:(?P<quote>["'])(?P<quoted>.*?)(?P=quote)|(?P<bare>[^\s"'<>][^\s<>]*))""",
    re.DOTALL | re.VERBOSE | re.IGNORECASE,
)
_BREAK, _BREAK_OUTSIDE_TAGS = re.compile(r"[\n\r]+"), re.compile(rf"[\n\r]+|{CUT}|(?P<tag>{TAG})")
_NAME = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w:-]*)")
_END = re.compile(r"</([^\s<>/]+)")
_SAYS_NO = re.compile(r"""\s(?:translate\s*=\s*["']?no\b|class\s*=\s*(?:["'][^"']*)?\bnotranslate\b)""", re.IGNORECASE)


@dataclass(frozen=True)
class TranslatableText:
    """A text that is translated on its own."""

    text: str
    markup: Markup | None = None  # the kind of its tags; None if it has no tags

    def is_translated(self, keep: tuple[str, ...]) -> bool:
        """Whether the text has letters outside of protected text. Values of attributes count as text."""
        text = self.text
        if keep and self.markup is None:
            text = protected_pattern(keep).sub("", text)
        return any(map(str.isalpha, text)) and not _SURROGATE.search(text)

    def is_protected(self, translation: str, keep: tuple[str, ...]) -> bool:
        """Whether the translation has the same protected text (patterns `keep`), and no placeholder besides."""
        old, new = self.text, translation
        if self.markup is not None:
            old, new = self._without_tags_around_attributes(old), self._without_tags_around_attributes(new)
        return is_protected(old, new, keep) and not has_invented(old, new)

    def _without_tags_around_attributes(self, text: str) -> str:
        """The unescaped text with the values of translated attributes after their tags, as text."""
        if self.markup == "html":
            text = re.sub(TAG, _with_values_behind, text)
        return unescape(text.replace("<", " <"))  # a `%` before a tag is no placeholder together with it


def _with_values_behind(tag: re.Match[str]) -> str:
    attributes = _TRANSLATED_ATTRIBUTE.finditer(tag[0])
    values = " ".join(attribute["quoted"] or attribute["bare"] or "" for attribute in attributes)
    return f"{_TRANSLATED_ATTRIBUTE.sub('', tag[0])} {values}" if values else tag[0]


class NotTranslatable(Exception):
    """Why a string is not translated: the program that reads the document could not use its translation. Without a
    reason if it has no translation."""


@dataclass(frozen=True)
class Segment:
    """The characters [start, stop) of a document, and the texts in them."""

    start: int
    stop: int
    texts: Sequence[TranslatableText]
    # Returns the segment with as many other texts. Raises NotTranslatable if the segment must not change.
    write: Callable[[Sequence[str]], str]
    unit: int = 0  # its unit, if units have notes


def in_characters(data: bytes, segments: Iterable[Segment]) -> list[Segment]:
    """Converts the offsets of segments from bytes of UTF-8 to characters. Returns the segments in order."""
    converted, end, characters = list[Segment](), 0, 0
    for segment in sorted(segments, key=lambda segment: segment.start):
        start = characters + len(data[end : segment.start].decode())
        end, characters = segment.stop, start + len(data[segment.start : segment.stop].decode())
        converted.append(replace(segment, start=start, stop=characters))
    return converted


@dataclass(frozen=True)
class Document:
    """The content of a document, and the segments that are translated."""

    content: str
    segments: Sequence[Segment]  # in order, without overlaps
    keep: tuple[str, ...] = ()  # patterns of its placeholders, as in decoding.keep
    existing: int = 0  # number of texts that are not translated because they have a translation
    report: Callable[[str], Iterable[str]] = lambda content: ()  # messages to the user on a translated document
    notes: Sequence[Segment] = ()  # of units, each with one text; if start == stop, it is a new one

    @property
    def texts(self) -> list[TranslatableText]:
        """Each text that is translated, once, in the order of the document."""
        texts = dict[TranslatableText, None]()
        for segment in self.segments:
            texts |= dict.fromkeys(text for text in segment.texts if text.is_translated(self.keep))
        return list(texts)

    def translated(
        self,
        translation: Callable[[TranslatableText], str],
        untranslated: list[tuple[int, str]] | None = None,
        confidence: Callable[[TranslatableText], float] = lambda text: 100,
        below: int = 0,
    ) -> str:
        """The document with translated texts.

        translation: returns the translation of a text, or raises NotTranslatable. untranslated: receives, for each
        segment that is not translated for a reason, the number of its first line and the reason. confidence: of a text.
        If it is lower than `below`, the translated unit gets a note. A note of an earlier translation gets the new
        confidence.
        """
        line_number, counted = 1, 0
        changes, units = list[tuple[int, int, str]](), dict[int, list[TranslatableText]]()
        for segment in self.segments:
            line_number += self.content.count("\n", counted, segment.start)
            counted = segment.start
            try:
                texts = [translation(text) if text.is_translated(self.keep) else text.text for text in segment.texts]
                new = segment.write(texts)
            except NotTranslatable as reason:
                if untranslated is not None and reason.args:
                    untranslated.append((line_number, f"not translated, because {reason}"))
            else:
                changes.append((segment.start, segment.stop, new))
                units.setdefault(segment.unit, []).extend(segment.texts)
        for note in self.notes if below else ():
            least = min(map(confidence, units.get(note.unit, ())), default=None)
            if least is not None and (least < below or note.start < note.stop):
                changes.append((note.start, note.stop, note.write([f"confidence {int(least)}"])))
        parts, end = list[str](), 0
        for start, stop, new in sorted(changes, key=lambda change: change[:2]):
            parts += self.content[end:start], new
            end = stop
        return "".join([*parts, self.content[end:]])


def _lines(string: str, markup: Markup | None) -> Iterator[tuple[int, int]]:
    """Where each line of a string starts and stops."""
    start, name, depth = 0, "", 0  # the open element that is not translated, and how many of that name are open
    last_end = {end[1]: end.start() for end in _END.finditer(string)} if markup else {}  # the last end tag of each name
    for match in (_BREAK_OUTSIDE_TAGS if markup else _BREAK).finditer(string):
        tag = _NAME.match(match[0]) if markup else None
        if tag and not depth and not tag["end"] and _is_untranslated(tag["name"].lower(), match[0], markup):
            # Without an end tag it is a placeholder, such as `<address>` in the help of a command.
            if last_end.get(tag["name"], -1) > match.start():
                name, depth = tag["name"], 1
        elif tag and depth and tag["name"] == name and not match[0].endswith("/>"):
            depth += -1 if tag["end"] else 1
        elif not depth and not (markup and match["tag"]):
            yield start, match.start()
            start = match.end()
    yield start, len(string)


def _is_untranslated(name: str, tag: str, markup: Markup | None) -> bool:
    """Whether the content of the element is not translated. tag: its start tag."""
    if markup is None or tag.endswith("/>") or name in RULES[markup].void:
        return False
    return name in RULES[markup].untranslated or _SAYS_NO.search(tag) is not None


@dataclass(frozen=True)
class Template:
    """A string as a list of parts. The parts with odd indices are texts that are translated."""

    parts: Sequence[str]
    markup: Markup | None = None

    @classmethod
    def from_lines(cls, string: str, markup: Markup | None = None) -> "Template":
        """A template whose texts are the lines of a string, without the white space around them.

        A line break inside a tag, a comment or an element that is not translated does not end a line. The tag
        `<cut0/>`, which stands for a code, ends a line.
        """
        parts, end = list[str](), 0  # end of the last text
        for start, stop in _lines(string, markup):
            if text := string[start:stop].strip():
                start += len(string[start:stop]) - len(string[start:stop].lstrip())
                parts += string[end:start], text
                end = start + len(text)
        return cls([*parts, string[end:]], markup)

    @property
    def texts(self) -> list[TranslatableText]:
        return [TranslatableText(part, self.markup) for part in self.parts[1::2]]

    def with_texts(self, texts: Iterable[str]) -> str:
        parts = list(self.parts)
        parts[1::2] = texts
        return "".join(parts)
