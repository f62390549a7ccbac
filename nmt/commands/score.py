"""`nmt score`: scores given translations with a model, line by line."""

import logging
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Literal

from nmt.commands.output_format import score_row
from nmt.files.outputs import check_output
from nmt.files.text import line_pairs, lines_out
from nmt.loading.command_models import ModelsOfCommand

log = logging.getLogger("nmt")

_PAIRS_TOGETHER = 2000  # Ctrl-C ends the command after these


def score(
    model: Path,
    source: Path,
    target: Path,
    output: Path | None,
    format: Literal["text", "json"],
    ensemble: Sequence[Path],
    overrides: Sequence[str],
    device: str,
    to: str | None,
    from_: str | None,
) -> None:
    """Write the score of each line of `target` as a translation of the same line of `source`.

    output: None for standard output. Raises NmtError if a file cannot be read or written, or if the numbers of lines
    differ.
    """
    models = ModelsOfCommand.open(model, ensemble, to, from_)
    read = [*models.files, source, target]
    if output is not None:
        check_output(output, read)  # before the models are loaded
    models.log()
    translator = models.translator(device, overrides)
    with lines_out(output, read) as write:
        pairs, first = line_pairs(source, target), 1
        while chunk := list(islice(pairs, _PAIRS_TOGETHER)):
            sources, targets = zip(*chunk, strict=True)
            for line_number, translation in enumerate(translator.score(sources, targets), start=first):
                write(score_row(line_number, translation, format))
            first += len(chunk)
    if skipped := translator.counts.skipped:
        total = f"{translator.counts.lines:,}"
        log.warning("%s of %s pairs are too long for the model: their scores are nan", f"{skipped:,}", total)
