"""Preparing models for search: their precision, and how their weights are stored."""

import warnings
from typing import Literal

import torch

from nmt.errors import NmtError
from nmt.models.interface import TranslationModel

Precision = Literal["model", "float32", "bfloat16", "int8"]


def prepare(model: TranslationModel, device: torch.device, precision: Precision) -> TranslationModel:
    """Move the model to the device and change it for search; it cannot be trained after that.

    bfloat16: weights and states; int8: linear layers, on the CPU only, with inputs quantised by the range of each
    batch. `model` and float32 keep the weights' values. Raises NmtError where int8 is not possible.
    """
    model = model.to(device)
    if precision == "bfloat16":
        model = model.bfloat16()
    model.prepare_for_search()
    if precision != "int8":
        return model
    if device.type != "cpu":
        raise NmtError(f"decoding.precision: int8 needs the CPU, and the device is {device}: use bfloat16")
    try:
        from torch.ao.quantization import default_dynamic_qconfig, quantize_dynamic
    except ImportError:
        raise NmtError("decoding.precision: int8: this version of PyTorch cannot quantise: use bfloat16") from None
    layers = dict.fromkeys(model.int8_layers(), default_dynamic_qconfig)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that a later version will not have it
        quantized: TranslationModel = quantize_dynamic(model, layers, inplace=True)  # type: ignore[no-untyped-call]
    return quantized
