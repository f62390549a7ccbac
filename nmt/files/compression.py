"""Files that are decompressed while they are read. Their first bytes say how, whatever their names are."""

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
    start: bytes  # what every such file begins with


_KINDS = {
    ".gz": _Kind("gzip", b"\x1f\x8b\x08"),
    ".xz": _Kind("xz", b"\xfd7zXZ\0"),
    ".bz2": _Kind("bzip2", b"BZh"),
    ".zst": _Kind("Zstandard", b"\x28\xb5\x2f\xfd"),
}
ENDINGS = tuple(_KINDS)
BLOCK_BYTES = 1 << 20
# After "BZh" and the level: of a first block, or of the end of an empty file. Text may begin with "BZh".
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
_DOCUMENTS = {
    b"PK\x03\x04": "a ZIP archive, as .xlsx and .docx are",
    b"\xd0\xcf\x11\xe0": "a document of Office, as .xls is",
}


def ending_of(path: Path) -> str:
    """The ending of the file's name if it is that of a compressed file, in small letters; or else an empty text."""
    ending = path.suffix.lower()
    return ending if ending in ENDINGS else ""


def plain_name(path: Path) -> str:
    """The file's name without the ending of its compression: corpus.tsv for corpus.tsv.gz."""
    return path.name.removesuffix(path.suffix) if ending_of(path) else path.name


def plain_ending(path: Path) -> str:
    """The ending of that name, in small letters: .tsv for corpus.TSV.gz."""
    return Path(plain_name(path)).suffix.lower()


def peekable(file: BinaryIO) -> io.BufferedReader:
    """The same stream, of which the next bytes can be looked at."""
    return file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file), BLOCK_BYTES)


@contextmanager
def decompressed(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """The content of an open file whose path is `path`; the file itself if neither its first bytes nor its name are
    those of a compressed file. A name that does not fit the bytes is said.

    Raises NmtError if the file is damaged or ends too early, if it is a document and no text, and if a library that
    reads it is not installed.
    """
    file = cast(BinaryIO, buffered := peekable(file))
    start, named = buffered.peek(10)[:10], ending_of(path)
    ending = _ending_by_content(start) or named
    for begin, what in _DOCUMENTS.items():
        if start.startswith(begin):
            raise NmtError(f"{path}: {what}: save what it holds as text")
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
            content = _Decompressed(file, new_decompressor, error_type, first)
            yield cast(BinaryIO, io.BufferedReader(content, BLOCK_BYTES))
    except (gzip.BadGzipFile, EOFError, zlib.error, _DamagedError) as error:
        kind = _KINDS[ending].name
        raise NmtError(f"{path}: damaged {kind} file ({error}): download or compress it again") from None


def check_readable(path: Path) -> None:
    """Raises NmtError, as `decompressed` does, for a file that is there and whose content cannot be read here."""
    if path.is_file():  # a pipe can be read only once
        with path.open("rb") as file, decompressed(file, path):
            pass


def _ending_by_content(start: bytes) -> str:
    for ending, kind in _KINDS.items():
        if start.startswith(kind.start) and (ending != ".bz2" or start[4:].startswith(_BZIP2_BLOCKS)):
            return ending
    return ""


def _library(ending: str, path: Path) -> tuple[Callable[[], Any], type[Exception]]:
    """What makes a decompressor, and the exception that it raises for damaged data."""
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
    """The decompressor refused the data."""


class _Decompressed(io.RawIOBase):
    """The content of a file that is one compressed stream or several, one after another.

    Unlike `lzma.open`, it refuses whatever follows a stream and is no stream: it may be a damaged one.
    """

    def __init__(
        self, file: BinaryIO, new_decompressor: Callable[[], Any], error_type: type[Exception], start: bytes
    ) -> None:
        """start: what every such file begins with, if the decompressor does not check it."""
        self._file, self._new, self._error_type, self._start = file, new_decompressor, error_type, start
        self._stream = new_decompressor()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        wanted = memoryview(buffer)
        while True:
            given = b""
            if self._stream.eof:
                given = self._next_stream()
                if not given:
                    return 0
                self._stream = self._new()
            elif self._stream.needs_input:
                given = self._file.read(BLOCK_BYTES)
                if not given:
                    raise EOFError("it ends too early")
                if not given.startswith(self._start[: len(given)]):
                    raise _DamagedError("it does not begin as such a file does: it may be of another kind")
                self._start = b""
            try:
                data = self._stream.decompress(given, len(wanted))
            except self._error_type as error:
                raise _DamagedError(error) from None
            if data:
                wanted[: len(data)] = data
                return len(data)

    def _next_stream(self) -> bytes:
        """The first bytes after the stream; none at the end of the file. Zeros between the streams of .xz are allowed,
        for its size may be rounded up."""
        given = self._stream.unused_data.lstrip(b"\0")
        while not given and (block := self._file.read(BLOCK_BYTES)):
            given = block.lstrip(b"\0")
        return given
