"""Word documents (.docx): the paragraphs of the text, of headers, footers and notes.

Format: ECMA-376, Office Open XML, part 2, Open Packaging Conventions. word_pieces.py reads the paragraphs, and
word_texts.py their texts.
"""

import io
import lzma
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from nmt.documents.document import Document, Segment, in_characters
from nmt.documents.formats import word_pieces, word_texts
from nmt.errors import NmtError
from nmt.files.xml import parse

MOST_BYTES = 256 << 20  # maximum size of an unpacked file
_MOST_FILES = 10_000
_OTHERS = {
    b"\xd0\xcf\x11\xe0": "it is a .doc of Word before 2007, or has a password",
    b"%PDF": "it is a PDF",
    b"{\\rtf": "it is RTF",
}
_WITH_TEXT = ("header", "footer", "footnotes", "endnotes")  # types of relationships to parts with text


def open_archive(data: bytes, path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Document]:
    """The parts with text, by their names. Raises NmtError for a file that is no .docx, or is too large for memory."""
    for start, kind in _OTHERS.items():
        if data.startswith(start):
            raise NmtError(f"{path}: not a .docx: {kind}: open it in a word processor and save it as .docx")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = archive.infolist()
            if len(files) > _MOST_FILES or sum(file.file_size for file in files) > most_bytes:
                raise NmtError(
                    f"{path}: more than {most_bytes >> 20} MiB or {_MOST_FILES:,} files when unpacked: not translated"
                )
            if damaged := archive.testzip():
                raise NmtError(f"{path}: {damaged} in it is damaged: open it in a word processor and save it again")
            contents = {name: archive.read(name).decode() for name in dict.fromkeys(_names(archive, path))}
    except zipfile.BadZipFile as error:
        raise NmtError(f"{path}: not a .docx, which is a ZIP archive: {error}") from None
    except (zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError, ValueError) as error:
        raise NmtError(f"{path}: cannot be read as a Word document: {error}") from None
    return {name: read_part(content, f"{path}: {name}") for name, content in contents.items()}


def with_parts(data: bytes, parts: dict[str, str]) -> bytes:
    """The file with other contents of some parts. Other parts and the order do not change."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(written, "w") as new:
        for file in old.infolist():
            content = parts[file.filename].encode() if file.filename in parts else old.read(file)
            new.writestr(file, content)
    return written.getvalue()


def _names(archive: zipfile.ZipFile, path: Path) -> Iterator[str]:
    """The names of the parts with text: the main part, and the parts that it refers to."""
    names = set(archive.namelist())
    main = [name for type, name in _relationships(archive, "", path) if type == "officeDocument" and name in names]
    if not main:
        raise NmtError(f"{path}: not a Word document: its _rels/.rels names no main document")
    yield main[0]
    yield from (name for type, name in _relationships(archive, main[0], path) if type in _WITH_TEXT and name in names)


def _relationships(archive: zipfile.ZipFile, part: str, path: Path) -> list[tuple[str, str]]:
    """The type and the name of each part that `part` refers to, or the whole file if `part` is empty."""
    folder, name = posixpath.split(part)
    rels_name, relationships = posixpath.join(folder, "_rels", f"{name}.rels"), list[tuple[str, str]]()
    if rels_name not in archive.namelist():
        return []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" Relationship") and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", "")))
            relationships.append((attributes.get("Type", "").rpartition("/")[2], target.lstrip("/")))

    where = f"{path}: {rels_name}"
    parser = word_pieces.part_parser(where)
    parser.StartElementHandler = start
    parse(parser, archive.read(rels_name), where)
    return relationships


def read_part(content: str, where: str) -> Document:
    """Reads a part. where: for messages. Raises NmtError for a part that is not WordprocessingML or could become too
    large."""
    data = content.encode()
    segments = list[Segment]()
    for pieces in word_pieces.paragraphs(data, where):
        segments += word_texts.segments(data, pieces)
    return Document(content, in_characters(data, segments))
