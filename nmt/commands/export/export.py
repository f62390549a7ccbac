"""Exports a model to a folder, which appears only when it is complete and was compared with the model."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from nmt.checkpoints import model_file
from nmt.commands import models
from nmt.commands.export import parity
from nmt.commands.export.formats import Name, Options, formats
from nmt.commands.export.parity import Parity
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.opened_model import open_model
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_new_folder

log = logging.getLogger("nmt")


def export(
    model: Path, name: Name, output: Path, quantization: str | None = None, lines: Sequence[str] | None = None
) -> tuple[Parity, bool]:
    """Export a model file, or the best one of a run's folder, and compare the result with it on the CPU.

    Returns the comparison, and whether the folder was kept: a float32 folder that does not translate as the model does
    is deleted; one with another quantization, which always differs a little, is kept.
    name: of the format. quantization: one of the format's; None: its default. lines: text to compare on; None for
    random subwords.

    Raises NmtError if the format cannot represent the model, the output exists and is not empty, a package is missing,
    no line can be compared, or the model cannot be loaded.
    """
    format = formats()[name]
    format.load_package()
    quantization = format.choose_quantization(name, quantization)
    _check_output(output)
    loaded = model_file.load(model_file.locate(model))
    if (architecture := loaded.config.model.architecture) != "transformer":
        raise NmtError(
            f"{loaded.path}: model.architecture: {architecture}: only a transformer can be exported: use the model "
            "file itself (nmt translate, nmt serve)"
        )
    format.check(loaded)
    models.log_chosen_files(open_model(model))
    options = Options(quantization, parity.sample(loaded.vocabulary.source) if lines is None else lines)
    parity.comparable(options.lines, loaded.config, loaded.vocabulary.source)  # raises before the long work
    with suppress(_NotKept), atomic.reporting(output, "--output"), atomic.new_folder(atomic.followed(output)) as folder:
        format.write(folder, loaded, options)
        theirs = format.engine(folder, loaded)
        ours = PyTorchEngine([loaded.build()], torch.device("cpu"))
        comparison = parity.compare(ours, theirs, loaded.vocabulary, loaded.config, options.lines)
        kept = comparison.holds or quantization != "float32"
        if not kept:
            raise _NotKept
    if kept and loaded.config.data.language_pairs.has_tags:
        log.info("languages: %s", format.languages(loaded.config.data.language_pairs))
    return comparison, kept


class _NotKept(Exception):
    """The new folder must be removed."""


def _check_output(output: Path) -> None:
    """Raises NmtError unless a new folder can be written there."""
    check_new_folder(output)
    if output.is_dir() and any(output.iterdir()):
        raise NmtError(f"{output}: exists already and is not empty: choose another --output")
    try:
        os.path.realpath(output).encode()
    except UnicodeEncodeError:  # the other libraries do not accept it
        raise NmtError(f"{output}: the name is not UTF-8: choose another --output") from None
    if output.exists() and output.samefile(Path.cwd()):
        raise NmtError(f"{output}: is the current folder, which cannot be replaced: choose another --output")
