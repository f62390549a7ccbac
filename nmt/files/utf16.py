"""Text in UTF-16, as spreadsheets and translation tools of Windows write it: with a byte order mark, or without."""

import codecs
import io
import unicodedata
from typing import TYPE_CHECKING, BinaryIO, cast

from nmt.errors import NmtError
from nmt.files.compression import BLOCK_BYTES, peekable
from nmt.files.notes import say_once

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

_LOOKED_AT = 1 << 16  # bytes, at most
_ORDERS = ("utf-16-le", "utf-16-be")
# The share of text that may be control characters: of the bytes in UTF-8, of the characters in UTF-16. UTF-16 has a
# byte below 32 in each character of the scripts up to Georgian, and a NUL in each space and line end of any script.
_MOST_CONTROLS = 0.05
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r"))
_FEWEST_LATIN = 4  # characters below U+0100 that are needed to recognise UTF-16


def as_utf8(stream: BinaryIO, name: str) -> BinaryIO:
    """The content of a stream in UTF-8: itself, or converted while it is read if its first bytes are UTF-16. That they
    are without a byte order mark is said, with `name` for the stream. Reading raises NmtError where it is not
    UTF-16."""
    stream = cast(BinaryIO, peekable(stream))
    order = order_of(start := cast(io.BufferedReader, stream).peek(_LOOKED_AT)[:_LOOKED_AT])
    if order is None:
        return stream
    if marked := start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        stream.read(2)
    if not marked:
        say_once(f"{name}: is UTF-16 without a byte order mark: read so")
    return cast(BinaryIO, io.BufferedReader(_Recoded(stream, order, name), BLOCK_BYTES))


def order_of(start: bytes) -> str | None:
    """The encoding of text by its first bytes: `utf-16-le`, `utf-16-be`, or None for another than UTF-16. Without a
    byte order mark it is UTF-16 only if it can hardly be anything else."""
    if start.startswith(codecs.BOM_UTF16_LE) and not start.startswith(codecs.BOM_UTF32_LE):
        return "utf-16-le"
    if start.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    if b"\0" not in start:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        pass
    else:
        controls = len(start) - len(start.translate(None, _CONTROLS))
        if controls <= _MOST_CONTROLS * len(start):
            return None
    found = {order: _latin(start, order) for order in _ORDERS}
    best = max(_ORDERS, key=lambda order: found[order])
    return best if found[best] >= _FEWEST_LATIN else None


def _latin(start: bytes, order: str) -> int:
    """The number of characters below U+0100 if these bytes can be text in this encoding; otherwise 0."""
    try:
        text = codecs.getincrementaldecoder(order)().decode(start)
    except UnicodeDecodeError:
        return 0
    # Hardly a control character or a code point that means nothing: the other order of bytes gives many.
    odd = {one for one in set(text) if unicodedata.category(one) in ("Cc", "Cn", "Cs") and one not in "\t\n\r\v\f"}
    if sum(map(odd.__contains__, text)) > _MOST_CONTROLS * len(text):
        return 0
    return sum(one < "\u0100" for one in text)


class _Recoded(io.RawIOBase):
    """The content of a stream, in UTF-8."""

    def __init__(self, stream: BinaryIO, order: str, name: str) -> None:
        self._stream, self._name, self._order = stream, name, order
        self._decoder = codecs.getincrementaldecoder(order)()
        self._ready, self._bytes = b"", 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        wanted = memoryview(buffer)
        while not self._ready:
            block = self._stream.read(_LOOKED_AT)
            try:
                self._ready = self._decoder.decode(block, final=not block).encode()
            except UnicodeDecodeError as error:
                place = f"{error.reason} after {self._bytes:,} bytes"
                raise NmtError(f"{self._name}: not {self._order.upper()}: {place}: convert it to UTF-8") from None
            self._bytes += len(block)
            if not block:
                break
        size = min(len(wanted), len(self._ready))
        wanted[:size], self._ready = self._ready[:size], self._ready[size:]
        return size
