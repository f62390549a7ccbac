"""Opens what translates: a model file, several as an ensemble, a run folder, or an exported CTranslate2 folder."""

from collections.abc import Sequence
from pathlib import Path

from nmt import device as devices
from nmt.checkpoints import export_folder, model_file
from nmt.config import schema
from nmt.data.vocabulary import Vocabulary
from nmt.decoding import quantize
from nmt.decoding.ctranslate2_engine import CTranslate2Engine
from nmt.decoding.engine import Engine, PyTorchEngine
from nmt.errors import NmtError


def load(
    path: Path, device: str, ensemble: Sequence[Path], overrides: Sequence[str]
) -> tuple[Engine, Vocabulary, schema.DecodingConfig, dict[Path, str]]:
    """What a `Translator` is made of: the engine, its vocabulary, its settings for decoding, and the digest of each
    model file that was read. See `Translator.load`."""
    if export_folder.is_ctranslate2(path):
        if ensemble:
            raise NmtError(f"{path}: an exported folder cannot be in an ensemble: give model files")
        engine = CTranslate2Engine(path, device)
        decoding = schema.override(engine.settings, overrides).search
        engine.check_precision(decoding.precision)
        return engine, engine.vocabulary, decoding, {}
    chosen = devices.choose(device)
    paths = [model_file.locate(one) for one in (path, *ensemble)]
    loaded = [model_file.load(one) for one in paths]
    first = loaded[0]
    for other, name in zip(loaded[1:], ensemble, strict=True):
        if other.vocabulary.protos != first.vocabulary.protos:
            raise NmtError(
                f"{name}: its vocabulary differs from that of {path}: an ensemble needs models with the same vocabulary"
            )
    decoding = schema.override(first.config, overrides).search
    models = [quantize.prepare(one.build(), chosen, decoding.precision) for one in loaded]
    trained_in = first.config.training.precision if decoding.precision == "model" else "float32"
    digests = {one: file.digest for one, file in zip(paths, loaded, strict=True)}
    return PyTorchEngine(models, chosen, trained_in), first.vocabulary, decoding, digests


def load_settings(path: Path) -> schema.Config:
    """The settings of a model that `load` opens, without its weights. Raises NmtError as `load` does."""
    if export_folder.is_ctranslate2(path):
        return export_folder.load_config(path)
    return model_file.load_config(model_file.locate(path))


def files_of(*models: Path) -> list[Path]:
    """The files that `load` reads: a model file, or all files of a CTranslate2 folder. Raises NmtError for neither."""
    found: list[Path] = []
    for model in models:
        in_folder = export_folder.is_ctranslate2(model)
        found += sorted(filter(Path.is_file, model.iterdir())) if in_folder else [model_file.locate(model)]
    return found
