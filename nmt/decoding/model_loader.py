"""Opens what translates: a model file, several as an ensemble, a run folder, or an exported CTranslate2 folder.

Loads PyTorch only where PyTorch translates.
"""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nmt import device as devices
from nmt.checkpoints import export_folder, model_file
from nmt.config import schema
from nmt.config.language_pairs import LanguagePairs
from nmt.data.source_text import SourceText, as_set
from nmt.data.vocabulary import Vocabulary
from nmt.decoding import forked
from nmt.decoding.ctranslate2_engine import CTranslate2Engine, is_installed
from nmt.decoding.ctranslate2_folder import CTranslate2Folder
from nmt.decoding.engine_support import ctranslate2_differs
from nmt.decoding.interface import Engine
from nmt.errors import NmtError

if TYPE_CHECKING:
    import torch

    from nmt.decoding.engine import PyTorchEngine
    from nmt.models.interface import TranslationModel

log = logging.getLogger("nmt")


@dataclass(frozen=True)
class Loaded:
    """What a `Translator` is made of. paths: of the model files, or of an exported folder; digests: of each."""

    paths: Sequence[Path]
    engine: Engine
    vocabulary: Vocabulary
    decoding: schema.DecodingConfig
    languages: LanguagePairs
    source_text: SourceText | None
    digests: dict[Path, str]


def load(
    path: Path, device: str, ensemble: Sequence[Path], overrides: Sequence[str], glossary: Path | None = None
) -> Loaded:
    """Open what translates. Logs which engine it is, and why. See `Translator.load`."""
    if export_folder.is_ctranslate2(path):
        if ensemble:
            raise NmtError(f"{path}: an exported folder cannot be in an ensemble: give model files")
        if glossary is not None:
            raise NmtError(f"{path}: an exported folder cannot use a glossary: translate with the model file")
        engine = CTranslate2Folder(path, device)
        settings = schema.override(engine.settings, overrides)
        decoding, source_text = settings.search, as_set(settings, export_folder.load_source_text(path))
        engine.check_precision(decoding.precision)
        if decoding.engine == "torch" and any(one.startswith("decoding.engine=") for one in overrides):
            raise NmtError(f"{path}: decoding.engine: torch: this folder is for CTranslate2: give the model file")
        digests = {path: engine.fingerprint}
        return Loaded([path], engine, engine.vocabulary, decoding, settings.data.language_pairs, source_text, digests)
    paths = [model_file.locate(one) for one in (path, *ensemble)]
    settings = schema.override(model_file.load_config(paths[0]), overrides)
    decoding = settings.search
    why = _why_not(settings.model, decoding, device, ensemble, glossary)
    if why is None:
        found = _load_for_ctranslate2(paths[0], device, overrides)
        if not isinstance(found, str):
            log.info("search: CTranslate2")
            return found
        why = found
    if decoding.engine == "ctranslate2":
        raise NmtError(f"decoding.engine: ctranslate2 is not possible ({why}): set decoding.engine=auto")
    log.info("search: PyTorch%s", f" ({why})" if decoding.engine == "auto" else "")
    return _load_for_pytorch(paths, ensemble, device, overrides)


def _why_not(
    model: schema.ModelConfig,
    decoding: schema.DecodingConfig,
    device: str,
    ensemble: Sequence[Path],
    glossary: Path | None,
) -> str | None:
    """Why CTranslate2 cannot search as nmt does; None if it can, as far as this is known before the model is read."""
    if decoding.engine == "torch":
        return "as set"
    if model.architecture != "transformer":
        return f"model.architecture: {model.architecture}: CTranslate2 has no such model"
    if not is_installed():
        return "CTranslate2 is not installed: pip install ctranslate2"
    if ensemble:
        return "CTranslate2 has no ensembles"
    if glossary is not None:
        return "CTranslate2 has no glossaries"
    if not devices.is_cpu(device):
        return "CTranslate2 is used on CPUs only: --device cpu"
    return ctranslate2_differs(decoding)


def _load_for_ctranslate2(path: Path, device: str, overrides: Sequence[str]) -> Loaded | str:
    """The engine that uses CTranslate2, or why it is not possible."""
    loaded = model_file.load_arrays(path)
    if not loaded.vocabulary.target.has_bytes:
        return "the vocabulary has no byte_fallback, so the unknown subword may have a probability that counts"
    settings = schema.override(loaded.config, overrides)
    decoding, source_text = settings.search, as_set(settings, model_file.source_text(loaded.provenance))
    if not loaded.are_finite():
        return "some weights are not finite numbers"

    def own() -> "PyTorchEngine":  # from memory: by then the file may have been replaced
        return _pytorch_engine([loaded.checkpoint()], device, decoding)

    try:
        engine = CTranslate2Engine.of_model_file(str(path), loaded, decoding, own)
    except NmtError as error:
        return str(error)
    languages, digests = settings.data.language_pairs, {path: loaded.digest}
    return Loaded([path], engine, loaded.vocabulary, decoding, languages, source_text, digests)


def _load_for_pytorch(paths: Sequence[Path], ensemble: Sequence[Path], device: str, overrides: Sequence[str]) -> Loaded:
    forked.limit_pytorch()
    loaded = [model_file.load(one) for one in paths]
    first, languages = loaded[0], loaded[0].config.data.language_pairs
    for other, name in zip(loaded[1:], ensemble, strict=True):
        if other.vocabulary.protos != first.vocabulary.protos:
            raise NmtError(
                f"{name}: its vocabulary differs from that of {paths[0]}: an ensemble needs models with the same "
                "vocabulary"
            )
        others = other.config.data.language_pairs
        if (languages.several or others.several) and others != languages:
            raise NmtError(
                f"{name}: its pairs of languages, {', '.join(map(str, others.pairs))}, or their tags differ from those "
                f"of {paths[0]}: an ensemble needs models of the same"
            )
        if not all(map(languages.has, others.pairs)):  # no error: a language has several codes, such as de and deu
            log.warning(
                "%s: translates %s, and %s translates %s: an ensemble needs models of the same",
                *(name, others.pairs[0], paths[0], languages.pairs[0]),
            )
    settings = schema.override(first.config, overrides)
    decoding, source_text = settings.search, as_set(settings, model_file.source_text(first.provenance))
    digests = {one: file.digest for one, file in zip(paths, loaded, strict=True)}
    engine = _pytorch_engine(loaded, device, decoding)
    return Loaded(paths, engine, first.vocabulary, decoding, languages, source_text, digests)


def _pytorch_engine(
    loaded: Sequence[model_file.Checkpoint], device: str, decoding: schema.DecodingConfig
) -> "PyTorchEngine":
    from nmt.decoding.engine import PyTorchEngine

    forked.limit_pytorch()
    chosen, trained_in = devices.choose(device), loaded[0].config.training.precision
    return PyTorchEngine([prepare(one.build(), chosen, decoding.precision, trained_in) for one in loaded], chosen)


def search_type(precision: str, trained_in: str, device: "torch.device") -> "torch.dtype":
    """The type of weights and states in search. precision: as decoding.precision; trained_in: as training.precision.

    Raises NmtError where the device does not have it.
    """
    import torch

    if precision == "float16" and device.type != "cuda":
        raise NmtError(f"decoding.precision: float16 needs CUDA, and the device is {device}: use bfloat16")
    if precision == "int8" and device.type != "cpu":
        raise NmtError(f"decoding.precision: int8 needs the CPU, and the device is {device}: use bfloat16")
    if precision == "model" and device.type == "cuda":
        precision = trained_in
    return getattr(torch, precision) if precision in ("bfloat16", "float16") else torch.float32


def prepare(
    model: "TranslationModel", device: "torch.device", precision: str, trained_in: str = "float32"
) -> "TranslationModel":
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
    from nmt.models.linear import Linear

    layers = dict.fromkeys(model.int8_layers(), default_dynamic_qconfig)
    for name in layers:
        if isinstance(layer := model.get_submodule(name), Linear):
            model.set_submodule(name, layer.plain())
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
