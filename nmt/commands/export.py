"""Exports a model to a folder or a file, which appears when it is complete."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands import shortlist
from nmt.errors import NmtError
from nmt.files import atomic, outputs
from nmt.interop import parity
from nmt.interop.argos.export import ArgosExporter
from nmt.interop.bergamot.export import BergamotExporter
from nmt.interop.ctranslate2.export import CTranslate2Exporter
from nmt.interop.exporter import Exporter, ExportOptions, Format, choose_quantization
from nmt.interop.marian.export import MarianExporter
from nmt.interop.parity import Parity
from nmt.loading import command_models
from nmt.loading.opened_model import open_model

log = logging.getLogger("nmt")

EXPORTERS: Mapping[Format, Exporter] = {
    "ctranslate2": CTranslate2Exporter(),
    "marian": MarianExporter(),
    "argos": ArgosExporter(),
    "bergamot": BergamotExporter(),
}


def export(
    model: Path,
    format: Format,
    output: Path,
    quantization: str | None = None,
    lines: Sequence[str] | None = None,
    sentence_splitter: Path | None = None,
) -> Parity | None:
    """Export a model file, or the best model of a run folder, and compare a few translations of the other program with
    nmt's.

    Returns the comparison; None if the other program cannot be called from Python. output: a new folder, or a new file
    with the format's suffix; quantization, lines, sentence_splitter: as `ExportOptions`.

    Raises NmtError if the format cannot represent the model, the output exists and is not empty, a package is missing,
    or the model cannot be loaded.
    """
    exporter = EXPORTERS[format]
    options = ExportOptions(choose_quantization(exporter, format, quantization), lines, sentence_splitter)
    as_file = exporter.suffix is not None and output.suffix == exporter.suffix
    _check_output(output, as_file)
    if sentence_splitter is not None and not exporter.has_splitter:
        raise NmtError(f"--sentence-splitter: {format} has no sentence splitter: leave the option out")
    loaded = model_file.load(model_file.locate(model))
    _check_architecture(loaded)
    pairs = loaded.config.data.language_pairs
    if pairs.several and as_file:
        raise NmtError(f"{output}: a file has one language pair, and the model has {len(pairs.pairs)}: name a folder")
    exporter.load_package()
    exporter.check(loaded.config, loaded.vocabulary)
    command_models.log_chosen_files(open_model(model))
    # `nmt shortlist` shows how much of each language pair it covers. An export does not download the training text.
    is_wanted = loaded.config.decoding.shortlist == "auto" and not pairs.several
    is_wanted = is_wanted and all(corpus.is_file for corpus in loaded.config.data.train)
    if exporter.has_shortlist and loaded.shortlist is None and is_wanted:
        try:
            loaded = replace(loaded, shortlist=shortlist.learned(loaded, shortlist.training_text(loaded)))
        except NmtError as error:
            log.info("no shortlist is exported, so translation is slower: %s", error)
    sample = parity.sample(loaded, lines)
    nmt_lines = parity.translate(loaded, sample)  # raises NmtError for damaged weights, before the long work
    folder_or_file = atomic.replacing(output) if as_file else atomic.new_folder(atomic.followed(output))
    with atomic.reporting(output, "--output"), folder_or_file as unfinished:
        exporter.write(unfinished, loaded, options)
        program_lines = exporter.translate(unfinished, loaded, sample)
    for note in exporter.notes(loaded, options):
        log.info("%s", note)
    return None if program_lines is None else Parity(exporter.program, nmt_lines, program_lines)


def obstacle(format: Format, loaded: Checkpoint) -> str | None:
    """The reason why the program of a format cannot represent a model; None if it can. Weights may have no values."""
    try:
        _check_architecture(loaded)
        EXPORTERS[format].check(loaded.config, loaded.vocabulary)
    except NmtError as error:
        return str(error)
    return None


def _check_architecture(loaded: Checkpoint) -> None:
    if (architecture := loaded.config.model.architecture) != "transformer":
        raise NmtError(
            f"{loaded.path}: model.architecture: {architecture}: only a transformer can be exported: use the model "
            "file itself (nmt translate, nmt serve)"
        )


def _check_output(output: Path, as_file: bool) -> None:
    """Raises NmtError unless `output` can be written as a new folder, or as a new file."""
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
