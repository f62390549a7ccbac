"""Lines in, rows out: where they come from, what a row says, where it goes."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nmt.data.corpus import decoded_lines, read_lines
from nmt.decoding.translator import CHUNK_LINES, Counts, Translator
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


def rows(
    translator: Translator,
    lines: Iterable[str],
    n_best: int | None = None,
    scores: bool = False,
    chunk_lines: int = CHUNK_LINES,
    first: int = 1,
) -> Iterator[str]:
    """What is written for lines, of which the first has the number `first`: for each the translation, with `scores`
    `score TAB translation`; with n_best so many times `line number TAB score TAB translation`, best first.

    Raises as `Translator.stream_hypotheses`.
    """
    if n_best is None and not scores:
        yield from translator.stream(lines, chunk_lines, first)
        return
    for number, found in enumerate(translator.stream_hypotheses(lines, n_best or 1, chunk_lines, first), first):
        for translation in found:
            place = f"{number}\t" if n_best is not None else ""
            yield f"{place}{translation.score:.6f}\t{translation.text}"


def say_counts(counts: Counts, limit: int | None) -> None:
    """Say which lines were not translated as they are, longer than `limit` subwords; nothing where all were."""
    for level, number, what in (
        (logging.INFO, counts.split, f"split into {counts.parts:,} parts"),
        (logging.WARNING, counts.cut, "cut"),
        (logging.WARNING, counts.skipped, "left empty"),
    ):
        if number:
            are = "line is" if counts.lines == 1 else "lines are"
            log.log(
                level, "%s of %s %s longer than %s subwords: %s", f"{number:,}", f"{counts.lines:,}", are, limit, what
            )
