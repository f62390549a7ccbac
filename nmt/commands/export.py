"""Exports a model to a folder, which appears only when it is complete and was compared with the model."""

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import torch

from nmt.checkpoints import model_file
from nmt.decoding.engine import PyTorchEngine
from nmt.errors import NmtError
from nmt.files import atomic, outputs
from nmt.interop import parity
from nmt.interop.export_options import Options
from nmt.interop.formats import Format, Name, formats
from nmt.interop.parity import Parity
from nmt.loading import models
from nmt.loading.opened_model import open_model

log = logging.getLogger("nmt")


def export(
    model: Path,
    name: Name,
    output: Path,
    quantization: str | None = None,
    lines: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    sentence_splitter: Path | None = None,
) -> tuple[Parity, bool]:
    """Export a model file, or the best one of a run's folder, and compare the result with it on the CPU.

    Returns the comparison, and whether the result was kept: float32 that does not translate as the model does is
    deleted; another quantization, which always differs a little, is kept.
    name: of the format. output: a new folder, or a new file with the format's suffix. quantization: one of the
    format's; None: its default. lines: text to compare on; None: that of the format. references, sentence_splitter: as
    `Options`.

    Raises NmtError if the format cannot represent the model, the output exists and is not empty, a package is missing,
    no line can be compared, or the model cannot be loaded.
    """
    format = formats()[name]
    format.load_package()
    quantization = format.choose_quantization(name, quantization)
    as_file = format.suffix is not None and output.suffix == format.suffix
    _check_output(output, as_file)
    _check_options(name, format, lines, references, sentence_splitter)
    loaded = model_file.load(model_file.locate(model))
    if (architecture := loaded.config.model.architecture) != "transformer":
        raise NmtError(
            f"{loaded.path}: model.architecture: {architecture}: only a transformer can be exported: use the model "
            "file itself (nmt translate, nmt serve)"
        )
    pairs = loaded.config.data.language_pairs
    if pairs.several and (as_file or references is not None):
        what = f"{output}: a file has" if as_file else "--reference: is of"
        fix = "name a folder" if as_file else "leave it out"
        raise NmtError(f"{what} one pair of languages, and the model {len(pairs.pairs)}: {fix}")
    format.check(loaded)
    models.log_chosen_files(open_model(model))
    sample = format.sample(loaded) if lines is None else lines
    options = Options(quantization, sample, references, sentence_splitter)
    parity.comparable(options.lines, loaded.config, loaded.vocabulary.source)  # raises before the long work
    place = atomic.replacing(output) if as_file else atomic.new_folder(atomic.followed(output))
    with suppress(_NotKept), atomic.reporting(output, "--output"), place as made:
        format.write(made, loaded, options)
        ours = PyTorchEngine([loaded.build()], torch.device("cpu"))
        comparison = parity.compare(ours, format.engine(made, loaded), loaded.vocabulary, loaded.config, options.lines)
        kept = comparison.holds or quantization != "float32"
        if not kept:
            raise _NotKept
        if format.scores and (quantization != "float32" or references is not None):
            comparison = replace(comparison, scores=format.scores(made, loaded, options))
    if kept and pairs.has_tags:
        log.info("languages: %s", format.languages(pairs))
    for line in format.explain(loaded, options) if kept and format.explain else ():
        log.info("%s", line)
    return comparison, kept


class _NotKept(Exception):
    """The new folder must be removed."""


def _check_options(
    name: Name,
    format: Format,
    lines: Sequence[str] | None,
    references: Sequence[str] | None,
    sentence_splitter: Path | None,
) -> None:
    """Raises NmtError for options that the format does not have, or that do not belong together."""
    if sentence_splitter is not None and not format.splits:
        raise NmtError(f"--sentence-splitter: {name} has none: leave it out")
    if references is not None:
        if format.scores is None:
            raise NmtError(f"--reference: {name} is not scored: leave it out, and use nmt evaluate")
        if lines is None or len(lines) != len(references):
            count = "no --sample" if lines is None else f"--sample has {len(lines):,}"
            raise NmtError(
                f"--reference: has {len(references):,} lines, {count}: give a translation of each line of --sample"
            )


def _check_output(output: Path, as_file: bool) -> None:
    """Raises NmtError unless a new folder, or a new file, can be written there."""
    if as_file:
        outputs.check_output(output)
        if output.exists():
            raise NmtError(f"{output}: exists already: choose another --output")
    else:
        outputs.check_new_folder(output)
    if output.is_dir() and any(output.iterdir()):
        raise NmtError(f"{output}: exists already and is not empty: choose another --output")
    try:
        os.path.realpath(output).encode()
    except UnicodeEncodeError:  # the other libraries do not accept it
        raise NmtError(f"{output}: the name is not UTF-8: choose another --output") from None
    if output.exists() and output.samefile(Path.cwd()):
        raise NmtError(f"{output}: is the current folder, which cannot be replaced: choose another --output")
