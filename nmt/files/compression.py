"""Files that are decompressed while they are read: the end of the name says how."""

import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

from nmt.errors import NmtError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

ENDINGS = (".gz", ".xz", ".zst")
BLOCK_BYTES = 1 << 20
_XZ_START = b"\xfd7zXZ\0"


def plain_name(path: Path) -> str:
    """The file's name without the ending of its compression: corpus.tsv for corpus.tsv.gz."""
    return path.name.removesuffix(path.suffix) if path.suffix in ENDINGS else path.name


@contextmanager
def decompressed(file: BinaryIO, path: Path) -> Iterator[BinaryIO]:
    """The content of an open file whose path is `path`; the file itself if its name has none of the `ENDINGS`.

    Raises NmtError if the file is damaged or ends too early, and if a library that reads it is not installed.
    """
    if path.suffix not in ENDINGS:
        yield file
        return
    try:
        if path.suffix == ".gz":
            with gzip.open(file) as stream:
                yield cast(BinaryIO, stream)
        else:
            new_decompressor, error_type = _library(path)
            start = _XZ_START if path.suffix == ".xz" else b""
            yield io.BufferedReader(_Decompressed(file, new_decompressor, error_type, start), BLOCK_BYTES)
    except (gzip.BadGzipFile, EOFError, zlib.error, _DamagedError) as error:
        kind = {".gz": "gzip", ".xz": "xz", ".zst": "Zstandard"}[path.suffix]
        raise NmtError(f"{path}: damaged {kind} file ({error}): download or compress it again") from None


def check_library(path: Path) -> None:
    """Raises NmtError if a library that decompresses the file is not installed."""
    if path.suffix in (".xz", ".zst"):
        _library(path)


def _library(path: Path) -> tuple[Callable[[], Any], type[Exception]]:
    """What makes a decompressor, and the exception that it raises for damaged data."""
    try:
        if path.suffix == ".xz":
            import lzma

            return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ), lzma.LZMAError
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
        return zstd.ZstdDecompressor, zstd.ZstdError
    except ImportError:
        install = "Python with lzma (liblzma)" if path.suffix == ".xz" else "backports.zstd: pip install backports.zstd"
        raise NmtError(f"{path}: reading {path.suffix} files needs {install}") from None


class _DamagedError(Exception):
    """The decompressor refused the data."""


class _Decompressed(io.RawIOBase):
    """The content of a file that is one compressed stream or several, one after another.

    Unlike `lzma.open`, it refuses whatever follows a stream and is no stream: it may be a damaged one.
    """

    def __init__(
        self, file: BinaryIO, new_decompressor: Callable[[], Any], error_type: type[Exception], start: bytes
    ) -> None:
        """start: what every such file begins with: the decompressor of .xz does not tell a short file of another kind
        from one that ends too early."""
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
