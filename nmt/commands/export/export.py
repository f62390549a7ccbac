"""A model file to an exported folder that is there whole, and proven, or not at all."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands import models
from nmt.commands.export import ctranslate2, marian, parity
from nmt.commands.export.marian_engine import MarianEngine
from nmt.commands.export.parity import Exported, Parity
from nmt.decoding import ctranslate2_engine
from nmt.decoding.ctranslate2_engine import CTranslate2Engine
from nmt.decoding.engine import PyTorchEngine
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_new_folder

Format = Literal["ctranslate2", "marian"]


@dataclass(frozen=True)
class Outcome:
    """How a folder compares with its model, and whether it is there."""

    parity: Parity
    kept: bool


def export(
    model: Path, format: Format, output: Path, quantization: str | None = None, lines: Sequence[str] | None = None
) -> Outcome:
    """Export a model file, or the best one of a run's folder, and compare the result with it on the CPU.

    quantization: of a CTranslate2 folder, one of nmt.commands.export.ctranslate2.QUANTIZATIONS, float32 without.
    lines: text
    to compare on; without, random subwords. A float32 folder whose parity does not hold is not kept; one of another
    quantization, which must differ somewhat, always is.

    Raises NmtError for a model that the format cannot hold, an output that is there and not empty, a package that is
    missing, lines of which none can be compared, and whatever checkpoint.load raises.
    """
    _check(format, output, quantization)
    models.log_chosen_files(model)
    loaded = model_file.load(model_file.locate(model))
    text = parity.sample(loaded.vocabulary.source) if lines is None else lines
    parity.comparable(text, loaded.config, loaded.vocabulary.source)  # raises before the work
    with atomic.reporting(output, "--output"):
        try:
            with atomic.new_folder(atomic.followed(output)) as folder:
                found = _written(folder, format, loaded, quantization or "float32", text)
                if not (found.holds or quantization not in (None, "float32")):
                    raise _NotKept
        except _NotKept:
            return Outcome(found, kept=False)
    return Outcome(found, kept=True)


class _NotKept(Exception):
    """The folder that is being made is to be removed."""


def _check(format: Format, output: Path, quantization: str | None) -> None:
    """What can be known before the work."""
    if format == "ctranslate2":
        ctranslate2_engine.load_package()
        if quantization is not None and quantization not in ctranslate2.QUANTIZATIONS:
            raise NmtError(f"--quantization {quantization}: choose one of {', '.join(ctranslate2.QUANTIZATIONS)}")
    else:
        marian.load_package()
        if quantization is not None and quantization != "float32":
            raise NmtError(f"--quantization {quantization}: a marian folder is float32: leave it out")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise NmtError(f"{output}: exists already and is not empty: choose another --output")
    check_new_folder(output)
    try:
        os.path.realpath(output).encode()
    except UnicodeEncodeError:  # which the other libraries do not take
        raise NmtError(f"{output}: a name that is not UTF-8: choose another --output") from None
    if output.exists() and output.samefile(Path.cwd()):
        raise NmtError(f"{output}: is the current folder, which cannot be replaced: name a new folder")


def _written(folder: Path, format: Format, loaded: Checkpoint, quantization: str, lines: Sequence[str]) -> Parity:
    theirs: Exported
    if format == "ctranslate2":
        ctranslate2.write(folder, loaded, quantization)
        theirs = CTranslate2Engine(folder, "cpu")
    else:
        marian.write(folder, loaded)
        theirs = MarianEngine(folder)
    ours = PyTorchEngine([loaded.build()], torch.device("cpu"))
    return parity.compare(ours, theirs, loaded.vocabulary, loaded.config, lines)
