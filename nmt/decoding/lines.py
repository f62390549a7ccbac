"""Lines in and out: where they come from, where they go, and what is said of them at the end."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path

from nmt import terminal
from nmt.data.corpus import decoded_lines, read_lines
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_folder

log = logging.getLogger("nmt")

CHUNK_LINES = 2000  # read, sorted by length and translated together
_CHUNK_CHARACTERS = 1_000_000  # so that lines as long as books do not fill the memory


@dataclass
class Counts:
    """What became of the lines read; `parts` are those that the `split` ones were translated in."""

    lines: int = 0
    empty: int = 0
    cut: int = 0
    skipped: int = 0
    split: int = 0
    parts: int = 0
    unruly: int = 0  # lines or parts for which no output met the rules: translated without them
    terms: int = 0  # of the glossary, found in the lines
    unmet: int = 0  # of these, without any of their translations in the best one found
    searched: int = 0  # lines or parts in which terms of a glossary were looked for
    prefixes: int = 0  # of which characters were left out that the vocabulary lacks

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(mine + others for mine, others in zip(astuple(self), astuple(other), strict=True)))


def chunked(lines: Iterable[str], chunk_lines: int = CHUNK_LINES) -> Iterator[list[str]]:
    """Lines that are translated together: so many, or fewer very long ones. The chunks of a chunk are itself."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == chunk_lines or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


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


@contextmanager
def lines_out(path: Path | None, read: Iterable[Path] = ()) -> Iterator[Callable[[str], None]]:
    """A function that writes a line to a file, there once all are written, or to standard output at once.

    Raises NmtError as `check_output`, and where standard output is closed; writing to it raises as `terminal.result`.
    """
    if path is None:
        terminal.check_output_open()
        yield terminal.result
        return
    whole = check_output(path, read)
    with atomic.reporting(path, "--output"), ExitStack() as opened:
        content = path if is_special(path) else opened.enter_context(atomic.replacing(whole))
        file = opened.enter_context(content.open("w", encoding="utf-8", newline="\n"))
        yield lambda line: print(line, file=file)


def check_output(path: Path, read: Iterable[Path] = ()) -> Path:
    """The file that an --output stands for, where links lead.

    Raises NmtError for a folder, where no file can be made, for the name of a packed file, and for one of the files
    that are `read` to make it. Nothing is left behind.
    """
    if path.is_dir():
        raise NmtError(f"{path}: a folder: choose another --output")
    with atomic.reporting(path, "--output"):
        whole = atomic.followed(path)
    check_not_read(path, read)
    if not is_special(path):
        if path.suffix == ".gz":
            raise NmtError(f"{path}: results are written unpacked: leave out .gz, and run gzip afterwards")
        check_folder(path, whole.parent)
    return whole


def check_not_read(path: Path, read: Iterable[Path]) -> None:
    """Raises NmtError for an output that would take the place of a file that is read; devices may be both."""
    if path.is_file() and any(other.exists() and path.samefile(other) for other in read):
        raise NmtError(f"{path}: is read here, and would be lost: choose another --output")


def is_special(path: Path) -> bool:
    """Whether a path is a device or a pipe: something to write into, that no file may take the place of."""
    return path.exists() and not path.is_file()


def say_counts(counts: Counts, limit: int | None) -> None:
    """Say which lines were not translated as they are, longer than `limit` subwords, and what else was not done."""
    lines = f"{counts.lines:,} {'line is' if counts.lines == 1 else 'lines are'} longer than {limit} subwords"
    if counts.split:
        log.info("%s of %s: split into %s parts", f"{counts.split:,}", lines, f"{counts.parts:,}")
    if counts.cut:
        log.warning("%s of %s: cut", f"{counts.cut:,}", lines)
    if counts.skipped:
        log.warning("%s of %s: left empty", f"{counts.skipped:,}", lines)
    if counts.unruly:
        log.warning(
            "%d of %d lines have no translation that obeys decoding.banned, no_repeat_ngram and min_length: "
            "translated without",
            counts.unruly,
            counts.lines,
        )
    if counts.terms:
        log.info("glossary: %d terms found, %d of them not in the translation", counts.terms, counts.unmet)
    elif counts.searched:
        log.warning("glossary: none of its source terms is in any of %d lines", counts.lines)
    if counts.prefixes:
        log.warning(
            "%d of %d prefixes have characters that the model's vocabulary lacks: translated with these left out",
            counts.prefixes,
            counts.lines,
        )
