"""Text in and out: files, packed or not, standard input and standard output.

A line ends at a line feed and nowhere else: U+2028, U+0085 and the form feed, at which Python's own
splitting would break a line and so shift one side against the other, are text like any other.
"""

import codecs
import gzip
import hashlib
import io
import logging
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import NmtError, no_such_file
from nmt.files import atomic
from nmt.files.outputs import check_output, is_special

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

log = logging.getLogger("nmt")

Digests = dict[Path, str]  # of files, by what was read of them
_BLOCK_BYTES = 1 << 20


class ReaderGone(Exception):
    """Who reads standard output has closed it, as `head` does: no error, but there is no use in writing more."""


# --------------------------------------------------------------------------- in


def read_lines(path: Path, digests: Digests | None = None) -> Iterator[str]:
    """The lines of a UTF-8 file, unpacked if its name ends in .gz; see `decoded_lines`.

    After the last line the digest of the file's bytes, as they were read, is put into `digests` under its path.
    Raises NmtError where the file is missing, damaged or not UTF-8.
    """
    with reading(path), _HashedFile(path) as raw, io.BufferedReader(raw, _BLOCK_BYTES) as file:
        if path.suffix == ".gz":
            with gzip.open(file) as stream:
                yield from decoded_lines(stream, str(path))
        else:
            yield from decoded_lines(file, str(path))
        if digests is not None:
            digests[path] = raw.sha256.hexdigest()


class _HashedFile(io.FileIO):
    """A file whose bytes are hashed as they are read: by a digest of the path, another content could be meant."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.sha256 = hashlib.sha256()

    def readinto(self, buffer: "Buffer", /) -> int:
        size = super().readinto(buffer) or 0
        self.sha256.update(memoryview(buffer)[:size])
        return size


def survey(path: Path, digests: Digests) -> int:
    """How many lines `read_lines` finds in a file; all else is as there."""
    return sum(1 for _ in read_lines(path, digests))


def decoded_lines(stream: Iterable[bytes], name: str) -> Iterator[str]:
    """The lines of a binary stream such as `sys.stdin.buffer`, without their ends (`\\n` or `\\r\\n`).

    A last line needs no end. A byte order mark at the start is not text. `name` names the stream in the
    NmtError raised at bytes that are not UTF-8.
    """
    for number, line in enumerate(stream, start=1):
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if line.endswith(b"\n"):
            line = line[:-2] if line.endswith(b"\r\n") else line[:-1]
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NmtError(f"{name}:{number}: byte {error.start + 1} is not UTF-8: convert the file to UTF-8") from None
        yield text


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say what is wrong with a file that cannot be read."""
    try:
        yield
    except FileNotFoundError:
        raise no_such_file(path) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise NmtError(f"{path}: damaged gzip file ({error}): fetch or pack it again") from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror or error}") from None


def file_digest(path: Path) -> str:
    """A digest of a file's bytes. Raises NmtError where it cannot be read."""
    with reading(path), path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def lines_in(path: Path | None) -> Iterator[tuple[Iterator[str], bool]]:
    """The lines of a file or of standard input (None), and whether someone types them."""
    if path is not None:
        yield read_lines(path), False
        return
    if sys.stdin is None:
        raise NmtError("standard input is closed: give INPUT, a file to translate")
    interactive = sys.stdin.isatty()
    if interactive:
        log.info("type a sentence and Enter; Ctrl-D ends")
    yield decoded_lines(sys.stdin.buffer, "standard input"), interactive


# --------------------------------------------------------------------------- out


@contextmanager
def lines_out(path: Path | None, read: Iterable[Path] = ()) -> Iterator[Callable[[str], None]]:
    """A function that writes a line to a file, there once all are written, or to standard output at once.

    Raises NmtError as `check_output`, and where standard output is closed; writing to it raises as `result`.
    """
    if path is None:
        check_output_open()
        yield result
        return
    whole = check_output(path, read)
    with atomic.reporting(path, "--output"), ExitStack() as opened:
        content = path if is_special(path) else opened.enter_context(atomic.replacing(whole))
        file = opened.enter_context(content.open("w", encoding="utf-8", newline="\n"))
        yield lambda line: print(line, file=file)


def check_output_open() -> None:
    """Raises NmtError where standard output is closed: before a result is computed that nobody would see."""
    if sys.stdout is None:
        raise NmtError("standard output is closed: direct it to a file, as by > FILE")


def result(line: object) -> None:
    """Write a line, or several, of a command's result to standard output at once.

    Raises NmtError where standard output is closed or refuses it, as a full disk does, and ReaderGone where who
    read it has left.
    """
    check_output_open()
    try:
        sys.stdout.buffer.write(f"{line}\n".encode())
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        discard(sys.stdout.fileno())
        raise ReaderGone("its reader has closed it") from None
    except OSError as error:
        discard(sys.stdout.fileno())
        raise NmtError(f"standard output: cannot be written: {error.strerror}") from None


def discard(descriptor: int) -> None:
    """Let what is written to a stream, by whatever means, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
