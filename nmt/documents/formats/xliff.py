"""XLIFF 1.2 and 2: the `target` of each unit, beside its `source`. What is translated in version 1.2 is marked
`state="needs-review-translation"`. A `seg-source` has its segments as `<mrk mtype="seg" mid="…">`, and the target has
them too.

Specifications: https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html and
https://docs.oasis-open.org/xliff/xliff-core/v2.1/xliff-core-v2.1.html
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape, unescape
from pathlib import Path

from nmt.documents.document import Document, Segment, Template, TranslatableText, in_characters
from nmt.documents.formats.xliff_protected import open_marker, protected
from nmt.documents.placeholders import icu
from nmt.documents.placeholders.codes import ANGULAR, VOID, Code, coded, stand_ins
from nmt.documents.placeholders.messages import KEPT, Message, message_template, template_of
from nmt.documents.placeholders.printf import ArgumentOrder, in_order, numbered
from nmt.errors import NmtError
from nmt.files.xml import end_of_tag, guarded_parser, parse

_UNITS = ("trans-unit", "segment")
_WITHOUT_CONTENT = ("mrk", "sm", "em", "g", "pc")  # that are no text by themselves, as codes are
_UNTRANSLATED = ("new", "needs-translation")  # states of a target that holds no translation, but a copy of its source
_DEEPEST = 500  # elements in one another
_INDENTATION = re.compile(rb"(?:\r\n|\n|\r)[ \t]*\Z")  # with the line break before it
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
# Codes of the document's format, which no model should see, stand for one tag.
_CODE = re.compile(
    r"""<!--.*?-->|<(?P<name>(?:[\w.-]+:)?(?:ph|bpt|ept|it|ut|x|bx|ex|sc|ec))\b(?!:)
    (?P<attributes>(?:[^<>"'/]|/(?!>)|"[^"]*"|'[^']*')*)
    (?:/>|>(?P<content>.*?)</(?P=name)\s*>)
    |(?:&\#(?:10|x0*[aA]);)*&\#(?:13|x0*[dD]);(?:&\#(?:1[03]|x0*[aAdD]);)*""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ANGULAR = re.compile(ANGULAR)
_OF_HTML = re.compile(r"<(/?)([A-Za-z][\w:-]*)(?:[^<>]*[^<>/])?>")
_STAND_IN = re.compile(r"</?x\d+/?>|<cutx\d+/>")


@dataclass
class _Mark:
    """A segment in a `seg-source` or a target: the bytes between its tags."""

    mid: str
    start: int
    stop: int = 0
    has_text: bool = False


@dataclass
class _Unit:
    """Byte offsets: of its source's first tag, what stands in it, and where it ends; what stands in its seg-source; of
    its target with its tags, if it has one. number: of the `<unit>` whose segment it is, in version 2. prefix: of the
    names of its elements."""

    translated: bool
    number: int
    prefix: str
    source_begin: int = 0
    source: tuple[int, int] = (0, 0)
    source_end: int = 0
    seg_source: tuple[int, int] = (0, 0)
    marks: list[_Mark] = field(default_factory=list)  # of seg-source
    target: tuple[int, int] | None = None
    target_has_text: bool = False
    target_is_copy: bool = False
    target_marks: list[_Mark] = field(default_factory=list)

    @cached_property
    def translations(self) -> dict[str, _Mark]:
        """The segments of its target that are translated."""
        return {} if self.target_is_copy else {mark.mid: mark for mark in self.target_marks if mark.has_text}

    @property
    def is_translated(self) -> bool:
        if not self.target_has_text or self.target_is_copy:
            return False
        if not self.marks or not self.target_marks:
            return True
        return all(mark.mid in self.translations for mark in self.marks if mark.has_text)


def read(content: str, path: Path, *, only_missing: bool = True, target_language: str = "") -> Document:
    """only_missing: units with a translation stay. target_language: its code, for a file that does not name it. Raises
    NmtError for what is not XLIFF, and for entities, which can make a small file huge."""
    found, data = _Units(path), content.encode()
    found.read(data)
    segments, existing, left = list[Segment](), 0, list[str]()
    unit_number, marker = 0, ""  # what is open before a segment
    for unit in found.units:
        source = data[slice(*unit.source)].decode()
        before, marker = marker if unit.number == unit_number else "", open_marker(source, marker)
        unit_number = unit.number
        if not unit.translated or not source:
            continue
        if only_missing and unit.is_translated:
            existing += 1
            continue
        pieces = _pieces(unit, data, before, only_missing=only_missing)
        if pieces is None:
            left.append(f"left as it is, since an element in it is only partly translate=no: {source!r:.80}")
            continue
        start, stop = unit.target or (unit.source_end, unit.source_end)
        indentation = _INDENTATION.search(data, max(0, unit.source_begin - 200), unit.source_begin)
        white = indentation[0].decode() if indentation else ""
        segments.append(_segment(data, (start, stop), pieces, unit.prefix, white, found.version))
    if found.language_place is not None and any(segment.texts for segment in segments):
        if not target_language:
            raise NmtError(f'{path}: does not name the target language: add it to <xliff>, such as trgLang="de"')
        place = found.language_place
        attribute = f' trgLang="{escape(target_language.replace("_", "-"))}"'
        segments.insert(0, Segment(place, place, [], lambda _: attribute))
    return Document(content, in_characters(data, segments), KEPT, existing, lambda _: left)


class _Units:
    """The units of a document, in its order."""

    def __init__(self, path: Path):
        self.path, self.units, self.version = path, list[_Unit](), "1.2"
        self.language_place: int | None = None  # where trgLang is to be written, if it must be
        self._open, self._translated, self._starts = list[str](), [True], list[int]()
        self._unit_count, self._in_target, self._in_seg_source = 0, False, False
        self._mark: tuple[int, _Mark] | None = None  # the one that is open, and how deep it is
        self._parser = parser = guarded_parser(str(path))  # in UTF-8, whatever encoding the document had
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text

    def read(self, data: bytes) -> None:
        self._data = data
        parse(self._parser, data, str(self.path))

    @property
    def _in(self) -> str:
        return "/".join(self._open[-2:])

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        place = self._parser.CurrentByteIndex
        prefix, _, local = name.rpartition(":")
        self._open.append(local)
        if len(self._open) > _DEEPEST:
            raise NmtError(f"{self.path}: more than {_DEEPEST} elements in one another: not translated")
        if len(self._open) == 1 and local != "xliff":
            raise NmtError(f"{self.path}: not XLIFF: its first element is <{local:.40}>, not <xliff>")
        if local == "xliff":
            self.version = attributes.get("version", self.version)
            if not self.version.startswith("1") and "trgLang" not in attributes:
                self.language_place = end_of_tag(self._data, place) - 1
        wanted = {"no": False, "yes": True}.get(attributes.get("translate", ""), self._translated[-1])
        self._translated.append(wanted)
        self._starts.append(place)
        self._unit_count += local == "unit"
        if local in _UNITS:
            self.units.append(_Unit(wanted, self._unit_count, prefix))
        elif self._in in ("trans-unit/source", "segment/source"):
            self.units[-1].source_begin = place
            self.units[-1].source = end_of_tag(self._data, place), 0
        elif self._in == "trans-unit/seg-source":
            self._in_seg_source = True
            self.units[-1].seg_source = end_of_tag(self._data, place), 0
        elif self._in in ("trans-unit/target", "segment/target"):
            self._in_target = True
            self.units[-1].target = place, 0
            self.units[-1].target_is_copy = attributes.get("state") in _UNTRANSLATED
        elif (self._in_target or self._in_seg_source) and attributes.get("mtype") == "seg" and self._mark is None:
            mark = _Mark(attributes.get("mid", ""), end_of_tag(self._data, place))
            (self.units[-1].target_marks if self._in_target else self.units[-1].marks).append(mark)
            self._mark = len(self._open), mark
        elif local not in _WITHOUT_CONTENT:
            self._content()

    def _text(self, text: str) -> None:
        if text.strip():
            self._content()

    def _content(self) -> None:
        """A text, or a code that is not translated."""
        if self._in_target:
            self.units[-1].target_has_text = True
        if self._mark:
            self._mark[1].has_text = True

    def _end(self, name: str) -> None:
        begun = end_of_tag(self._data, self._starts.pop())
        if self._data[begun - 2 : begun] == b"/>":  # one tag, behind which the parser is
            place = end = begun
        else:
            place = self._parser.CurrentByteIndex
            end = end_of_tag(self._data, place)
        if self._mark and self._mark[0] == len(self._open):
            self._mark[1].stop = place
            self._mark = None
        match self._in:
            case "trans-unit/source" | "segment/source":
                unit = self.units[-1]
                unit.source = unit.source[0], place
                unit.source_end = end
            case "trans-unit/seg-source":  # the target comes after it
                self._in_seg_source = False
                self.units[-1].seg_source = self.units[-1].seg_source[0], place
                self.units[-1].source_end = end
            case "trans-unit/target" | "segment/target":
                self._in_target = False
                unit = self.units[-1]
                assert unit.target is not None
                unit.target = unit.target[0], end
        self._open.pop()
        self._translated.pop()


@dataclass(frozen=True)
class _Piece:
    """What is translated of a unit. write: it with other texts; it raises NotTranslatable."""

    texts: Sequence[TranslatableText]
    write: Callable[[Sequence[str]], str]


def _pieces(unit: _Unit, data: bytes, marker: str, *, only_missing: bool) -> list[_Piece | str] | None:
    """The content of a unit's target: pieces that are translated, and what stays between them. marker: as for
    `protected`. None if the unit cannot be translated."""
    if not unit.marks:
        piece = _piece(data[slice(*unit.source)].decode(), marker)
        return None if piece is None else [piece]
    pieces, end = list[_Piece | str](), unit.seg_source[0]
    for mark in unit.marks:
        pieces.append(data[end : mark.start].decode())
        end = mark.stop
        if only_missing and (there := unit.translations.get(mark.mid)):
            pieces.append(data[there.start : there.stop].decode())
        elif piece := _piece(data[mark.start : mark.stop].decode()):
            pieces.append(piece)
        else:
            return None
    return [*pieces, data[end : unit.seg_source[1]].decode()]


def _piece(source: str, marker: str = "") -> _Piece | None:
    """source: what stands between the tags of an element. marker: as for `protected`. None if it cannot be
    translated."""
    without_data = _CDATA.sub(lambda found: escape(found[1], quote=False), source)
    protection = protected(without_data, marker)
    if protection is None:
        return None
    text, codes = _without_codes(protection.text) if "<" in protection.text else (protection.text, {})
    carriage_return = re.compile("\r(?!\n)" if "\r" in text else "\r")  # that of no line end of the file
    is_marked = "<" in text
    marked = coded(numbered(text), has_tags=True, has_forms=icu.has_forms(text))
    template: Message | Template
    if is_marked:  # Angular has codes in the forms of ICU messages
        template = template_of(icu.parts_of(marked.text) or ["", marked.text], icu.IcuStyle(), "xml")
    else:
        template = message_template(unescape(text))

    # Arguments in what is protected have no numbers.
    order = ArgumentOrder(printf=not any("%" in each for each in protection.texts))

    def write(texts: Sequence[str]) -> str:
        new = template.with_texts(texts)
        if not is_marked:
            return carriage_return.sub("&#13;", escape(new, quote=False))
        new = in_order(marked.restored(new), text, order)
        return protection.restored(_STAND_IN.sub(lambda found: codes[found[0]], new))

    return _Piece(template.texts, write)


def _segment(
    data: bytes, place: tuple[int, int], pieces: Sequence[_Piece | str], prefix: str, before: str, version: str
) -> Segment:
    """place: of the target that is there, or where one can be; pieces: what stands in it; before: a line break and
    white space for a new one."""
    old = data[slice(*place)].decode()

    def write(texts: Sequence[str]) -> str:
        left = iter(texts)
        new = [piece if isinstance(piece, str) else piece.write([next(left) for _ in piece.texts]) for piece in pieces]
        written = "".join(new)
        if not texts:
            return old
        opening = f"{before}<{prefix}:target" if prefix else f"{before}<target"
        if old:
            tag = re.match(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>""", old)
            assert tag is not None
            if old[tag.end() :].startswith(f"{written}</"):
                return old
            opening = tag[0].removesuffix(">").removesuffix("/").rstrip()
        name = opening.split()[0][1:]
        if version.startswith("1"):
            opening = re.sub(r"""\s+state\s*=\s*("[^"]*"|'[^']*')""", "", opening)
            opening += ' state="needs-review-translation"'
        return f"{opening}>{written}</{name}>"

    return Segment(*place, [text for piece in pieces if isinstance(piece, _Piece) for text in piece.texts], write)


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
    """Whether a code begins or ends something, by its element, by the names that Angular gives, or by the tag in it; or
    separates lines."""
    attributes = {name: unescape(one or other) for name, one, other in _ATTRIBUTE.findall(found["attributes"] or "")}
    number, isolated = attributes.get("rid", attributes.get("id", "")), attributes.get("isolated") == "yes"
    name = (found["name"] or "").rpartition(":")[2]
    match name:
        case "bpt" | "bx":
            return "begin", f"{name[1]}{number}"
        case "ept" | "ex":
            return "end", f"{name[1]}{number}"
        case "sc" if not isolated:
            return "begin", f"sc{number}"
        case "ec" if not isolated:
            return "end", f"sc{attributes.get('startRef', '')}"
        case "x" | "ph":
            for text in (attributes.get("equiv", ""), attributes.get("id", "")):
                if of_angular := _ANGULAR.fullmatch(text):
                    return "begin" if of_angular[1] == "START" else "end", of_angular[2]
            shown = unescape(found["content"] or "") or attributes.get("equiv-text", "")
            if (tag := _OF_HTML.fullmatch(shown.strip())) and tag[2].lower() not in VOID:
                return "end" if tag[1] else "begin", f"<{tag[2].lower()}"
    return "between" if found[0].startswith("&") else "alone", ""
