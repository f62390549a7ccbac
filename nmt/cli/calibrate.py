"""`nmt calibrate`."""

from pathlib import Path
from typing import Annotated

from nmt.cli import options, terminal


@terminal.reporting()
def calibrate(
    model: options.ModelOrRun,
    source: Annotated[Path, options.file("Text to translate, a sentence per line; at least 200.")],
    reference: Annotated[Path, options.file("Its translation by people, line by line.")],
    overrides: options.DecodingOverrides = None,
    to: options.To = None,
    from_: options.From = None,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    device: options.Device = "auto",
) -> None:
    """Fit the confidence of a model to a text, and write it into the model file.

    The confidence of a translation is the chrF that is expected of it, from 0 to 100. Training fits it to the
    validation text. Use this command for imported and averaged models, and with a text of the kind that you translate.

    Example: nmt calibrate runs/demo --source data/demo/test.en --reference data/demo/test.de
    """
    from nmt.commands import calibrate as calibration

    settings = options.decoding_overrides(overrides, beam_size, length_penalty)
    calibration.calibrate(model, source, reference, settings, device, to, from_)
