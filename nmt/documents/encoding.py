"""The encoding of a document: as its byte order mark says, or UTF-8, or else what the document itself declares."""

import codecs
import logging
import re
from dataclasses import dataclass
from pathlib import Path

from nmt.errors import NmtError

log = logging.getLogger("nmt")

_MARKS = {  # those of UTF-32 first, of which one begins as that of UTF-16
    b"\xff\xfe\0\0": "utf-32-le",
    b"\0\0\xfe\xff": "utf-32-be",
    b"\xef\xbb\xbf": "utf-8",
    b"\xff\xfe": "utf-16-le",
    b"\xfe\xff": "utf-16-be",
}
_HEAD = 1 << 16  # bytes or characters, in which an encoding is declared
_ASCII = bytes(range(32, 127))
# What declares the first is often in the second, which has more characters. https://encoding.spec.whatwg.org/
_LARGER = {"iso8859-1": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}
_CONTROLS = re.compile("[\x80-\x9f]")  # no text has these


@dataclass(frozen=True)
class Encoding:
    """codec: in which a document is written, if it has all characters. mark: the document's byte order mark.
    declaration: finds the name of an encoding, its group 1, in the document."""

    codec: str
    mark: bytes = b""
    declaration: re.Pattern[str] | None = None

    def encoded(self, content: str, path: Path) -> bytes:
        """A document as bytes. If its encoding does not have all characters, it is written in UTF-8 and declares that,
        which is logged."""
        try:
            return self.mark + content.encode(self.codec)
        except UnicodeEncodeError:
            if self.declaration is None:
                raise
        log.info("%s: written in UTF-8, not %s", path, _declared(content, self.declaration))
        head = self.declaration.sub(_with_utf_8, content[:_HEAD])
        return (head + content[_HEAD:]).encode()


def decoded(data: bytes, path: Path, declaration: re.Pattern[str] | None = None) -> tuple[str, Encoding]:
    """A document's text and its encoding. declaration: as in Encoding. Raises NmtError for one that is neither UTF-8,
    nor has a byte order mark, nor in the encoding that it declares."""
    for mark, codec in _MARKS.items():
        if data.startswith(mark):
            return _decoded(data[len(mark) :], codec, path), Encoding(codec, mark)
    if data.startswith(b"PK\3\4"):
        raise NmtError(f"{path}: a ZIP archive, such as a .docx, and no text: give it the ending of its format")
    if b"\0" in data:
        high, low = data[:_HEAD:2].count(0), data[1:_HEAD:2].count(0)  # bytes, in UTF-16BE
        if max(high, low) <= 2 * min(high, low):
            raise NmtError(f"{path}: no text, as it has bytes that are zero: give it the ending of its format")
        codec = "UTF-16BE" if high else "UTF-16LE"
        raise NmtError(f"{path}: perhaps UTF-16 without a byte order mark: convert it: iconv -f {codec} -t UTF-8")
    name = _declared(data[:_HEAD].decode("latin-1"), declaration) if declaration else ""
    declared = _codec(name) if name else "utf-8"
    if data.isascii():  # or in an encoding as ISO-2022-JP
        return _decoded(data, declared or "ascii", path), Encoding(declared or "ascii", b"", declaration)
    try:
        # Read as UTF-8 whatever it declares: text in another encoding is hardly ever valid UTF-8. If that is another
        # encoding, the translation has to declare UTF-8: it cannot be written in ASCII.
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
    """The name of the encoding that a document declares, or nothing."""
    return next((found[1] for found in declaration.finditer(text[:_HEAD]) if found[1]), "")


def _codec(name: str) -> str | None:
    """Python's name of an encoding; None for one that is unknown, or that does not have ASCII in it."""
    try:
        return codecs.lookup(name).name if _ASCII.decode(name) == _ASCII.decode("ascii") else None
    except (LookupError, ValueError):
        return None


def declared_codec(text: str, declaration: re.Pattern[str] | None) -> str | None:
    """Python's name of the encoding that a document declares, if it does and that is known."""
    name = _declared(text, declaration) if declaration else ""
    return _codec(name) if name else None


def _with_utf_8(found: re.Match[str]) -> str:
    if not found[1]:
        return found[0]
    start, end = (place - found.start() for place in found.span(1))
    return f"{found[0][:start]}UTF-8{found[0][end:]}"
