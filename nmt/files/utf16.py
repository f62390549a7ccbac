"""Text in UTF-16, with or without a byte order mark. Spreadsheets and translation tools of Windows write it."""

import codecs
import unicodedata
from collections.abc import Iterator
from typing import BinaryIO, cast

from nmt.errors import NmtError
from nmt.files.compression import peekable, stream_of
from nmt.files.notes import say_once

_LOOKED_AT = 1 << 16  # bytes of a stream by which the encoding is recognized
_ORDERS = ("utf-16-le", "utf-16-be")
_MOST_ODD = 0.05  # the share of characters that may be control characters, or mean nothing
# The share of the bytes 0x20 and 0x0A that must be spaces and line feeds in UTF-16 too. The others are parts of
# characters such as U+0420 and U+2019.
_SPACES_KEPT = 0.5
_FEWEST_LATIN = 4  # characters below U+0100 that are needed to recognize UTF-16


def as_utf8(stream: BinaryIO, name: str) -> BinaryIO:
    """The content of a stream in UTF-8: the stream itself, or converted while it is read if its first bytes are UTF-16.
    If there is no byte order mark, this is logged with `name` for the stream. Reading raises NmtError for bytes that
    are not UTF-16."""
    stream = cast(BinaryIO, peekable(stream))
    order = order_of_stream(stream)
    if order is None:
        return stream
    if _start(stream).startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        stream.read(2)
    else:
        say_once(f"{name}: read as UTF-16, without a byte order mark")
    return stream_of(_recoded_blocks(stream, order, name))


def order_of_stream(stream: BinaryIO) -> str | None:
    """`order_of` the first bytes of a stream, without consuming them."""
    return order_of(_start(stream))


def _start(stream: BinaryIO) -> bytes:
    return peekable(stream).peek(_LOOKED_AT)[:_LOOKED_AT]


def order_of(start: bytes) -> str | None:
    """The encoding of text by its first bytes: `utf-16-le`, `utf-16-be`, or None if it is not UTF-16. Text without a
    byte order mark counts as UTF-16 only if other encodings are very unlikely."""
    if start.startswith(codecs.BOM_UTF16_LE) and not start.startswith(codecs.BOM_UTF32_LE):
        return "utf-16-le"
    if start.startswith(codecs.BOM_UTF16_BE):
        return "utf-16-be"
    if b"\0" not in start:
        return None
    is_utf8 = _decoded(start, "utf-8") is not None
    counts = {order: _latin(start, order, is_utf8) for order in _ORDERS}
    best = max(_ORDERS, key=lambda order: counts[order])
    return best if counts[best] >= _FEWEST_LATIN else None


def _latin(start: bytes, order: str, is_utf8: bool) -> int:
    """The number of characters below U+0100 if these bytes can be text in this encoding; otherwise 0. is_utf8: whether
    they can be text in UTF-8, in which NUL is a valid character."""
    text = _decoded(start, order)
    if text is None:
        return 0
    if is_utf8 and any(_SPACES_KEPT * start.count(character.encode()) > text.count(character) for character in " \n"):
        return 0
    # Text has few control characters and unassigned code points. The wrong byte order gives many.
    odd = {each for each in set(text) if unicodedata.category(each) in ("Cc", "Cn", "Cs")} - set("\t\n\r\v\f")
    if sum(map(odd.__contains__, text)) > _MOST_ODD * len(text):
        return 0
    return sum(character < "\u0100" for character in text)


def _decoded(start: bytes, encoding: str) -> str | None:
    """The decoded text without an incomplete last character; None if it is in another encoding."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeDecodeError:
        return None


def _recoded_blocks(stream: BinaryIO, order: str, name: str) -> Iterator[bytes]:
    """The content of a stream, in UTF-8."""
    decoder, decoded_bytes = codecs.getincrementaldecoder(order)(), 0
    while True:
        block = stream.read(_LOOKED_AT)
        try:
            text = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            problem = f"{error.reason} after {decoded_bytes:,} bytes"
            raise NmtError(f"{name}: not {order.upper()}: {problem}: convert it to UTF-8") from None
        yield text.encode()
        decoded_bytes += len(block)
        if not block:
            return
