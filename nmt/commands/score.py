"""Given translations scored with a model, line by line."""

import logging
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
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
    """Write the score of each line of `target` as a translation of that line of `source`; output None: standard output.

    Raises NmtError where a file cannot be read or written, or one has more lines.
    """
    read = [*files_of(model, *ensemble), source, target]
    if output is not None:
        check_output(output, read)  # before the work of loading
    models.log_chosen_files(model, *ensemble)
    translator = models.load_translator(model, device, overrides, ensemble)
    with lines_out(output, read) as write:
        pairs, first = line_pairs(source, target), 1
        while chunk := list(islice(pairs, CHUNK_LINES)):
            sources, targets = zip(*chunk, strict=True)
            for number, translation in enumerate(translator.score(sources, targets), start=first):
                write(score_row(number, translation, format))
            first += len(chunk)
    if skipped := translator.counts.skipped:
        log.warning("%s of %s pairs are too long for the model: nan", f"{skipped:,}", f"{translator.counts.lines:,}")


def line_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """The lines of two files, in pairs. Raises NmtError where one has more lines."""
    lines = read_lines(source), read_lines(target)
    for number, (line, translation) in enumerate(zip_longest(*lines)):
        if line is None or translation is None:
            rest = number + 1 + sum(1 for one in lines for _ in one)  # one of them has ended
            here, there = (number, rest) if line is None else (rest, number)
            raise NmtError(f"{source} has {here:,} lines and {target} has {there:,}: each line needs its translation")
        yield line, translation
