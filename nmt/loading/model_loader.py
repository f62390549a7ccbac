"""PyTorch's engine for the contents of model files: on a device, in the type of numbers that search computes with."""

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


def pytorch_engine(
    checkpoints: Sequence[model_file.Checkpoint], device: str, decoding: schema.DecodingConfig
) -> PyTorchEngine:
    """PyTorch's engine for these models. Raises NmtError where the device is not there, or cannot do what
    decoding.precision says."""
    chosen, trained_in = devices.choose(device), checkpoints[0].config.training.precision
    models = [prepare(model.build(), chosen, decoding.precision, trained_in) for model in checkpoints]
    return PyTorchEngine(models, chosen)


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
    of_float32 = dict.fromkeys(("model", "float32", "tf32", "int8"), torch.float32)
    return {**of_float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[precision]


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
    for name in layers:
        if isinstance(layer := model.get_submodule(name), Linear):
            model.set_submodule(name, layer.plain())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that a later version will not have it
        return quantize_dynamic(model, layers, inplace=True)  # type: ignore[no-untyped-call]
