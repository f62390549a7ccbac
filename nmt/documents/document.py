"""A document as the texts that are translated and all characters around them, which stay.

A reader of a format finds the segments of a document: each is a range of its characters, the texts in it, and a
function that writes the range with other texts. So whatever a reader does not understand comes back as it was.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import unescape

from nmt.decoding.markup.blocks import RULES, Markup
from nmt.decoding.protected_text import has_invented, is_protected, protected_pattern
from nmt.documents.placeholders.codes import CUT, TAG

_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair, as JSON can write it: no text
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
    """What is translated by itself. markup: how its tags are written, or None if it has none."""

    text: str
    markup: Markup | None = None

    def is_translated(self, keep: tuple[str, ...]) -> bool:
        """Whether there is anything but what is kept. Attributes of tags can be translated."""
        text = protected_pattern(keep).sub("", self.text) if keep and self.markup is None else self.text
        return any(map(str.isalpha, text)) and not _HALF.search(text)

    def is_protected(self, translation: str, keep: tuple[str, ...]) -> bool:
        """Whether what `keep` finds is in a translation as often, and no other placeholder."""
        old, new = self.text, translation
        if self.markup is not None:  # the `%` before a tag does not belong to it
            old, new = (unescape(self._with_attributes_apart(text).replace("<", " <")) for text in (old, new))
        return is_protected(old, new, keep) and not has_invented(old, new)

    def _with_attributes_apart(self, text: str) -> str:
        """A text in which the attributes that are translated stand behind their tags, without their names."""
        if self.markup != "html":
            return text

        def apart(found: re.Match[str]) -> str:
            values = " ".join(each["quoted"] or each["bare"] or "" for each in _TRANSLATED_ATTRIBUTE.finditer(found[0]))
            return f"{_TRANSLATED_ATTRIBUTE.sub('', found[0])} {values}" if values else found[0]

        return re.sub(TAG, apart, text)


class NotTranslatable(Exception):
    """Why a string is not translated: its translation could not be used by the program that reads it."""


@dataclass(frozen=True)
class Segment:
    """The characters of a document from start up to stop, with the texts in it. write: these characters with other
    texts in place of them, as many; it raises NotTranslatable if they have to stay."""

    start: int
    stop: int
    texts: Sequence[TranslatableText]
    write: Callable[[Sequence[str]], str]


def in_characters(data: bytes, segments: Iterable[Segment]) -> list[Segment]:
    """Segments whose places are those of bytes in UTF-8, with the places of characters instead."""
    counted, place, characters = list[Segment](), 0, 0
    for segment in sorted(segments, key=lambda segment: segment.start):
        start = characters + len(data[place : segment.start].decode())
        place, characters = segment.stop, start + len(data[segment.start : segment.stop].decode())
        counted.append(replace(segment, start=start, stop=characters))
    return counted


@dataclass(frozen=True)
class Document:
    """segments: in their order, without overlaps. keep: as decoding.keep, for its placeholders. existing: how many
    texts are left as they are because they have a translation. report: what to tell the user of a translated document.
    """

    content: str
    segments: Sequence[Segment]
    keep: tuple[str, ...] = ()
    existing: int = 0
    report: Callable[[str], Iterable[str]] = lambda content: ()

    @property
    def texts(self) -> list[TranslatableText]:
        """Each text to be translated once, in the order of the document."""
        found = (text for segment in self.segments for text in segment.texts if text.is_translated(self.keep))
        return list(dict.fromkeys(found))

    def translated(
        self, translation: Callable[[TranslatableText], str], left: list[tuple[int, str]] | None = None
    ) -> str:
        """The document with these translations of its texts. translation: raises NotTranslatable without one.
        left: gets of each segment that stays as it is the number of the line in which it begins, and why."""
        parts, end, line, counted = list[str](), 0, 1, 0
        for segment in self.segments:
            line += self.content.count("\n", counted, segment.start)
            counted = segment.start
            try:
                texts = [translation(text) if text.is_translated(self.keep) else text.text for text in segment.texts]
                new = segment.write(texts)
            except NotTranslatable as why:
                if left is not None:
                    left.append((line, f"left as it is, since {why}"))
            else:
                parts += self.content[end : segment.start], new
                end = segment.stop
        return "".join([*parts, self.content[end:]])


def _lines(string: str, markup: Markup | None) -> Iterator[tuple[int, int]]:
    """Where each line of a string begins and ends."""
    start, name, depth = 0, "", 0  # name: of an element that is not translated, and how many of that name are open
    last_end = {end[1]: end.start() for end in _END.finditer(string)} if markup else {}  # the last end tag of each name
    for found in (_BREAK_OUTSIDE_TAGS if markup else _BREAK).finditer(string):
        tag = _NAME.match(found[0]) if markup else None
        if tag and not depth and not tag["end"] and _is_untranslated(tag["name"].lower(), found[0], markup):
            if last_end.get(tag["name"], -1) > found.start():  # else it is a placeholder, such as `<address>` in a help
                name, depth = tag["name"], 1
        elif tag and depth and tag["name"] == name and not found[0].endswith("/>"):
            depth += -1 if tag["end"] else 1
        elif not depth and not (markup and found["tag"]):
            yield start, found.start()
            start = found.end()
    yield start, len(string)


def _is_untranslated(name: str, tag: str, markup: Markup | None) -> bool:
    """Whether the element that a tag begins is not translated."""
    if markup is None or tag.endswith("/>") or name in RULES[markup].void:
        return False
    return name in RULES[markup].untranslated or _SAYS_NO.search(tag) is not None


@dataclass(frozen=True)
class Template:
    """A string of which some parts are texts: those at the odd places."""

    parts: Sequence[str]
    markup: Markup | None = None

    @classmethod
    def of_lines(cls, string: str, markup: Markup | None = None) -> "Template":
        """Each line of a string is a text, without the white space around it. A line break in a tag, in a comment or in
        an element that is not translated ends no line, and `<cut0/>`, which stands for a code, does."""
        parts, begun = list[str](), 0  # begun: where what stands before the next text begins
        for start, stop in _lines(string, markup):
            if text := string[start:stop].strip():
                start += len(string[start:stop]) - len(string[start:stop].lstrip())
                parts += string[begun:start], text
                begun = start + len(text)
        return cls([*parts, string[begun:]], markup)

    @property
    def texts(self) -> list[TranslatableText]:
        return [TranslatableText(part, self.markup) for part in self.parts[1::2]]

    def with_texts(self, texts: Iterable[str]) -> str:
        parts = list(self.parts)
        parts[1::2] = texts
        return "".join(parts)
