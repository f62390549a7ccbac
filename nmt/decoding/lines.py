"""Lines in and out: where they come from, where they go, and what is said of them at the end."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.data.corpus import decoded_lines, read_lines
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

log = logging.getLogger("nmt")


@contextmanager
def lines_in(path: Path | None) -> Iterator[tuple[Iterator[str], bool]]:
    """The lines of a file or of standard input (None or `-`), and whether someone types them."""
    if path is not None and str(path) != "-":
        yield read_lines(path), False
        return
    if sys.stdin is None:
        raise NmtError("standard input is closed: give INPUT, a file to translate")
    interactive = sys.stdin.isatty()
    if interactive:
        log.info("type a sentence and Enter; Ctrl-D ends")
    yield decoded_lines(sys.stdin.buffer, "standard input"), interactive


@contextmanager
def lines_out(path: Path | None) -> Iterator[Callable[[str], None]]:
    """A function that writes a line to a file, there once all are written, or to standard output at once."""
    if path is None:
        if sys.stdout is None:
            raise NmtError("standard output is closed: give --output, a file to write")

        def write(line: str) -> None:
            sys.stdout.buffer.write(line.encode() + b"\n")
            sys.stdout.buffer.flush()

        yield write
        return
    part = path.with_name(f".{path.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            yield lambda line: print(line, file=file)
        part.replace(path)
    except OSError as error:
        raise NmtError(f"{path}: cannot be written: {error.strerror}: choose another --output") from None
    finally:
        part.unlink(missing_ok=True)


def say_counts(translator: Translator) -> None:
    """Say which lines were not translated whole; nothing where all were."""
    counts, limit = translator.counts, translator.longest_source
    if counts.cut:
        log.warning("%d of %d lines are longer than %d subwords: cut", counts.cut, counts.lines, limit)
    if counts.skipped:
        log.warning("%d of %d lines are longer than %d subwords: left empty", counts.skipped, counts.lines, limit)
    if counts.unruly:
        log.warning(
            "%d of %d lines have no translation that obeys decoding.banned, no_repeat_ngram and min_length: "
            "translated without",
            counts.unruly,
            counts.lines,
        )
    if counts.terms:
        log.info("glossary: %d terms found, %d of them not in the translation", counts.terms, counts.unmet)
