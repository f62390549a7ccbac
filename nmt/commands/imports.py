"""Imports a model that another program has trained: a model file of nmt that translates alike."""

import logging
from collections.abc import Mapping, Sequence
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
    compare a few translations with those of the program that it is from.

    codes, text: as `Importer.read`; normalize_punctuation: text is given to the model as Moses writes it. Returns the
    comparison; None where the other program cannot be called, is not installed, or raises an error, which is logged.

    Raises NmtError if something is missing or damaged, or if the model is of another kind than nmt's.
    """
    if normalize_punctuation:
        punctuation.normalized([], "en")  # raises before the long work
    path = source.locate(name)
    destination = check_output(output, [path] if path.is_file() else sorted(path.iterdir()))
    is_local = to_path(name).exists()
    path, importer = _importer(path)
    if text and not importer.reads_text:
        raise NmtError(f"--text: {name} keeps all its subwords: only models of many languages (M2M-100, NLLB) need it")
    # Of a model of the hub the name there, not that of the folder in the hub's cache.
    called = path.resolve().name.removesuffix(".npz") if is_local else name.rpartition("/")[2]
    imported = importer.read(path, called, codes, text)
    provenance = {"nmt": nmt.__version__, "imported_from": to_path(name).resolve().name if is_local else name}
    if imported.license is not None:
        provenance["license"] = imported.license
    lines = _sample(imported, text)
    ours = parity.translate(imported.checkpoint(provenance), lines)  # raises for weights that do not fit
    punctuated = imported.with_punctuation() if normalize_punctuation else imported
    model_file.save(destination, punctuated.checkpoint(provenance))
    for note in imported.notes:
        log.warning("%s", note)
    if not imported.says_languages and (wrong := _wrong_languages(destination, imported)):
        log.warning("%s", wrong)
    try:
        theirs = importer.translate(path, imported.config, lines)
    except Exception as error:  # of many types: another program's
        log.warning("not compared with %s: %s", importer.program, first_line(error))
        return None
    return None if theirs is None else Parity(importer.program, ours, theirs)


def _sample(imported: Imported, text: Sequence[Path]) -> list[str]:
    """Lines to compare translations of: of the text whose subwords were kept, or such as the vocabulary knows."""
    lines = parity.first_lines(line for file in text for line in read_lines(file))
    return lines or sample_text.lines_in_scripts(imported.config.data.language_pairs.pairs[0].source)


def _importer(path: Path) -> tuple[Path, Importer]:
    """The folder or file of a model, and what reads it."""
    if (file := from_npz.find(path)) is not None:
        return file, MarianNpzImporter()
    if path.is_file():
        raise NmtError(f"{path}: not an .npz file: give one, or a folder with config.json")
    config = path / "config.json"
    if not config.is_file():
        raise NmtError(f"{path}: has neither config.json nor an .npz file: give the folder of a model")
    kind = source.read_mapping(config).get("model_type")
    if not isinstance(kind, str) or kind not in IMPORTERS:
        raise NmtError(f"{config}: model_type: {source.shown(kind)}: nmt imports {', '.join(IMPORTERS)}")
    return path, IMPORTERS[kind]


def _wrong_languages(model: Path, imported: Imported) -> str | None:
    """What is wrong with the languages that the user has named, as a few translations show."""
    pair, translator = imported.config.data.language_pairs.pairs[0], nmt.load(model, "cpu")
    return sample_translations.problem(lambda lines: translator.translate(lines, to=pair.target), pair)
