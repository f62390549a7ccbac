"""Builds PyTorch's engine from the contents of model files, on a device and with a type of numbers."""

import warnings
from collections.abc import Sequence

import torch

from nmt import device as devices
from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.decoding.engine import PyTorchEngine
from nmt.errors import NmtError
from nmt.models.linear import Linear
from nmt.models.translation_model import TranslationModel

_SEARCH_TYPES = {
    "model": torch.float32,
    "auto": torch.float32,  # as training.precision: an imported model, which nmt has not trained
    "float32": torch.float32,
    "tf32": torch.float32,
    "int8": torch.float32,  # of the layers that are not quantised
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def pytorch_engine(
    checkpoints: Sequence[model_file.Checkpoint], device: str, decoding: schema.DecodingConfig
) -> PyTorchEngine:
    """PyTorch's engine for these models. Raises NmtError if the device does not exist, or does not support
    decoding.precision."""
    chosen, trained_in = devices.choose(device), checkpoints[0].config.training.precision
    models = [prepare(model.build(), chosen, decoding.precision, trained_in) for model in checkpoints]
    return PyTorchEngine(models, chosen)


def search_type(precision: str, trained_in: str, device: torch.device) -> torch.dtype:
    """The type of weights and states in search. precision: as decoding.precision; trained_in: as training.precision.

    Raises NmtError if the device does not support it.
    """
    if precision == "float16" and device.type != "cuda":
        raise NmtError(f"decoding.precision: float16 needs CUDA, and the device is {device}: use bfloat16")
    if precision == "int8" and device.type != "cpu":
        raise NmtError(f"decoding.precision: int8 needs the CPU, and the device is {device}: use bfloat16")
    if precision == "model" and device.type == "cuda":
        precision = trained_in
    return _SEARCH_TYPES[precision]


def prepare(
    model: TranslationModel, device: torch.device, precision: str, trained_in: str = "float32"
) -> TranslationModel:
    """Move a model to the device and prepare it for search. Afterwards it cannot be trained.

    precision, trained_in: as in `search_type`, also for what is raised. With int8, linear layers are quantised, and
    their inputs by the range of each batch.
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
    for name in layers:
        if isinstance(layer := model.get_submodule(name), Linear):
            model.set_submodule(name, layer.plain())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that a later version will not have it
        return quantize_dynamic(model, layers, inplace=True)  # type: ignore[no-untyped-call]
