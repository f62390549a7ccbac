"""Exports a model to a folder, which appears only when it is complete and was compared with the model."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import torch

from nmt.checkpoints import model_file
from nmt.checkpoints.ctranslate2_files import QUANTIZATIONS
from nmt.commands import models
from nmt.commands.export import ctranslate2, marian, parity
from nmt.commands.export.marian_engine import MarianEngine
from nmt.commands.export.parity import Exported, Parity
from nmt.config.language_pairs import LanguagePairs
from nmt.decoding import ctranslate2_model
from nmt.decoding.ctranslate2_folder import CTranslate2Folder
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.opened_model import open_model
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.outputs import check_new_folder

log = logging.getLogger("nmt")

Format = Literal["ctranslate2", "marian"]


def export(
    model: Path, format: Format, output: Path, quantization: str = "float32", lines: Sequence[str] | None = None
) -> tuple[Parity, bool]:
    """Export a model file, or the best one of a run's folder, and compare the result with it on the CPU.

    Returns the comparison, and whether the folder was kept: a float32 folder that does not translate as the model does
    is deleted; one with another quantization, which always differs a little, is kept.
    quantization: for CTranslate2, one of nmt.checkpoints.ctranslate2_files.QUANTIZATIONS. lines: text to compare on;
    None for random subwords.

    Raises NmtError if the format cannot represent the model, the output exists and is not empty, a package is missing,
    no line can be compared, or the model cannot be loaded.
    """
    _check(format, output, quantization)
    loaded = model_file.load(model_file.locate(model))
    if (architecture := loaded.config.model.architecture) != "transformer":
        raise NmtError(
            f"{loaded.path}: model.architecture: {architecture}: only a transformer can be exported: use the model "
            "file itself (nmt translate, nmt serve)"
        )
    models.log_chosen_files(open_model(model))
    text = parity.sample(loaded.vocabulary.source) if lines is None else lines
    parity.comparable(text, loaded.config, loaded.vocabulary.source)  # raises before the long work
    theirs: Exported
    with suppress(_NotKept), atomic.reporting(output, "--output"), atomic.new_folder(atomic.followed(output)) as folder:
        if format == "ctranslate2":
            ctranslate2.write(folder, loaded, quantization)
            theirs = CTranslate2Folder(folder, "cpu")
        else:
            marian.write(folder, loaded)
            theirs = MarianEngine(folder)
        ours = PyTorchEngine([loaded.build()], torch.device("cpu"))
        comparison = parity.compare(ours, theirs, loaded.vocabulary, loaded.config, text)
        kept = comparison.holds or quantization != "float32"
        if not kept:
            raise _NotKept
    if kept:
        _explain_languages(format, loaded.config.data.language_pairs)
    return comparison, kept


def _explain_languages(format: Format, pairs: LanguagePairs) -> None:
    """Log how another engine is told the languages of a model of several pairs."""
    if not pairs.has_tags:
        return
    if format == "marian":
        codes = ", ".join(map(marian.language_code, pairs.targets))
        log.info("languages: each text must begin with the code of the target language: %s", codes)
        return
    if pairs.tagged == "sides":
        each = "; ".join(
            f"{pair}: {' and '.join((*pairs.tags(pair), *pairs.tags(pair, side=1)))}" for pair in pairs.pairs
        )
        log.info(
            "languages: nmt chooses them with --to; other programs must put one token before those of the source, and "
            "give one as target_prefix, which the output begins with: %s",
            each,
        )
        return
    tags = "; ".join(f"{pair}: {' '.join(pairs.tags(pair))}" for pair in pairs.pairs)
    log.info(
        "languages: nmt chooses them with --to; other programs must put tokens before those of the source: %s", tags
    )


class _NotKept(Exception):
    """The new folder must be removed."""


def _check(format: Format, output: Path, quantization: str) -> None:
    """Raises NmtError for mistakes that can be found before the long work."""
    if format == "ctranslate2":
        ctranslate2_model.load_package()
        if quantization not in QUANTIZATIONS:
            raise NmtError(f"--quantization {quantization}: choose one of {', '.join(QUANTIZATIONS)}")
    else:
        marian.load_package()
        if quantization != "float32":
            raise NmtError(
                f"--quantization {quantization}: a marian folder is always float32: leave out --quantization"
            )
    check_new_folder(output)
    if output.is_dir() and any(output.iterdir()):
        raise NmtError(f"{output}: exists already and is not empty: choose another --output")
    try:
        os.path.realpath(output).encode()
    except UnicodeEncodeError:  # the other libraries do not accept it
        raise NmtError(f"{output}: the name is not UTF-8: choose another --output") from None
    if output.exists() and output.samefile(Path.cwd()):
        raise NmtError(f"{output}: is the current folder, which cannot be replaced: choose another --output")
