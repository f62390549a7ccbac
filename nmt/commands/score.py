"""Given translations scored with a model, line by line."""

import logging
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from nmt.commands import models
from nmt.commands.output_format import score_row
from nmt.decoding.chunks import CHUNK_LINES
from nmt.decoding.model_loader import files_of
from nmt.errors import NmtError
from nmt.files.outputs import check_output
from nmt.files.text import lines_out, read_lines

log = logging.getLogger("nmt")


def score(
    model: Path,
    source: Path,
    target: Path,
    output: Path | None,
    format: Literal["text", "json"],
    ensemble: Sequence[Path],
    overrides: Sequence[str],
    device: str,
) -> None:
    """Write the score of each line of `target` as a translation of that line of `source`; output None: to standard
    output.

    Raises NmtError where a file cannot be read or written, or one has more lines.
    """
    read = [*files_of(model, *ensemble), source, target]
    if output is not None:
        check_output(output, read)  # before the work of loading
    models.log_chosen_files(model, *ensemble)
    translator = models.load_translator(model, device, overrides, ensemble)
    with lines_out(output, read) as write:
        for first, sources, targets in line_pairs(source, target):
            for number, translation in enumerate(translator.score(sources, targets), start=first):
                write(score_row(number, translation, format))
    if skipped := translator.counts.skipped:
        log.warning("%s of %s pairs are too long for the model: nan", f"{skipped:,}", f"{translator.counts.lines:,}")


def line_pairs(source: Path, target: Path) -> Iterator[tuple[int, list[str], list[str]]]:
    """Chunks of lines of two files, with the number of the first line. Raises NmtError where one has more lines."""
    sources, targets, first = read_lines(source), read_lines(target), 1
    while True:
        ours, theirs = list(islice(sources, CHUNK_LINES)), list(islice(targets, CHUNK_LINES))
        if len(ours) != len(theirs):
            here, there = (first - 1 + len(lines) + sum(1 for _ in rest)
                           for lines, rest in ((ours, sources), (theirs, targets)))  # fmt: skip
            raise NmtError(f"{source} has {here:,} lines and {target} has {there:,}: each line needs its translation")
        if not ours:
            return
        yield first, ours, theirs
        first += len(ours)
