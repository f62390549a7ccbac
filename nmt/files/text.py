"""Read and write lines of text: files, compressed or not, standard input and standard output.

Only a line feed ends a line. Python's own splitting also ends one at U+2028, U+0085 and the form feed, which would
misalign the two sides of a corpus.
"""

import codecs
import hashlib
import io
import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from nmt.errors import NmtError, no_such_file
from nmt.files import atomic
from nmt.files.compression import BLOCK_BYTES, decompressed
from nmt.files.outputs import check_output, is_special, open_special
from nmt.files.utf16 import as_utf8

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

log = logging.getLogger("nmt")

# All characters that some program treats as the end of a line, and the tab, which separates columns.
BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
_BLOCK_OF_LINES = 1 << 16  # bytes, at least
Stamp = tuple[int, int]  # the size of a file, and the time of its last change
Digests = dict[Path, str]  # SHA-256 of the bytes that were read from each file


class NotUtf8Error(NmtError):
    """A line is not UTF-8. location: where it is, such as `a.en:3: byte 2`. path: the file, if it is one."""

    def __init__(self, location: str, path: Path | None = None) -> None:
        super().__init__(f"{location} is not UTF-8: convert the file to UTF-8")
        self.location, self.path = location, path


class ReaderGone(Exception):
    """The program that reads standard output, such as `head`, has closed it. This is not an error. Writing stops."""


def read_lines(path: Path, digests: Digests | None = None, errors: str = "strict") -> Iterator[str]:
    """The lines of a file in UTF-8 or UTF-16, which may be compressed; see `decoded_lines`.

    After the last line, the digest of the bytes that were read is added to `digests`. Raises NmtError if the file is
    missing, damaged or in another encoding.
    """
    with opened(path, digests) as stream:
        try:
            yield from decoded_lines(blocks_of_lines(as_utf8(stream, str(path))), str(path), errors)
        except NotUtf8Error as error:
            raise NotUtf8Error(error.location, path) from None


@contextmanager
def opened(path: Path, digests: Digests | None = None) -> Iterator[BinaryIO]:
    """Open a file as a binary stream, decompressed if it is compressed. On exit, the digest of the file's bytes is
    added to `digests`. It is valid if the stream was read to its end. Raises NmtError if the file is missing or
    damaged."""
    with reading(path), _HashedFile(path) as raw, io.BufferedReader(raw, BLOCK_BYTES) as file:
        with decompressed(cast(BinaryIO, file), path) as stream:
            yield stream
        if digests is not None:
            digests[path] = raw.sha256.hexdigest()


class _HashedFile(io.FileIO):
    """Hashes the bytes while they are read, because the file at the path may be replaced afterwards."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sha256 = hashlib.sha256()

    def readinto(self, buffer: "Buffer", /) -> int:
        size = super().readinto(buffer) or 0
        self.sha256.update(memoryview(buffer)[:size])
        return size


def survey(path: Path) -> int:
    """The number of lines in a file. Raises NmtError as `read_lines` does."""
    return sum(1 for _ in read_lines(path))


def line_pairs(
    source: Path, target: Path, digests: Digests | None = None, errors: str = "strict"
) -> Iterator[tuple[str, str]]:
    """Pairs of lines of two files. Raises NmtError as `read_lines` does, and if one file has more lines."""
    sides = read_lines(source, digests, errors), read_lines(target, digests, errors)
    return aligned(*sides, str(source), str(target))


def aligned(
    source: Iterator[str], target: Iterator[str], source_name: str, target_name: str
) -> Iterator[tuple[str, str]]:
    """Pairs of lines. Raises NmtError, with the names of the two sides, if one of them has more lines."""
    for count, (line, translation) in enumerate(zip_longest(source, target)):
        if line is None or translation is None:
            longer = count + 1 + sum(1 for _ in chain(source, target))  # one of them has ended
            source_lines, target_lines = (count, longer) if line is None else (longer, count)
            lines = f"{source_name} has {source_lines:,} lines and {target_name} has {target_lines:,}"
            raise NmtError(f"{lines}: each line needs its translation")
        yield line, translation


def blocks_of_lines(stream: BinaryIO) -> Iterator[bytes]:
    """The content of a stream in blocks of whole lines, large enough to be decoded fast."""
    return iter(lambda: b"".join(stream.readlines(_BLOCK_OF_LINES)), b"")


def decoded_lines(stream: Iterable[bytes], name: str, errors: str = "strict") -> Iterator[str]:
    """Yield the lines of a binary stream such as `sys.stdin.buffer`, or of `blocks_of_lines`, without line ends (`\\n`
    or `\\r\\n`).

    The last line needs no line end. A byte order mark at the start is removed. errors: the error handler for bytes that
    are not UTF-8; see `bytes.decode`. Raises NotUtf8Error, with `name` for the stream, for such bytes.
    """
    count = 0
    for block in stream:
        block = block if count else block.removeprefix(codecs.BOM_UTF8)
        wrong: int | None = None
        try:
            text = block.decode("utf-8", errors)
        except UnicodeDecodeError as error:
            wrong = error.start - (block.rfind(b"\n", 0, error.start) + 1)  # the position in its line
            text = block[: error.start - wrong].decode("utf-8")
        lines = text.replace("\r\n", "\n").split("\n")
        if text.endswith("\n") or wrong is not None:
            lines.pop()
        yield from lines
        count += len(lines)
        if wrong is not None:
            raise NotUtf8Error(f"{name}:{count + 1}: byte {wrong + 1}")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn an exception in reading a file into an NmtError."""
    try:
        yield
    except FileNotFoundError:
        raise no_such_file(path) from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror or error}") from None


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes. Raises NmtError if it cannot be read."""
    with reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def file_stamp(path: Path) -> Stamp:
    """The stamp of a file, which changes when the file is written. Raises NmtError if it cannot be read."""
    with reading(path):
        about = path.stat()
    return about.st_size, about.st_mtime_ns


def content_key(*parts: object) -> str:
    """A hash of JSON values: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def to_path(text: str | Path) -> Path:
    """A path. `~` is the user's home folder, also if the shell does not replace it, as in `--output=~/x`."""
    return Path(os.path.expanduser(text))  # noqa: PTH111 (`~nobody` stays as it is)


def lines_in(path: Path | None) -> tuple[Iterator[str], bool]:
    """The lines of a file or of standard input (None), and whether they are typed at a terminal."""
    if path is not None:
        return read_lines(path), False
    if sys.stdin is None:
        raise NmtError("standard input is closed: give INPUT, a file to translate")
    if not sys.stdin.isatty():
        return _piped_lines(sys.stdin.buffer), False
    log.info("type a sentence and press Enter; Ctrl-D ends")
    return decoded_lines(sys.stdin.buffer, "standard input"), True


def _piped_lines(stream: BinaryIO) -> Iterator[str]:
    name = "standard input"
    with decompressed(stream, Path(name)) as content:
        yield from decoded_lines(as_utf8(content, name), name)


@contextmanager
def lines_out(
    path: Path | None, read: Iterable[Path] = (), option: str = "--output"
) -> Iterator[Callable[[str], None]]:
    """A function that writes a line to a file, which appears on exit, or to standard output (None). Raises NmtError as
    `check_output` does, and if standard output is closed. The function raises as `result` does."""
    if path is None:
        check_output_open()
        yield result
        return
    target = check_output(path, read, option)
    with atomic.reporting(path, option), ExitStack() as opened:
        if is_special(path):
            file = opened.enter_context(open_special(path))
        else:
            content = opened.enter_context(atomic.replacing(target))
            file = opened.enter_context(content.open("w", encoding="utf-8", newline="\n"))
        yield lambda line: print(line, file=file)


def check_output_open() -> None:
    """Raises NmtError if standard output is closed. Call it before computing a result."""
    if sys.stdout is None:
        raise NmtError("standard output is closed: redirect it to a file with > FILE")


def result(line: object) -> None:
    """Write a command's result to standard output and flush it. Raises NmtError if standard output is closed or cannot
    be written, as on a full disk, and ReaderGone if its reader has closed it."""
    check_output_open()
    try:
        sys.stdout.buffer.write(f"{line}\n".encode(errors="backslashreplace"))  # file names may not be UTF-8
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        discard(sys.stdout.fileno())
        raise ReaderGone("its reader has closed it") from None
    except OSError as error:
        discard(sys.stdout.fileno())
        raise NmtError(f"standard output: cannot be written: {error.strerror}") from None


def discard(descriptor: int) -> None:
    """Redirect a file descriptor to the null device."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
