"""Opens what translates: a model file, several as an ensemble, a run folder, or an exported CTranslate2 folder."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from nmt import device as devices
from nmt.checkpoints import export_folder, model_file
from nmt.config import schema
from nmt.data.vocabulary import Vocabulary
from nmt.decoding.ctranslate2_engine import CTranslate2Engine
from nmt.decoding.engine import Engine, PyTorchEngine
from nmt.errors import NmtError
from nmt.models.interface import TranslationModel


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
    trained_in = first.config.training.precision
    models = [prepare(one.build(), chosen, decoding.precision, trained_in) for one in loaded]
    digests = {one: file.digest for one, file in zip(paths, loaded, strict=True)}
    return PyTorchEngine(models, chosen), first.vocabulary, decoding, digests


def search_type(precision: str, trained_in: str, device: torch.device) -> torch.dtype:
    """The type of weights and states in search. precision: as decoding.precision; trained_in: as training.precision.

    Raises NmtError where the device does not have it.
    """
    if precision == "float16" and device.type != "cuda":
        raise NmtError(f"decoding.precision: float16 needs CUDA, and the device is {device}: use bfloat16")
    if precision == "int8" and device.type != "cpu":
        raise NmtError(f"decoding.precision: int8 needs the CPU, and the device is {device}: use bfloat16")
    if precision == "model" and device.type == "cuda":
        precision = trained_in
    return getattr(torch, precision) if precision in ("bfloat16", "float16") else torch.float32


def prepare(
    model: TranslationModel, device: torch.device, precision: str, trained_in: str = "float32"
) -> TranslationModel:
    """Move a model to the device and change it for search; it cannot be trained after that.

    precision and trained_in: as in `search_type`, and raises as that does. int8: linear layers, with inputs quantised
    by the range of each batch.
    """
    dtype = search_type(precision, trained_in, device)
    model = model.to(device)
    model.prepare_for_search(dtype)
    if precision != "int8":
        return model
    try:
        from torch.ao.quantization import default_dynamic_qconfig, quantize_dynamic
    except ImportError:
        raise NmtError("decoding.precision: int8: this version of PyTorch cannot quantise: use bfloat16") from None
    layers = dict.fromkeys(model.int8_layers(), default_dynamic_qconfig)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that a later version will not have it
        return quantize_dynamic(model, layers, inplace=True)  # type: ignore[no-untyped-call]


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
