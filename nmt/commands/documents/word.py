"""Documents of Word (.docx): the paragraphs of the text, of headers, footers and notes. Each run, which is text of one
look, is an element in the text of its paragraph, so that the look goes with the words.

Format: ECMA-376, Office Open XML, part 1, WordprocessingML.
"""

import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape, unescape
from pathlib import Path
from xml.parsers import expat

from nmt.commands.documents.document import Document, Segment, Text
from nmt.errors import NmtError

_PARTS = re.compile(r"word/(?:document|header\d*|footer\d*|footnotes|endnotes)\.xml")
MOST_BYTES = 256 << 20  # of a file, unpacked
_MOST_FILES, _DEEPEST = 10_000, 1_000
_PARAGRAPH = re.compile(r"<w:p(?:\s[^<>]*[^<>/])?>|</w:p>")
# Runs of text alone, and what is read together with them. Whatever else is in a paragraph is one tag in its text.
_RUN = re.compile(
    r"<w:r(?:\s[^<>]*)?>(?P<look>(?:<w:rPr>(?:(?!</w:rPr>|<w:r>).)*</w:rPr>)?)"
    r"<w:t(?:\s[^<>]*)?>(?P<text>[^<>]*)</w:t></w:r>(?:<w:proofErr [^<>]*/>)*",
    re.DOTALL,
)
_TAG = re.compile(r"<[^!?<>][^<>]*>")
_LINK = re.compile(r"<w:hyperlink(?:\s[^<>]*[^<>/])?>|</w:hyperlink>")
_TOKEN = re.compile(r'<r i="(\d+)">|(</r>)|<x i="(\d+)"/>|<h i="(\d+)">|(</h>)|([^<]+)')
_LANGUAGE = re.compile(r"<w:lang [^<>]*/>|<w:noProof/>")


def open_archive(data: bytes, path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Document]:
    """The parts with text, by their names. Raises NmtError for what is no such file, and for one that would be too
    large in memory."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = archive.infolist()
            if len(files) > _MOST_FILES or sum(file.file_size for file in files) > most_bytes:
                raise NmtError(
                    f"{path}: more than {most_bytes >> 20} MiB or {_MOST_FILES:,} files when unpacked: not translated"
                )
            found = {file.filename: archive.read(file).decode() for file in files if _PARTS.fullmatch(file.filename)}
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, UnicodeDecodeError, ValueError) as error:
        raise NmtError(f"{path}: not a document of Word: {error}") from None
    if "word/document.xml" not in found:
        raise NmtError(f"{path}: not a document of Word: it has no word/document.xml")
    for name, content in found.items():
        _check(content, path, name)
    return {name: _read(content) for name, content in found.items()}


def with_parts(data: bytes, parts: dict[str, str]) -> bytes:
    """The file with other contents of some parts. The rest of it, and the order, stay."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(written, "w") as new:
        for file in old.infolist():
            content = parts[file.filename].encode() if file.filename in parts else old.read(file)
            new.writestr(file, content)
    return written.getvalue()


def _check(content: str, path: Path, name: str) -> None:
    """Raises NmtError for a part that is not XML, that has entities, or that is nested too deeply."""
    depth = 0

    def start(*_: object) -> None:
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise NmtError(f"{path}: {name}: more than {_DEEPEST:,} elements in one another: not translated")

    def end(*_: object) -> None:
        nonlocal depth
        depth -= 1

    def entity(*_: object) -> None:
        raise NmtError(f"{path}: {name}: declares entities: not translated")

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler, parser.EntityDeclHandler = start, end, entity
    try:
        parser.Parse(content.encode(), True)
    except expat.ExpatError as error:
        raise NmtError(f"{path}: {name}: not XML: {error}") from None


def _read(content: str) -> Document:
    """The paragraphs of a part. Of one that holds others, as those with a text box, these alone are read."""
    segments, begun = list[Segment](), -1
    for tag in _PARAGRAPH.finditer(content):
        if tag[0] != "</w:p>":
            begun = tag.end()
        elif begun >= 0:
            segments += _segments(content, begun, tag.start())
            begun = -1
    return Document(content, segments)


def _segments(content: str, start: int, stop: int) -> Iterator[Segment]:
    """The texts of a paragraph: its runs, from one boundary to the next. A boundary is what could not be moved among
    words: a tag of an element that goes on, as of an insertion, and the codes of a field."""
    runs = list(_RUN.finditer(content, start, stop))
    links = list(_LINK.finditer(content, start, stop))
    for pieces in _groups(content, sorted([*runs, *links], key=re.Match.start)):
        if sum(piece.re is _LINK and (-1 if piece[0].startswith("</") else 1) for piece in pieces):
            # A link that goes on is a boundary.
            for part in _groups(content, [piece for piece in pieces if piece.re is _RUN]):
                yield from _segment(content, part)
        else:
            yield from _segment(content, pieces)


def _groups(content: str, pieces: Sequence[re.Match[str]]) -> Iterator[list[re.Match[str]]]:
    group = list[re.Match[str]]()
    for piece in pieces:
        if group and not _can_move(content[group[-1].end() : piece.start()]):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group


def _can_move(between: str) -> bool:
    """Whether it is a sequence of elements."""
    depth = 0
    for tag in _TAG.findall(between):
        depth += -1 if tag.startswith("</") else not tag.endswith("/>")
        if depth < 0:
            return False
    return not depth and "<w:fldChar" not in between


def _segment(content: str, pieces: Sequence[re.Match[str]]) -> Iterator[Segment]:
    """The text of runs and links, if they have any."""
    runs = [piece for piece in pieces if piece.re is _RUN]
    if not any(map(str.isalpha, unescape("".join(run["text"] for run in runs)))):
        return
    start, stop = pieces[0].start(), pieces[-1].end()
    plain = _most_common_look(runs)
    looks, others, text, end = list[str](), list[str](), "", start
    for piece in pieces:
        if between := content[end : piece.start()]:
            text += f'<x i="{len(others)}"/>'
            others.append(between)
        if piece.re is _LINK:
            closes = piece[0] == "</w:hyperlink>"
            text += "</h>" if closes else f'<h i="{len(others)}">'
            others += [] if closes else [piece[0]]
        elif _same(piece["look"], plain):
            text += piece["text"]
        elif text.endswith("</r>") and _same(looks[-1], piece["look"]):
            text = f"{text.removesuffix('</r>')}{piece['text']}</r>"
        else:
            text += f'<r i="{len(looks)}">{piece["text"]}</r>'
            looks.append(piece["look"])
        end = piece.end()
    is_marked = "<" in text
    source = Text(text, "xml") if is_marked else Text(unescape(text))

    def write(texts: Sequence[str]) -> str:
        if texts[0] == source.text:
            return content[start:stop]
        return _runs(texts[0] if is_marked else escape(texts[0], quote=False), plain, looks, others)

    yield Segment(start, stop, [source], write)


def _same(look: str, other: str) -> bool:
    """Whether two looks differ at most in the language, which Word notes of each run."""
    return look == other or _LANGUAGE.sub("", look) == _LANGUAGE.sub("", other)


def _most_common_look(runs: Sequence[re.Match[str]]) -> str:
    """The look of most characters of a paragraph."""
    lengths = Counter[str]()
    for run in runs:
        lengths[run["look"]] += len(run["text"])
    return lengths.most_common(1)[0][0]


def _runs(text: str, plain: str, looks: Sequence[str], others: Sequence[str]) -> str:
    """WordprocessingML of a paragraph's text. Words in no run have the plain look."""
    written, look = "", plain
    for run, ends, other, link, closed, words in _TOKEN.findall(text):
        if run:
            look = looks[int(run)]
        elif ends:
            look = plain
        elif other or link:
            written += others[int(other or link)]
        elif closed:
            written += "</w:hyperlink>"
        elif words:
            written += f'<w:r>{look}<w:t xml:space="preserve">{words}</w:t></w:r>'
    return written
