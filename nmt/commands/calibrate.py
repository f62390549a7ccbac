"""`nmt calibrate`: fits the confidence of a model to a text and its references, and writes it into the model file."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from nmt.checkpoints.rewriting import rewriting
from nmt.commands.progress import line_bar
from nmt.data.cleaning.cleaner import without_empty
from nmt.decoding.chunks import log_counts
from nmt.decoding.confidence import CALIBRATION, LEAST_SENTENCES, Calibration, correlation_warning, fit
from nmt.errors import NmtError
from nmt.evaluation.metrics import sentence_chrf
from nmt.files.text import line_pairs
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
    """Translate the source, fit a calibration, and write it into the model file in place of an old one. Raises NmtError
    if a text has fewer than 200 sentences or another number of lines, if the file cannot be written, and if it changes
    meanwhile. Then nothing is changed."""
    opened = ModelsOfCommand.open(model, to=to, from_=from_)
    file = opened.model.file
    too_few = NmtError(f"{source}: fewer than {LEAST_SENTENCES} lines with a translation and a reference: add more")
    with rewriting(file) as save:
        pairs = without_empty(list(line_pairs(source, reference)))
        if len(pairs) < LEAST_SENTENCES:
            raise too_few
        opened.log()
        translator = opened.translator(device, overrides)
        with line_bar("translating", len(pairs)) as bar:
            translator.on_lines = bar.update
            lines = translator.hypotheses([line for line, _ in pairs], token_scores=False)
        log_counts(translator.counts, translator.longest_part)
        translations = [best for [best] in lines]
        chrf = sentence_chrf([best.text for best in translations], [line for _, line in pairs])
        calibration = fit(f"{source.name} + {reference.name}", translations, chrf)
        if calibration is None:
            raise too_few
        entry = {CALIBRATION: calibration.to_json()}
        save(lambda checkpoint: replace(checkpoint, provenance={**checkpoint.provenance, **entry}))
    log.info("%s: calibrated with %s, correlation with chrF %.2f", file, calibration, calibration.correlation)
    if warning := correlation_warning(entry):
        log.warning("%s. Is %s the translation of %s?", warning, reference, source)
    return calibration
