"""Imports a model that another program has trained, as a model file of nmt with the same translations."""

import datetime
import logging
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import nmt
from nmt.checkpoints import model_file
from nmt.data.subwords import punctuation
from nmt.errors import NmtError, first_line
from nmt.files.outputs import check_output
from nmt.files.text import read_lines, to_path
from nmt.interop import parity, sample_text, sample_translations, source
from nmt.interop.imported import Imported, Importer
from nmt.interop.m2m100 import from_transformers as m2m100
from nmt.interop.m2m100.from_transformers import M2M100Importer
from nmt.interop.marian import from_npz
from nmt.interop.marian.from_npz import MarianNpzImporter
from nmt.interop.marian.from_transformers import MarianImporter
from nmt.interop.parity import Parity

log = logging.getLogger("nmt")

# By model_type in config.json.
IMPORTERS: Mapping[str, Importer] = {"marian": MarianImporter(), m2m100.KIND: M2M100Importer()}


def import_model(
    name: str,
    output: Path,
    codes: Sequence[str] = (),
    text: Sequence[Path] = (),
    *,
    normalize_punctuation: bool = False,
) -> Parity | None:
    """Write a model file from a folder of the Hugging Face hub, its name on the hub, or an .npz file of Marian, and
    compare a few translations of nmt with those of the original program.

    codes, text: as `Importer.read`; normalize_punctuation: the model gets text with the punctuation of Moses. Returns
    the comparison; None if the other program cannot be called, is not installed, or raises an error, which is logged.

    Raises NmtError if something is missing or damaged, or if nmt has no such model.
    """
    if normalize_punctuation:
        punctuation.normalized([], "en")  # raises NmtError before the long work
    path = source.locate(name)
    destination = check_output(output, [path] if path.is_file() else sorted(path.iterdir()))
    is_local = to_path(name).exists()
    path, importer = _importer(path)
    if text and not importer.reads_text:
        raise NmtError(
            f"--text: only for models of many languages (M2M-100, NLLB): {name} keeps all its subwords: leave it out"
        )
    # The name on the hub, not the name of the folder in the hub's cache.
    model_name = path.resolve().name.removesuffix(".npz") if is_local else name.rpartition("/")[2]
    imported = importer.read(path, model_name, codes, text)
    provenance = {
        "nmt": nmt.__version__,
        model_file.DATE: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "imported_from": to_path(name).resolve().name if is_local else name,
    }
    if imported.license is not None:
        provenance["license"] = imported.license
    lines = _sample(imported, text)
    nmt_lines = parity.translate(imported.checkpoint(provenance), lines)  # raises NmtError for weights that do not fit
    punctuated = imported.with_punctuation() if normalize_punctuation else imported
    model_file.save(destination, punctuated.checkpoint(provenance))
    for note in imported.notes:
        log.warning("%s", note)
    if not imported.says_languages and (problem := _wrong_languages(destination, imported)):
        log.warning("%s", problem)
    try:
        program_lines = importer.translate(path, imported.config, lines)
    except Exception as error:  # many types: from another program
        log.warning("translations are not compared with those of %s: %s", importer.program, first_line(error))
        return None
    return None if program_lines is None else Parity(importer.program, nmt_lines, program_lines)


def _sample(imported: Imported, text: Sequence[Path]) -> list[str]:
    """Lines for the comparison: from the text whose subwords were kept, or sample lines in the source's scripts."""
    lines = parity.first_lines(chain.from_iterable(map(read_lines, text)))
    return lines or sample_text.lines_in_scripts(imported.config.data.language_pairs.pairs[0].source)


def _importer(path: Path) -> tuple[Path, Importer]:
    """The folder or file of a model, and its importer."""
    if (file := from_npz.find(path)) is not None:
        return file, MarianNpzImporter()
    if path.is_file():
        raise NmtError(f"{path}: not an .npz file: give an .npz file, or a folder with config.json")
    config = path / "config.json"
    if not config.is_file():
        raise NmtError(f"{path}: has neither config.json nor an .npz file: give the folder of a model")
    kind = source.read_mapping(config).get("model_type")
    if not isinstance(kind, str) or kind not in IMPORTERS:
        raise NmtError(f"{config}: model_type: {source.shown(kind)}: nmt imports {', '.join(IMPORTERS)}")
    return path, IMPORTERS[kind]


def _wrong_languages(model: Path, imported: Imported) -> str | None:
    """A message if a few translations show that the user has named wrong languages; otherwise None."""
    pair, translator = imported.config.data.language_pairs.pairs[0], nmt.load(model, "cpu")

    def translate(lines: Sequence[str]) -> list[str]:
        return translator.translate(lines, to=pair.target)

    return sample_translations.problem(translate, pair)
