"""XLIFF 1.2 and 2. The translation of a unit is written as its `target`, after the `source`. In version 1.2 it has
`state="needs-review-translation"`. The segments of a `seg-source` are `<mrk mtype="seg" mid="…">`; the target has the
same segments.

Specifications: https://docs.oasis-open.org/xliff/v1.2/os/xliff-core.html and
https://docs.oasis-open.org/xliff/xliff-core/v2.1/xliff-core-v2.1.html
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape, unescape
from itertools import chain, islice
from pathlib import Path

from nmt.documents.document import Document, Segment, Template, TranslatableText, in_characters
from nmt.documents.formats.xliff_protected import open_marker, protected
from nmt.documents.placeholders import icu
from nmt.documents.placeholders.codes import ANGULAR, VOID, Code, coded, stand_ins
from nmt.documents.placeholders.messages import PLACEHOLDERS, Message, message_template, template_from_parts
from nmt.documents.placeholders.printf import ArgumentOrder, in_order, numbered
from nmt.errors import NmtError
from nmt.files.xml import end_of_tag, guarded_parser, parse

_UNITS = ("trans-unit", "segment")
_WITHOUT_CONTENT = ("mrk", "sm", "em", "g", "pc")  # without text of their own; other elements are codes
_UNTRANSLATED = ("new", "needs-translation")  # states of a target that is a copy of the source
_AFTER_NOTES = ("unit/originalData", "unit/segment", "unit/ignorable")  # what can be the first after `<notes>`
_NOTE = re.compile(rb"""<[^<>]*\s(?:from|category)\s*=\s*["']nmt["'][^<>]*>(confidence \d+)""")
_DEEPEST = 500  # maximum depth of nested elements
_INDENTATION = re.compile(rb"(?:\r\n|\n|\r)[ \t]*\Z")  # with the line break before it
_CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
# A code of the document's original format. The model sees one tag instead.
_CODE = re.compile(
    r"""<!--.*?-->|<(?P<name>(?:[\w.-]+:)?(?:ph|bpt|ept|it|ut|x|bx|ex|sc|ec))\b(?!:)
    (?P<attributes>(?:[^<>"'/]|/(?!>)|"[^"]*"|'[^']*')*)
    (?:/>|>(?P<content>.*?)</(?P=name)\s*>)
    |(?:&\#(?:10|x0*[aA]);)*&\#(?:13|x0*[dD]);(?:&\#(?:1[03]|x0*[aAdD]);)*""",
    re.DOTALL | re.VERBOSE,
)
_ATTRIBUTE = re.compile(r"""([\w:.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
_ANGULAR = re.compile(ANGULAR)
_HTML_TAG = re.compile(r"<(/?)([A-Za-z][\w:-]*)(?:[^<>]*[^<>/])?>")
_STAND_IN = re.compile(r"</?x\d+/?>|<cutx\d+/>")


@dataclass
class _Mark:
    """A segment in a `seg-source` or a target: the bytes [start, stop) between its tags."""

    mid: str  # the id of the segment
    start: int
    stop: int = 0
    has_text: bool = False


@dataclass
class _Unit:
    """A unit, or in version 2 a segment of a unit. Offsets are in bytes."""

    translated: bool  # whether the unit is to be translated
    number: int  # of the `<trans-unit>`, or in version 2 of the `<unit>`
    prefix: str  # of the names of its elements, with the colon
    source_begin: int = 0  # of the source's start tag
    source: tuple[int, int] = (0, 0)  # between the tags
    source_end: int = 0  # after the end tag of the source or the seg-source
    seg_source: tuple[int, int] = (0, 0)  # between the tags
    marks: list[_Mark] = field(default_factory=list)  # of seg-source
    target: tuple[int, int] | None = None  # with the tags
    target_has_text: bool = False
    target_is_copy: bool = False  # of the source
    target_marks: list[_Mark] = field(default_factory=list)

    @cached_property
    def translations(self) -> dict[str, _Mark]:
        """The translated segments of the target, by their ids."""
        return {} if self.target_is_copy else {mark.mid: mark for mark in self.target_marks if mark.has_text}

    @property
    def is_translated(self) -> bool:
        if not self.target_has_text or self.target_is_copy:
            return False
        if not self.marks or not self.target_marks:
            return True
        return all(mark.mid in self.translations for mark in self.marks if mark.has_text)


def read(content: str, path: Path, *, only_missing: bool = True, target_language: str = "") -> Document:
    """Reads an XLIFF file. only_missing: existing translations stay. target_language: the code for a file that does not
    name it. Raises NmtError for content that is not XLIFF, and for entities, which can make a small file huge."""
    data = content.encode()
    reader = _Reader(path, data)
    segments, existing, untranslated = list[Segment](), 0, list[str]()
    unit_number, marker = 0, ""  # marker: the `<sm>` that is open before a segment
    for unit in reader.units:
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
            untranslated.append(f"not translated, because an element in it is only partly translate=no: {source!r:.80}")
            continue
        start, stop = unit.target or (unit.source_end, unit.source_end)
        white = _white_before(data, unit.source_begin)
        segments.append(_segment(data, (start, stop), pieces, unit, white, reader.version))
        note = f'{white}<{unit.prefix}note from="nmt">{{}}</{unit.prefix}note>'
        reader.notes.setdefault(unit.number, _note((stop, stop), note, unit.number))
    if reader.language_offset is not None and any(segment.texts for segment in segments):
        if not target_language:
            raise NmtError(f'{path}: does not name the target language: add it to <xliff>, such as trgLang="de"')
        attribute = f' trgLang="{escape(target_language.replace("_", "-"))}"'
        segments.insert(0, Segment(reader.language_offset, reader.language_offset, [], lambda _: attribute))
    segments, notes = in_characters(data, segments), in_characters(data, reader.notes.values())
    return Document(content, segments, PLACEHOLDERS, existing, lambda _: untranslated, notes)


def _note(span: tuple[int, int], form: str, unit: int) -> Segment:
    return Segment(*span, [], lambda texts: form.format(*texts), unit)


def _white_before(data: bytes, offset: int) -> str:
    """The line break and the indentation before an offset."""
    indentation = _INDENTATION.search(data, max(0, offset - 200), offset)
    return indentation[0].decode() if indentation else ""


class _Reader:
    """Reads the units of a document in UTF-8, in order."""

    def __init__(self, path: Path, data: bytes):
        self.path, self.units, self.version = path, list[_Unit](), "1.2"
        self.language_offset: int | None = None  # where trgLang must be written; None if it is present or not needed
        self._data = data
        self._open, self._translated, self._starts = list[str](), [True], list[int]()
        self.notes = dict[int, Segment]()  # by unit
        self._unit_count, self._in_target, self._in_seg_source = 0, False, False
        self._mark: tuple[int, _Mark] | None = None  # the open mark and its depth
        self._parser = parser = guarded_parser(str(path))  # in UTF-8, even if the document declares another encoding
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._text
        parse(parser, data, str(path))

    @property
    def _in(self) -> str:
        return "/".join(self._open[-2:])

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        start = self._parser.CurrentByteIndex
        prefix, colon, local = name.rpartition(":")
        self._open.append(local)
        if len(self._open) > _DEEPEST:
            raise NmtError(f"{self.path}: more than {_DEEPEST} nested elements: not translated")
        if len(self._open) == 1 and local != "xliff":
            raise NmtError(f"{self.path}: not XLIFF: its first element is <{local:.40}>, not <xliff>")
        if local == "xliff":
            self.version = attributes.get("version", self.version)
            if not self.version.startswith("1") and "trgLang" not in attributes:
                self.language_offset = end_of_tag(self._data, start) - 1
        translated = {"no": False, "yes": True}.get(attributes.get("translate", ""), self._translated[-1])
        self._translated.append(translated)
        self._starts.append(start)
        self._unit_count += local in ("trans-unit", "unit")
        self._find_note(prefix + colon, start)
        if local in _UNITS:
            self.units.append(_Unit(translated, self._unit_count, prefix + colon))
        elif self._in in ("trans-unit/source", "segment/source"):
            self.units[-1].source_begin = start
            self.units[-1].source = end_of_tag(self._data, start), 0
        elif self._in == "trans-unit/seg-source":
            self._in_seg_source = True
            self.units[-1].seg_source = end_of_tag(self._data, start), 0
        elif self._in in ("trans-unit/target", "segment/target"):
            self._in_target = True
            self.units[-1].target = start, 0
            self.units[-1].target_is_copy = attributes.get("state") in _UNTRANSLATED
        elif (self._in_target or self._in_seg_source) and attributes.get("mtype") == "seg" and self._mark is None:
            mark = _Mark(attributes.get("mid", ""), end_of_tag(self._data, start))
            (self.units[-1].target_marks if self._in_target else self.units[-1].marks).append(mark)
            self._mark = len(self._open), mark
        elif local not in _WITHOUT_CONTENT:
            self._content()

    def _find_note(self, prefix: str, start: int) -> None:
        """Finds the note of nmt in a unit, or else, in version 2, where it is inserted: before the first other note."""
        path, unit = "/".join(self._open[-3:]), self._unit_count
        is_note = path == "unit/notes/note"
        if (is_note or path.endswith("/trans-unit/note")) and (old := _NOTE.match(self._data, start)):
            self.notes[unit] = _note(old.span(1), "{}", unit)
        elif is_note or self._in in _AFTER_NOTES:
            white, form = _white_before(self._data, start), f'<{prefix}note category="nmt">{{}}</{prefix}note>'
            form = white + (form if is_note else f"<{prefix}notes>{form}</{prefix}notes>")
            self.notes.setdefault(unit, _note((start - len(white), start - len(white)), form, unit))

    def _text(self, text: str) -> None:
        if text.strip():
            self._content()

    def _content(self) -> None:
        """Notes text, or a code that is not translated."""
        if self._in_target:
            self.units[-1].target_has_text = True
        if self._mark:
            self._mark[1].has_text = True

    def _end(self, name: str) -> None:
        after_start_tag = end_of_tag(self._data, self._starts.pop())
        if self._data[after_start_tag - 2 : after_start_tag] == b"/>":  # an empty-element tag; the parser is after it
            end_tag = end = after_start_tag
        else:
            end_tag = self._parser.CurrentByteIndex
            end = end_of_tag(self._data, end_tag)
        if self._mark and self._mark[0] == len(self._open):
            self._mark[1].stop = end_tag
            self._mark = None
        match self._in:
            case "trans-unit/source" | "segment/source":
                unit = self.units[-1]
                unit.source = unit.source[0], end_tag
                unit.source_end = end
            case "trans-unit/seg-source":  # the target comes after it
                self._in_seg_source = False
                self.units[-1].seg_source = self.units[-1].seg_source[0], end_tag
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
    """A part of a unit that is translated."""

    texts: Sequence[TranslatableText]
    write: Callable[[Sequence[str]], str]  # returns the piece with other texts, or raises NotTranslatable


def _pieces(unit: _Unit, data: bytes, marker: str, *, only_missing: bool) -> list[_Piece | str] | None:
    """The content of a unit's target: pieces that are translated, and strings between them that do not change. None if
    the unit cannot be translated. marker: as for `protected`."""
    if not unit.marks:
        piece = _piece(data[slice(*unit.source)].decode(), marker)
        return None if piece is None else [piece]
    pieces, end = list[_Piece | str](), unit.seg_source[0]
    for mark in unit.marks:
        pieces.append(data[end : mark.start].decode())
        end = mark.stop
        if only_missing and (translation := unit.translations.get(mark.mid)):
            pieces.append(data[translation.start : translation.stop].decode())
        elif piece := _piece(data[mark.start : mark.stop].decode()):
            pieces.append(piece)
        else:
            return None
    return [*pieces, data[end : unit.seg_source[1]].decode()]


def _piece(source: str, marker: str = "") -> _Piece | None:
    """The piece of an element's content, or None if it cannot be translated. marker: as for `protected`."""
    without_data = _CDATA.sub(lambda data: escape(data[1], quote=False), source)
    protection = protected(without_data, marker)
    if protection is None:
        return None
    text, codes = _without_codes(protection.text) if "<" in protection.text else (protection.text, {})
    carriage_return = re.compile("\r(?!\n)" if "\r" in text else "\r")  # not in a line break of the file
    is_marked = "<" in text
    marked = coded(numbered(text), has_tags=True, has_forms=icu.has_forms(text))
    template: Message | Template
    if is_marked:  # Angular has codes in the forms of ICU messages
        template = template_from_parts(icu.split_message(marked.text) or ["", marked.text], icu.IcuStyle(), "xml")
    else:
        template = message_template(unescape(text))

    # Arguments in protected text get no numbers.
    order = ArgumentOrder(printf=not any("%" in protected_text for protected_text in protection.texts))

    def write(texts: Sequence[str]) -> str:
        new = template.with_texts(texts)
        if not is_marked:
            return carriage_return.sub("&#13;", escape(new, quote=False))
        new = in_order(marked.restored(new), text, order)
        return protection.restored(_STAND_IN.sub(lambda tag: codes[tag[0]], new))

    return _Piece(template.texts, write)


def _segment(
    data: bytes, span: tuple[int, int], pieces: Sequence[_Piece | str], unit: _Unit, before: str, version: str
) -> Segment:
    """The segment of a target. span: of the existing target, or where a new one is inserted. pieces: its content.
    before: a line break and white space before a new target."""
    old = data[slice(*span)].decode()

    def write(texts: Sequence[str]) -> str:
        remaining, written = iter(texts), ""
        for piece in pieces:
            written += piece if isinstance(piece, str) else piece.write(list(islice(remaining, len(piece.texts))))
        if not texts:
            return old
        opening = f"{before}<{unit.prefix}target"
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

    texts = chain.from_iterable(piece.texts for piece in pieces if isinstance(piece, _Piece))
    return Segment(*span, list(texts), write, unit.number)


def _without_codes(source: str) -> tuple[str, dict[str, str]]:
    """Replaces the codes of a source by tags; a pair of codes becomes an element. Returns the text, and the codes by
    their tags."""
    matches = list(_CODE.finditer(source))
    tags = stand_ins([_kind(match) for match in matches], "x", "cutx")
    text, codes, end = list[str](), dict[str, str](), 0
    for tag, match in zip(tags, matches, strict=True):
        text += source[end : match.start()], tag
        codes[tag] = match[0]
        end = match.end()
    return "".join([*text, source[end:]]), codes


def _kind(code: re.Match[str]) -> Code:
    """The kind and the name of a code, by its element, by the names of Angular, or by the tag in it."""
    attributes = {
        name: unescape(double or single) for name, double, single in _ATTRIBUTE.findall(code["attributes"] or "")
    }
    id_, isolated = attributes.get("rid", attributes.get("id", "")), attributes.get("isolated") == "yes"
    name = (code["name"] or "").rpartition(":")[2]
    match name:
        case "bpt" | "bx":
            return "begin", f"{name[1]}{id_}"
        case "ept" | "ex":
            return "end", f"{name[1]}{id_}"
        case "sc" if not isolated:
            return "begin", f"sc{id_}"
        case "ec" if not isolated:
            return "end", f"sc{attributes.get('startRef', '')}"
        case "x" | "ph":
            for text in (attributes.get("equiv", ""), attributes.get("id", "")):
                if angular_name := _ANGULAR.fullmatch(text):
                    return "begin" if angular_name[1] == "START" else "end", angular_name[2]
            content = unescape(code["content"] or "") or attributes.get("equiv-text", "")
            if (tag := _HTML_TAG.fullmatch(content.strip())) and tag[2].lower() not in VOID:
                return "end" if tag[1] else "begin", f"<{tag[2].lower()}"
    return "between" if code[0].startswith("&") else "alone", ""  # "&": line breaks
