"""`nmt calibrate`: fits the confidence of a model to a text and its references, and writes it into the model file."""

import logging
import stat
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from nmt.checkpoints import model_file, run_folder
from nmt.commands.progress import line_bar
from nmt.decoding.chunks import log_counts
from nmt.decoding.confidence import CALIBRATION, LEAST_SENTENCES, Calibration, fit
from nmt.errors import NmtError
from nmt.evaluation.aligned_texts import AlignedText, check_aligned
from nmt.evaluation.metrics import sentence_chrf
from nmt.files.outputs import check_folder
from nmt.files.text import file_stamp, read_lines
from nmt.loading.command_models import ModelsOfCommand

log = logging.getLogger("nmt")


def calibrate(
    model: Path,
    source: Path,
    reference: Path,
    overrides: Sequence[str] = (),
    device: str = "auto",
    to: str | None = None,
    from_: str | None = None,
) -> Calibration:
    """Translate the source, fit a calibration, and write it into the model file in place of an old one.

    Raises NmtError if a text has fewer than 200 sentences or another number of lines, if the file cannot be written,
    and if it changes meanwhile. Then nothing is changed.
    """
    opened = ModelsOfCommand.open(model, to=to, from_=from_)
    file = opened.model.file
    if opened.model.is_exported:
        raise NmtError(f"{model}: an exported folder: calibrate the model file, and export it again")
    if not file.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):
        raise NmtError(f"{file}: is read-only: make it writable (chmod u+w), or calibrate a copy")
    check_folder(file, file.resolve().parent, "model")
    sources, references = (AlignedText(str(path), list(read_lines(path))) for path in (source, reference))
    check_aligned(sources, [references])
    if len(sources.lines) < LEAST_SENTENCES:
        raise NmtError(f"{source}: {len(sources.lines)} lines: a calibration needs at least {LEAST_SENTENCES}")
    with ExitStack() as held:
        if (run := _run_of(file)) is not None:
            held.enter_context(run_folder.locked(run))
        stamp, checkpoint = file_stamp(file), model_file.load(file)
        opened.log()
        translator = opened.translator(device, overrides)
        with line_bar("translating", len(sources.lines)) as bar:
            translator.on_lines = bar.update
            translations = [best for best, *_ in translator.hypotheses(sources.lines, token_scores=False)]
        log_counts(translator.counts, translator.longest_part)
        # Lines without words on one side show nothing about the model.
        known = [i for i, line in enumerate(references.lines) if line.strip() and translations[i].subwords]
        chrf = sentence_chrf([translations[i].text for i in known], [references.lines[i] for i in known])
        calibration = fit(source.name, [translations[i] for i in known], chrf)
        if calibration is None:
            raise NmtError(
                f"{source}, {reference}: {len(known)} lines have words on both sides: a calibration needs at least "
                f"{LEAST_SENTENCES}"
            )
        if file_stamp(file) != stamp:
            raise NmtError(f"{file}: has changed meanwhile: run the command again")
        provenance = {**checkpoint.provenance, CALIBRATION: calibration.to_json()}
        model_file.save(file, replace(checkpoint, provenance=provenance))
    old = f", in place of {opened.model.calibration}" if opened.model.calibration else ""
    log.info("%s: calibrated with %s%s", file, calibration, old)
    return calibration


def _run_of(file: Path) -> Path | None:
    """The folder of the run that a model file belongs to; None for other files."""
    folder = file.resolve().parent
    run = folder.parent if folder.name == "checkpoints" else folder
    return run if (run / run_folder.CONFIG).is_file() and (run / "state").is_dir() else None
