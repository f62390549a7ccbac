"""The encoding of a document: that of its byte order mark, else UTF-8, else the one that the document declares."""

import codecs
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import NmtError

log = logging.getLogger("nmt")

_MARKS = {  # UTF-32 first, because one of its marks begins with a mark of UTF-16
    b"\xff\xfe\0\0": "utf-32-le",
    b"\0\0\xfe\xff": "utf-32-be",
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
_HEAD = 1 << 16  # an encoding is declared in this many first bytes or characters
_ASCII = bytes(range(32, 127))
# Documents that declare the first are often in the second, a superset. https://encoding.spec.whatwg.org/
_LARGER = {"iso8859-1": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}
_CONTROLS = re.compile("[\x80-\x9f]")  # control characters that no text contains


@dataclass(frozen=True)
class Encoding:
    """The encoding of a document, and how the document declares it."""

    codec: str  # Python's name
    mark: bytes = b""  # the byte order mark
    declaration: re.Pattern[str] | None = None  # group 1 finds the name of the encoding in the document

    def encoded(self, content: str, path: Path) -> bytes:
        """A document as bytes. If the encoding lacks a character, the document is written in UTF-8 and declares UTF-8,
        and this is logged."""
        try:
            return self.mark + content.encode(self.codec)
        except UnicodeEncodeError:
            if self.declaration is None:
                raise
        log.info("%s: written in UTF-8, not %s", path, _declared(content, self.declaration))
        head = self.declaration.sub(_with_utf_8, content[:_HEAD])
        return (head + content[_HEAD:]).encode()


def decoded(data: bytes, path: Path, declaration: re.Pattern[str] | None = None) -> tuple[str, Encoding]:
    """The text of a document and its encoding. declaration: as in Encoding. Raises NmtError if the document is not
    UTF-8, has no byte order mark, and is not in the encoding that it declares."""
    for mark, codec in _MARKS.items():
        if data.startswith(mark):
            return _decoded(data[len(mark) :], codec, path), Encoding(codec, mark)
    if data.startswith(b"PK\3\4"):
        raise NmtError(f"{path}: a ZIP archive, such as a .docx, not text: give it the extension of its format")
    if b"\0" in data:
        high, low = data[:_HEAD:2].count(0), data[1:_HEAD:2].count(0)  # zeros in the high and low bytes of UTF-16BE
        if max(high, low) <= 2 * min(high, low):
            raise NmtError(f"{path}: not text, because it has zero bytes: give it the extension of its format")
        codec = "UTF-16BE" if high else "UTF-16LE"
        raise NmtError(f"{path}: perhaps UTF-16 without a byte order mark: convert it: iconv -f {codec} -t UTF-8")
    name = _declared(data[:_HEAD].decode("latin-1"), declaration) if declaration else ""
    declared = _codec(name) if name else "utf-8"
    if data.isascii():  # or in an encoding that uses only ASCII bytes, such as ISO-2022-JP
        return _decoded(data, declared or "ascii", path), Encoding(declared or "ascii", b"", declaration)
    try:
        # UTF-8 is tried before the declared encoding, because text in another encoding is hardly ever valid UTF-8. If
        # another encoding is declared, ASCII makes the translation declare UTF-8.
        return data.decode(), Encoding("utf-8" if declared == "utf-8" else "ascii", b"", declaration)
    except UnicodeDecodeError:
        if declared is None or declared == "utf-8":
            return _decoded(data, "utf-8", path), Encoding("utf-8")
    if (larger := _LARGER.get(declared)) and _is_in(data, larger) and not _is_in(data, declared):
        declared = larger
    return _decoded(data, declared, path), Encoding(declared, b"", declaration)


def _decoded(data: bytes, codec: str, path: Path) -> str:
    try:
        return data.decode(codec)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NmtError(
            f"{path}: line {line:,} is not {codec.upper()}: convert it from its encoding, such as: iconv -f "
            "WINDOWS-1252 -t UTF-8"
        ) from None


def _is_in(data: bytes, codec: str) -> bool:
    try:
        return not _CONTROLS.search(data.decode(codec))
    except UnicodeDecodeError:
        return False


def _declared(text: str, declaration: re.Pattern[str]) -> str:
    """The name of the encoding that a document declares; empty if there is none."""
    return next((match[1] for match in declaration.finditer(text[:_HEAD]) if match[1]), "")


def _codec(name: str) -> str | None:
    """Python's name of an encoding; None if the encoding is unknown or does not contain ASCII."""
    try:
        return codecs.lookup(name).name if _ASCII.decode(name) == _ASCII.decode("ascii") else None
    except (LookupError, ValueError):
        return None


def declared_codec(text: str, declaration: re.Pattern[str] | None) -> str | None:
    """Python's name of the encoding that a document declares; None if there is none or it is unknown."""
    name = _declared(text, declaration) if declaration else ""
    return _codec(name) if name else None


def _with_utf_8(declaration: re.Match[str]) -> str:
    if not declaration[1]:
        return declaration[0]
    start, stop = (offset - declaration.start() for offset in declaration.span(1))
    return f"{declaration[0][:start]}UTF-8{declaration[0][stop:]}"
