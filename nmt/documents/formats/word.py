"""Documents of Word (.docx): the paragraphs of the text, of headers, footers and notes.

Format: ECMA-376, Office Open XML, part 2, Open Packaging Conventions. The paragraphs are read by
nmt.documents.formats.word_pieces, and their texts by nmt.documents.formats.word_texts.
"""

import io
import lzma
import posixpath
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

from nmt.documents.document import Document, in_characters
from nmt.documents.formats import word_pieces, word_texts
from nmt.errors import NmtError
from nmt.files.xml import parse

MOST_BYTES = 256 << 20  # of a file, unpacked
_MOST_FILES = 10_000
_OTHERS = {
    b"\xd0\xcf\x11\xe0": "it is a .doc of Word before 2007, or has a password",
    b"%PDF": "it is a PDF",
    b"{\\rtf": "it is RTF",
}
_WITH_TEXT = ("header", "footer", "footnotes", "endnotes")  # types of relationships


def open_archive(data: bytes, path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Document]:
    """The parts with text, by their names. Raises NmtError for what is no such file, and for one that would be too
    large in memory."""
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
            found = {name: archive.read(name).decode() for name in dict.fromkeys(_names(archive, path))}
    except zipfile.BadZipFile as error:
        raise NmtError(f"{path}: not a .docx, which is a ZIP archive: {error}") from None
    except (zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError, ValueError) as error:
        raise NmtError(f"{path}: not a document of Word that can be read: {error}") from None
    return {name: read_part(content, f"{path}: {name}") for name, content in found.items()}


def with_parts(data: bytes, parts: dict[str, str]) -> bytes:
    """The file with other contents of some parts. The rest of it, and the order, stay."""
    written = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(written, "w") as new:
        for file in old.infolist():
            content = parts[file.filename].encode() if file.filename in parts else old.read(file)
            new.writestr(file, content)
    return written.getvalue()


def _names(archive: zipfile.ZipFile, path: Path) -> Iterator[str]:
    """The parts with text: the main one, and those that it names."""
    names = set(archive.namelist())
    main = [name for type, name in _relationships(archive, "", path) if type == "officeDocument" and name in names]
    if not main:
        raise NmtError(f"{path}: not a document of Word: _rels/.rels in it names no main document")
    yield main[0]
    yield from (name for type, name in _relationships(archive, main[0], path) if type in _WITH_TEXT and name in names)


def _relationships(archive: zipfile.ZipFile, part: str, path: Path) -> list[tuple[str, str]]:
    """The type and the name of each part that a part names; those that the file names, if `part` is empty."""
    folder, name = posixpath.split(part)
    relationships, found = posixpath.join(folder, "_rels", f"{name}.rels"), list[tuple[str, str]]()
    if relationships not in archive.namelist():
        return []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name.endswith(" Relationship") and attributes.get("TargetMode") != "External":
            target = posixpath.normpath(posixpath.join("/", folder, attributes.get("Target", "")))
            found.append((attributes.get("Type", "").rpartition("/")[2], target.lstrip("/")))

    parser = word_pieces.part_parser(where := f"{path}: {relationships}")
    parser.StartElementHandler = start
    parse(parser, archive.read(relationships), where)
    return found


def read_part(content: str, where: str) -> Document:
    """The texts of a part. where: for messages. Raises NmtError for what is no text of Word, and for what could become
    too large."""
    data = content.encode()
    segments = [
        segment for pieces in word_pieces.paragraphs(data, where) for segment in word_texts.segments(data, pieces)
    ]
    return Document(content, in_characters(data, segments))
