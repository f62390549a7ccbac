"""The paragraphs of a part of a Word document, split into pieces: text of one look, and the elements in and around it.

Format: ECMA-376, Office Open XML, part 1, WordprocessingML (chapter 17).
"""

import re
from dataclasses import dataclass, field
from typing import Literal
from xml.parsers import expat

from nmt.errors import NmtError
from nmt.files.xml import end_of_tag, guarded_parser, parse

_NAMESPACES = (
    "http://schemas.openxmlformats.org/wordprocessingml/2006/main",
    "http://purl.oclc.org/ooxml/wordprocessingml/main",  # files saved as strict
)
_DEEPEST = 500  # maximum depth of nested elements
# Elements around runs. The text of other elements in a paragraph, for example deletions, is not read.
_CONTAINERS = frozenset(["bdo", "customXml", "dir", "fldSimple", "hyperlink", "ins", "moveTo", "sdt", "sdtContent", "smartTag"])  # fmt: skip # noqa: E501
_BREAKS = frozenset(["br", "cr", "ptab", "tab"])
# Soft hyphens and page breaks of the last layout are removed, because their positions depend on the original words.
_SPELLED = {"lastRenderedPageBreak": "", "noBreakHyphen": "-", "softHyphen": ""}
_RANGE = re.compile("(.+)(Start|End)")  # such as bookmarkStart
_FIELD: dict[str, "Kind"] = {"begin": "start", "separate": "separator", "end": "end"}
_WHITE = str.maketrans("\t\r\n", "   ")
# Properties of a run that are not visible: its language, and the font that Word uses for quotation marks.
_UNSEEN = re.compile(
    r'<(?:[\w.-]+:)?(?:(?:lang|noProof)(?:\s[^<>]*)?|rFonts\s+(?:[\w.-]+:)?hint="\w*"\s*)/>|(?<=>)\s+(?=<)'
)
_NO_LOOK = re.compile(r"<[^<>/]*/>|<[^<>/]*></[^<>/]*>")

Kind = Literal["text", "start", "separator", "end", "item", "break"]
_Role = Literal[
    "around", "paragraph", "container", "run", "look", "words", "ruby", "formula", "shown", "item", "in item"
]

_IN_RUN: dict[str, _Role] = {"rPr": "look", "t": "words", "ruby": "ruby"}


@dataclass
class Run:
    """Text of one look."""

    name: str  # of its element, with the prefix
    opening: str  # the start tag and the properties, as in the part
    look: str = ""  # the visible properties

    @property
    def closing(self) -> str:
        return f"</{self.name}>"

    def with_words(self, words: str) -> str:
        """The run with other words, which are escaped for XML."""
        text = f"{self.name.removesuffix('r')}t"
        return f'{self.opening}<{text} xml:space="preserve">{words}</{text}>{self.closing}'


@dataclass
class Piece:
    """The bytes [start, stop) of a part.

    kind: "text"; the "start" and the "end" of something around text, such as a link, a field or a comment, and the
    "separator" between the code of a field and the text that it shows; an "item" among words; or a "break", which ends
    a text.
    """

    kind: Kind
    start: int
    stop: int
    text: str = ""  # visible text
    key: str = ""  # equal for a start and its end
    is_element: bool = False  # a start or an end that is a tag of an element
    is_field: bool = False
    run: Run | None = None  # the run that contains the piece
    starts_run: bool = False  # the piece is the first one of its run
    ends_run: bool = False  # the piece is the last one of its run


@dataclass
class _Element:
    name: str
    role: _Role
    start: int
    attributes: dict[str, str]


@dataclass
class _Paragraph:
    """A paragraph while it is read."""

    pieces: list[Piece] = field(default_factory=list)
    run: Run | None = None  # the current run
    run_start: int = 0  # byte offset
    first: int = 0  # index of the first piece of the run
    text: list[str] = field(default_factory=list)  # of the current item
    holds_others: bool = False  # other paragraphs are inside the current item


def paragraphs(data: bytes, where: str) -> list[list[Piece]]:
    """The pieces of each paragraph of a part in UTF-8, in order. where: for messages.

    Raises NmtError for content that is not WordprocessingML, for entities, and for elements that are nested too deeply.
    """
    return _Reader(data, where).paragraphs


def part_parser(where: str) -> expat.XMLParserType:
    """A guarded parser that raises NmtError for encodings other than UTF-8. It reports names as namespace, space,
    name."""

    def declaration(version: str, encoding: str | None, standalone: int) -> None:
        if encoding is not None and encoding.lower() not in ("utf-8", "utf8", "us-ascii"):
            raise NmtError(f"{where}: is in {encoding}, not in UTF-8: not translated")

    parser = guarded_parser(where, separator=" ")
    parser.XmlDeclHandler = declaration
    return parser


class _Reader:
    def __init__(self, data: bytes, where: str):
        self.paragraphs: list[list[Piece]] = []
        self._data, self._where = data, where
        # A paragraph in a text box is inside another paragraph.
        self._elements, self._open = list[_Element](), list[_Paragraph]()
        self._parser = parser = part_parser(where)
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = self._characters
        parse(parser, data, where)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        namespace, _, local = name.rpartition(" ")
        if not self._elements and namespace not in _NAMESPACES:
            raise NmtError(f"{self._where}: begins with <{local}>, which is not WordprocessingML: not translated")
        if len(self._elements) == _DEEPEST:
            raise NmtError(f"{self._where}: more than {_DEEPEST:,} nested elements: not translated")
        name = local if namespace in _NAMESPACES or local == "oMath" else name
        around = self._elements[-1].role if self._elements else "around"
        role = _role(name, around)
        element = _Element(name, role, self._parser.CurrentByteIndex, attributes)
        self._elements.append(element)
        if role == "paragraph":
            if self._open:
                outer = self._open[-1]
                outer.holds_others = around not in ("paragraph", "container", "run")
                outer.pieces.append(Piece("break", element.start, element.start, run=outer.run))
            self._open.append(_Paragraph())
        elif role in ("run", "container"):
            paragraph, stop = self._open[-1], end_of_tag(self._data, element.start)
            if role == "run":
                opening = self._data[element.start : stop].decode()
                paragraph.run = Run(re.split(r"[\s/>]", opening[1:], maxsplit=1)[0], opening)
                paragraph.run_start, paragraph.first = element.start, len(paragraph.pieces)
            else:
                self._add(element, Piece("start", element.start, stop))

    def _characters(self, text: str) -> None:
        if self._elements[-1].role in ("words", "shown"):
            self._open[-1].text.append(text)

    def _end(self, _: str) -> None:
        element = self._elements.pop()
        if element.role in ("around", "shown", "in item"):
            return
        end_tag, stop = self._parser.CurrentByteIndex, end_of_tag(self._data, element.start)
        if self._data[stop - 2 : stop] == b"/>":  # an empty-element tag
            end_tag = stop
        else:
            stop = self._data.index(b">", end_tag) + 1
        paragraph = self._open[-1]
        if element.role == "paragraph":
            self.paragraphs.append(self._open.pop().pieces)
        elif element.role == "run":
            _end_run(paragraph, stop)
        elif element.role == "container":
            self._add(element, Piece("end", end_tag, stop))
        else:
            text = "".join(paragraph.text).translate(_WHITE)
            holds_others, paragraph.text, paragraph.holds_others = paragraph.holds_others, [], False
            if not holds_others:  # otherwise the texts of the inner paragraphs come at this position
                self._end_item(element, stop, text if element.role == "words" else " ".join(text.split()))

    def _end_item(self, element: _Element, stop: int, text: str) -> None:
        """text: the visible text."""
        pieces, run = self._open[-1].pieces, self._open[-1].run
        if element.role == "look" and run is not None and len(pieces) == self._open[-1].first:
            run.opening = self._data[self._open[-1].run_start : stop].decode()
            look = _UNSEEN.sub("", self._data[element.start : stop].decode())
            run.look = "" if _NO_LOOK.fullmatch(look) else look
        elif run is None and element.name.endswith("Pr") and pieces and pieces[-1].is_element:
            pieces[-1].stop = stop  # the properties of the element that starts with the piece
        elif element.name != "proofErr":  # marks of the spelling checker are ignored
            self._add(element, _item(element, stop, text, in_run=run is not None))

    def _add(self, element: _Element, piece: Piece) -> None:
        piece.run = self._open[-1].run
        if element.role == "container":
            piece.key, piece.is_element = f"{len(self._elements) - (piece.kind == 'start')}", True
            piece.is_field = element.name == "fldSimple"
        self._open[-1].pieces.append(piece)


def _role(name: str, around: _Role) -> _Role:
    """The role of an element. around: the role of its parent."""
    if name == "p":
        return "paragraph"
    match around:
        case "paragraph" | "container" if name == "r":
            return "run"
        case "paragraph" | "container" if name in _CONTAINERS:
            return "container"
        case "paragraph" | "container" if name == "oMath":
            return "formula"
        case "run" if name in _IN_RUN:
            return _IN_RUN[name]
        case "paragraph" | "container" | "run":
            return "item"
        case "around":
            return "around"
        case "formula" | "shown":
            return "shown"
        case "ruby" if name == "rubyBase":  # without the pronunciation, which the translation does not need
            return "shown"
    return "in item"


def _item(element: _Element, stop: int, text: str, *, in_run: bool) -> Piece:
    name, start = element.name, element.start
    attributes = {key.rpartition(" ")[2]: value for key, value in element.attributes.items()}
    if element.role in ("words", "ruby"):
        return Piece("text", start, stop, text)
    if in_run and name in _SPELLED:
        return Piece("text", start, stop, _SPELLED[name])
    if in_run and name == "fldChar":
        kind = _FIELD.get(attributes.get("fldCharType", ""), "break")
        return Piece(kind, start, stop, key="field", is_field=True)
    if not in_run and (range_tag := _RANGE.fullmatch(name)):
        kind = "start" if range_tag[2] == "Start" else "end"
        return Piece(kind, start, stop, key=f"{range_tag[1]} {attributes.get('id', '')}")
    is_break = name in _BREAKS if in_run else name.endswith("Pr")
    return Piece("break" if is_break else "item", start, stop, text)


def _end_run(paragraph: _Paragraph, stop: int) -> None:
    """Extends the first and the last piece of the run to the run's tags."""
    if pieces := paragraph.pieces[paragraph.first :]:
        pieces[0].start, pieces[0].starts_run = paragraph.run_start, True
        pieces[-1].stop, pieces[-1].ends_run = stop, True
    paragraph.run = None
