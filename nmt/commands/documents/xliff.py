"""XLIFF 1.2 and 2: the `target` of each unit, beside its `source`. What is translated in version 1.2 is marked
`state="needs-review-translation"`.

Specifications: https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html and
https://docs.oasis-open.org/xliff/xliff-core/v2.1/xliff-core-v2.1.html
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape, unescape
from pathlib import Path
from xml.parsers import expat

from nmt.commands.documents import icu
from nmt.commands.documents.codes import VOID, Code, coded, stand_ins
from nmt.commands.documents.document import Document, Segment, Template
from nmt.commands.documents.messages import KEPT, Message, message_template, template_of
from nmt.commands.documents.printf import in_order, numbered
from nmt.errors import NmtError

_UNITS = ("trans-unit", "segment")
_UNTRANSLATED = ("new", "needs-translation")  # states of a target that holds no translation, but a copy of its source
_DEEPEST = 500  # elements in one another
_INDENTATION = re.compile(r"(?:\r\n|\n|\r)[ \t]*\Z")  # with the line break before it
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
# Codes of the document's format, which no model should see, stand for one tag.
_CODE = re.compile(
    r"""<!--.*?-->|<(?P<name>ph|bpt|ept|it|ut|x|bx|ex|sc|ec)\b(?P<attributes>(?:[^<>"'/]|/(?!>)|"[^"]*"|'[^']*')*)
    (?:/>|>(?P<content>.*?)</(?P=name)\s*>)""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ANGULAR = re.compile(r"(START|CLOSE)_([A-Z_]+?)(?:_\d+)?")
_OF_HTML = re.compile(r"<(/?)([A-Za-z][\w:-]*)(?:[^<>]*[^<>/])?>")
_STAND_IN = re.compile(r"</?x\d+/?>|<cutx\d+/>")


@dataclass
class _Unit:
    """Byte offsets: of its source's first tag, what stands in it, and where it ends; of its target with its tags, if it
    has one."""

    translated: bool
    source_begin: int = 0
    source: tuple[int, int] = (0, 0)
    source_end: int = 0
    target: tuple[int, int] | None = None
    target_has_text: bool = False
    target_is_copy: bool = False


def read(content: str, path: Path, *, only_missing: bool = True) -> Document:
    """only_missing: units with a translation stay. Raises NmtError for what is not XLIFF, and for entities, which can
    make a small file huge."""
    found, data = _Units(path), content.encode()
    found.read(data)
    segments, existing = list[Segment](), 0
    to_characters = _Characters(data)
    for unit in found.units:
        places = [
            unit.source_begin,
            *unit.source,
            unit.source_end,
            *(unit.target or (unit.source_end, unit.source_end)),
        ]
        if not unit.translated or unit.source[0] >= unit.source[1]:
            continue
        if only_missing and unit.target_has_text and not unit.target_is_copy:
            existing += 1
            continue
        by_place = {place: to_characters(place) for place in sorted(set(places))}
        source = content[by_place[unit.source[0]] : by_place[unit.source[1]]]
        target = None if unit.target is None else (by_place[unit.target[0]], by_place[unit.target[1]])
        indentation = _INDENTATION.search(
            content, max(0, by_place[unit.source_begin] - 200), by_place[unit.source_begin]
        )
        before = indentation[0] if indentation else ""
        segments.append(_segment(content, source, by_place[unit.source_end], target, before, found.version))
    return Document(content, segments, KEPT, existing)


class _Units:
    """The units of a document, in its order."""

    def __init__(self, path: Path):
        self.path, self.units, self.version = path, list[_Unit](), "1.2"
        self._open, self._translated, self._starts = list[str](), [True], list[int]()
        self._parser = parser = expat.ParserCreate("utf-8")  # whatever encoding the document had
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler, parser.EntityDeclHandler = self._text, self._entity

    def read(self, data: bytes) -> None:
        self._data = data
        try:
            self._parser.Parse(data, True)
        except expat.ExpatError as error:
            raise NmtError(f"{self.path}: not XML: {error}") from None

    def _entity(self, name: str, *_: object) -> None:
        raise NmtError(f"{self.path}: declares the entity {name!r}: documents with entities are not translated")

    @property
    def _in(self) -> str:
        return "/".join(self._open[-2:])

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        place = self._parser.CurrentByteIndex
        self._open.append(name := name.rpartition(":")[2])
        if len(self._open) > _DEEPEST:
            raise NmtError(f"{self.path}: more than {_DEEPEST} elements in one another: not translated")
        if len(self._open) == 1 and name != "xliff":
            raise NmtError(f"{self.path}: not XLIFF: its first element is <{name:.40}>, not <xliff>")
        if name == "xliff":
            self.version = attributes.get("version", self.version)
        wanted = {"no": False, "yes": True}.get(attributes.get("translate", ""), self._translated[-1])
        self._translated.append(wanted)
        self._starts.append(place)
        if name in _UNITS:
            self.units.append(_Unit(wanted))
        elif self._in in ("trans-unit/source", "segment/source"):
            self.units[-1].source_begin = place
            self.units[-1].source = _end_of_tag(self._data, place), 0
        elif self._in in ("trans-unit/target", "segment/target"):
            self.units[-1].target = place, 0
            self.units[-1].target_is_copy = attributes.get("state") in _UNTRANSLATED

    def _text(self, text: str) -> None:
        if self.units and text.strip() and "target" in self._open and "alt-trans" not in self._open:
            self.units[-1].target_has_text = True

    def _end(self, name: str) -> None:
        begun = _end_of_tag(self._data, self._starts.pop())
        if self._data[begun - 2 : begun] == b"/>":  # one tag, behind which the parser is
            place = end = begun
        else:
            place = self._parser.CurrentByteIndex
            end = _end_of_tag(self._data, place)
        match self._in:
            case "trans-unit/source" | "segment/source":
                unit = self.units[-1]
                unit.source = unit.source[0], place
                unit.source_end = end
            case "trans-unit/seg-source":  # the target comes after it
                self.units[-1].source_end = end
            case "trans-unit/target" | "segment/target":
                unit = self.units[-1]
                assert unit.target is not None
                unit.target = unit.target[0], end
                unit.target_has_text |= b"<" in self._data[_end_of_tag(self._data, unit.target[0]) : place]
        self._open.pop()
        self._translated.pop()


def _end_of_tag(data: bytes, start: int) -> int:
    """Behind the tag that begins at `start`. In attributes, `>` can stand as it is."""
    found = re.compile(rb"""<(?:[^<>"']|"[^"]*"|'[^']*')*>""").match(data, start)
    return found.end() if found else start


class _Characters:
    """Counts characters up to places in UTF-8 that do not decrease."""

    def __init__(self, data: bytes):
        self._data, self._place, self._count = data, 0, 0

    def __call__(self, place: int) -> int:
        if place < self._place:
            self._place = self._count = 0
        self._count += len(self._data[self._place : place].decode())
        self._place = place
        return self._count


def _segment(content: str, source: str, end: int, target: tuple[int, int] | None, before: str, version: str) -> Segment:
    """source: what stands between its tags; end: where a target can be; target: the one that is there; before: a line
    break and white space for a new one."""
    without_data = _CDATA.sub(lambda found: escape(found[1], quote=False), source)
    text, codes = _without_codes(without_data)
    is_marked = "<" in text
    marked = coded(numbered(text), has_tags=True, has_forms=icu.has_forms(text))
    template: Message | Template
    if is_marked:  # Angular has codes in the forms of ICU messages
        template = template_of(icu.parts_of(marked.text) or ["", marked.text], icu.Writing(), "xml")
    else:
        template = message_template(unescape(text))
    start, stop = target or (end, end)
    is_first_version = version.startswith("1")

    def write(texts: Sequence[str]) -> str:
        new = template.with_texts(texts)
        new = in_order(marked.restored(new), text) if is_marked and new is not None else new
        if not texts or new is None:
            return content[start:stop]
        new = _STAND_IN.sub(lambda found: codes[found[0]], new) if is_marked else escape(new, quote=False)
        if target is not None:
            old = content[start:stop]
            tag = re.match(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>""", old)
            assert tag is not None
            if old[tag.end() :].startswith(f"{new}</"):
                return old
            opening = tag[0].removesuffix(">").removesuffix("/").rstrip()
            name = opening[1:].split()[0]
        else:
            closed = re.search(r"</([\w.-]+:)?(?:seg-)?source\s*>\Z", content[max(0, end - 80) : end])
            name = f"{closed[1] or '' if closed else ''}target"
            opening = f"<{name}"
        if is_first_version:
            opening = re.sub(r"""\s+state\s*=\s*("[^"]*"|'[^']*')""", "", opening)
            opening += ' state="needs-review-translation"'
        return f"{'' if target else before}{opening}>{new}</{name}>"

    return Segment(start, stop, template.texts, write)


def _without_codes(source: str) -> tuple[str, dict[str, str]]:
    """A source with tags for its codes, two that belong together as an element; and the codes by their tags."""
    found = list(_CODE.finditer(source))
    tags = stand_ins([_kind(each) for each in found], "x", "cutx")
    text, codes, end = list[str](), dict[str, str](), 0
    for tag, each in zip(tags, found, strict=True):
        text += source[end : each.start()], tag
        codes[tag] = each[0]
        end = each.end()
    return "".join([*text, source[end:]]), codes


def _kind(found: re.Match[str]) -> Code:
    """Whether a code begins or ends something: by its element, by the names that Angular gives, or by the tag in it."""
    attributes = {name: unescape(one or other) for name, one, other in _ATTRIBUTE.findall(found["attributes"] or "")}
    number, isolated = attributes.get("rid", attributes.get("id", "")), attributes.get("isolated") == "yes"
    match found["name"]:
        case "bpt" | "bx":
            return "begin", f"{found['name'][1]}{number}"
        case "ept" | "ex":
            return "end", f"{found['name'][1]}{number}"
        case "sc" if not isolated:
            return "begin", f"sc{number}"
        case "ec" if not isolated:
            return "end", f"sc{attributes.get('startRef', '')}"
        case "x" | "ph":
            for name in (attributes.get("equiv", ""), attributes.get("id", "")):
                if of_angular := _ANGULAR.fullmatch(name):
                    return "begin" if of_angular[1] == "START" else "end", of_angular[2]
            shown = unescape(found["content"] or "") or attributes.get("equiv-text", "")
            if (tag := _OF_HTML.fullmatch(shown.strip())) and tag[2].lower() not in VOID:
                return "end" if tag[1] else "begin", f"<{tag[2].lower()}"
    return "alone", ""
