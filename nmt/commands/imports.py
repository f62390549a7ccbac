"""Imports a model that another program has trained: a model file of nmt that translates alike."""

import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import nmt
from nmt.checkpoints import model_file
from nmt.data.subwords import punctuation
from nmt.errors import NmtError
from nmt.files.outputs import check_output
from nmt.files.packages import install_command, is_installed
from nmt.files.text import to_path
from nmt.interop import sample_translations, source
from nmt.interop.imported import Imported
from nmt.interop.m2m100 import from_transformers as m2m100
from nmt.interop.m2m100.proof import M2M100Source
from nmt.interop.marian import from_npz as marian_npz
from nmt.interop.marian import from_transformers as marian
from nmt.interop.marian.from_npz import MarianFiles
from nmt.interop.marian.numpy_engine import MarianNumpy
from nmt.interop.proof import MarianSource, Proof, Source, prove

_SLOW = 4  # one line of so many is compared with NumPy: a search takes seconds a line

log = logging.getLogger("nmt")


_Open = Callable[[Path, Imported], Source]
# By model_type in config.json: what reads a model, and what opens it to compare with.
_READERS: Mapping[str, tuple[Callable[..., Imported], _Open]] = {
    "marian": (marian.read, MarianSource),
    m2m100.KIND: (m2m100.read, M2M100Source),
}


def import_model(
    name: str,
    output: Path,
    wanted: Sequence[str] = (),
    text: Sequence[Path] = (),
    *,
    normalize_punctuation: bool = False,
) -> Proof | None:
    """Write a model file from a folder of the Hugging Face hub, its name on the hub, or an .npz file of Marian.

    wanted: codes of languages, the source first; none: as the model names them. text: of a model of many languages,
    files in the wanted ones, if only the subwords that they use are to be kept. normalize_punctuation: text is given to
    the model as Moses writes it. Returns the comparison with the source, or None where transformers, which it needs,
    is not installed.

    Raises NmtError if something is missing or damaged, if the model is of another kind than nmt's, or if the comparison
    finds another model.
    """
    if normalize_punctuation:
        punctuation.normalized([], "en")  # raises before the long work
    path = source.locate(name)
    place = check_output(output, [path] if path.is_file() else sorted(path.iterdir()))
    proof, imported = _proven(path, name, wanted, text)
    if normalize_punctuation:
        imported = imported.with_punctuation()
    license = {} if imported.license is None else {"license": imported.license}
    provenance = {
        "nmt": nmt.__version__,
        "imported_from": path.resolve().name if to_path(name).exists() else name,
        **license,
    }
    model_file.save(place, imported.checkpoint(provenance))
    for note in imported.notes:
        log.warning("%s", note)
    if not imported.says_languages and (wrong := _wrong_languages(place, imported)):
        log.warning("%s", wrong)
    return proof


def _wrong_languages(model: Path, imported: Imported) -> str | None:
    """What is wrong with the languages that the user has named, as a few translations show."""
    pair, translator = imported.config.data.language_pairs.pairs[0], nmt.load(model, "cpu")
    return sample_translations.problem(lambda lines: translator.translate(lines, to=pair.target), pair)


def _proven(path: Path, name: str, wanted: Sequence[str], text: Sequence[Path]) -> tuple[Proof | None, Imported]:
    """The model in a folder or a file, compared with its source."""
    if text and not m2m100.is_one(path):
        raise NmtError(f"--text: {name} keeps all its subwords: only models of many languages (M2M-100, NLLB) need it")
    if (file := marian_npz.find(path)) is not None:
        imported = marian_npz.read(file, file.name.removesuffix(".npz"), wanted)
        return prove(imported, MarianNumpy(MarianFiles.read(file), imported), every=_SLOW), imported
    if path.is_file():
        raise NmtError(f"{path}: not an .npz file: give one, or a folder with config.json")
    if not (path / "config.json").is_file():
        raise NmtError(f"{path}: has neither config.json nor an .npz file: give the folder of a model")
    kind = source.read_mapping(path / "config.json").get("model_type")
    if not isinstance(kind, str) or kind not in _READERS:
        raise NmtError(f"{path / 'config.json'}: model_type: {source.shown(kind)}: nmt imports {', '.join(_READERS)}")
    read, engine = _READERS[kind]
    called = path.resolve().name if to_path(name).exists() else name.rpartition("/")[2]  # not the hub's cache's name
    imported = read(path, called, wanted, *([text] if text else []))
    if not is_installed("transformers"):
        imported.checkpoint({}).build()  # raises if weights and settings do not belong together
        log.warning("not compared with its source: that needs transformers: %s", install_command("marian"))
        return None, imported
    return prove(imported, engine(path, imported)), imported
