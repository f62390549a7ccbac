"""Decompress files while they are read. The format is recognized by the first bytes, not by the name."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from nmt.errors import NmtError
from nmt.files.notes import say_once
from nmt.files.packages import install_command

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer


class _Kind(NamedTuple):
    name: str
    start: bytes  # the first bytes of every such file


_KINDS = {
    ".gz": _Kind("gzip", b"\x1f\x8b\x08"),
    ".xz": _Kind("xz", b"\xfd7zXZ\0"),
    ".bz2": _Kind("bzip2", b"BZh"),
    ".zst": _Kind("Zstandard", b"\x28\xb5\x2f\xfd"),
}
ENDINGS = tuple(_KINDS)
BLOCK_BYTES = 1 << 20
# The bytes after "BZh" and the level: the start of a block, or the end of an empty file. Text may begin with "BZh".
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
_DOCUMENTS = {
    b"PK\x03\x04": "a ZIP archive, as .xlsx and .docx are",
    b"\xd0\xcf\x11\xe0": "a document of Office, as .xls is",
}


def ending_of(path: Path) -> str:
    """The ending of a file name, in lower case, if it is the ending of a compressed file; otherwise an empty text."""
    ending = path.suffix.lower()
    return ending if ending in ENDINGS else ""


def plain_name(path: Path) -> str:
    """The file's name without the ending of its compression: corpus.tsv for corpus.tsv.gz."""
    return path.name.removesuffix(path.suffix) if ending_of(path) else path.name


def plain_ending(path: Path) -> str:
    """The ending of `plain_name` in lower case: .tsv for corpus.TSV.gz."""
    return Path(plain_name(path)).suffix.lower()


def peekable(file: BinaryIO) -> io.BufferedReader:
    """The same stream with a method `peek` for the next bytes."""
    return file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file), BLOCK_BYTES)


class _BlockStream(io.RawIOBase):
    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._rest = blocks, memoryview(b"")  # rest: the unread part of the current block

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        view = memoryview(buffer)
        size = min(len(view), len(self._rest))
        view[:size], self._rest = self._rest[:size], self._rest[size:]
        return size


def stream_of(blocks: Iterator[bytes]) -> BinaryIO:
    """A stream whose content is these blocks, each made when it is needed."""
    return cast(BinaryIO, io.BufferedReader(_BlockStream(blocks), BLOCK_BYTES))


@contextmanager
def decompressed(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """The content of an open file whose path is `path`. It is the file itself if neither its first bytes nor its name
    belong to a compressed file. If the name does not match the bytes, this is logged.

    Raises NmtError if the file is damaged or ends too early, if it is a document instead of text, and if the library
    for its format is not installed.
    """
    file = cast(BinaryIO, buffered := peekable(file))
    start, named = buffered.peek(10)[:10], ending_of(path)
    ending = _ending_by_content(start) or named
    for beginning, kind_of_document in _DOCUMENTS.items():
        if start.startswith(beginning):
            raise NmtError(f"{path}: {kind_of_document}: save its content as text")
    if not ending:
        yield file
        return
    if ending != named:
        say_once(f"{path}: is compressed with {_KINDS[ending].name}, though its name does not end in {ending}")
    try:
        if ending == ".gz":
            with gzip.open(file) as stream:
                yield cast(BinaryIO, peekable(cast(BinaryIO, stream)))
        else:
            new_decompressor, error_type = _library(ending, path)
            # The decompressor of .xz does not tell a short file of another kind from one that ends too early.
            first = _KINDS[ending].start if ending == ".xz" else b""
            yield stream_of(_decompressed_blocks(file, new_decompressor, error_type, first))
    except (gzip.BadGzipFile, EOFError, zlib.error, _DamagedError) as error:
        kind = _KINDS[ending].name
        raise NmtError(f"{path}: damaged {kind} file ({error}): download or compress it again") from None


def check_readable(path: Path) -> None:
    """Raises NmtError, as `decompressed` does, if a file exists and its content cannot be read here."""
    if path.is_file():  # a pipe can be read only once
        with path.open("rb") as file, decompressed(file, path):
            pass


def _ending_by_content(start: bytes) -> str:
    for ending, kind in _KINDS.items():
        if start.startswith(kind.start) and (ending != ".bz2" or start[4:].startswith(_BZIP2_BLOCKS)):
            return ending
    return ""


def _library(ending: str, path: Path) -> tuple[Callable[[], Any], type[Exception]]:
    """A function that makes a decompressor, and the exception that it raises for damaged data."""
    try:
        if ending == ".xz":
            import lzma

            return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError
        if ending == ".bz2":
            import bz2

            return bz2.BZ2Decompressor, OSError
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        return zstd.ZstdDecompressor, zstd.ZstdError
    except ImportError:
        libraries = {".xz": "Python with lzma (liblzma)", ".bz2": "Python with bz2 (libbz2)"}
        install = libraries.get(ending, f"backports.zstd: {install_command('zstd')}")
        raise NmtError(f"{path}: reading {ending} files needs {install}") from None


class _DamagedError(Exception):
    """The decompressor rejected the data."""


def _decompressed_blocks(
    file: BinaryIO, new_decompressor: Callable[[], Any], error_type: type[Exception], start: bytes
) -> Iterator[bytes]:
    """Yield the content of a file with one or more compressed streams. start: the first bytes of every such file, if
    the decompressor does not check them.

    Unlike `lzma.open`, it rejects bytes after a stream that are not another stream, because they may be a damaged
    stream.
    """
    block = file.read(BLOCK_BYTES)
    if not block.startswith(start[: len(block)]):
        raise _DamagedError("it does not begin like one: it may be in another format")
    while True:
        decompressor = new_decompressor()
        while not decompressor.eof:
            if decompressor.needs_input and not block:
                raise EOFError("it ends too early")
            try:
                yield decompressor.decompress(block, BLOCK_BYTES)
            except error_type as error:
                raise _DamagedError(error) from None
            block = file.read(BLOCK_BYTES) if decompressor.needs_input else b""
        # Zeros between the streams of .xz are allowed, because its size may be rounded up.
        block = decompressor.unused_data.lstrip(b"\0")
        while not block and (following := file.read(BLOCK_BYTES)):
            block = following.lstrip(b"\0")
        if not block:
            return
