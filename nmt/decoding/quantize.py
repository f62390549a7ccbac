"""Models made ready to translate: laid out for search, in the numbers that were asked for."""

import warnings
from typing import Literal

import torch
from torch import nn

from nmt.errors import NmtError
from nmt.models.transformer.model import Transformer

Precision = Literal["model", "float32", "bfloat16", "int8"]


def prepared(model: Transformer, device: torch.device, precision: Precision) -> Transformer:
    """The model on the device, not to be trained any more.

    bfloat16: weights and states; int8, on the CPU alone: projections, whose inputs are quantised as they come, by
    the range of each batch. `model` and float32 leave the weights as they are. Raises NmtError where int8 cannot be.
    """
    model = model.to(device)
    if precision == "bfloat16":
        model = model.bfloat16()
    model.lay_out_for_search()
    return _quantised(model, device) if precision == "int8" else model


def _quantised(model: Transformer, device: torch.device) -> Transformer:
    if device.type != "cpu":
        raise NmtError(f"decoding.precision: int8 is for the CPU, and the device is {device}: take bfloat16")
    try:
        from torch.ao.quantization import default_dynamic_qconfig, quantize_dynamic
    except ImportError:
        raise NmtError("decoding.precision: int8: this PyTorch cannot quantise any more: take bfloat16") from None
    # Cross-attention takes parts of its projection, and stays.
    names = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and not name.endswith("cross_attention.projection")
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch will drop this way of quantising some day, and says so
        quantised: Transformer = quantize_dynamic(  # type: ignore[no-untyped-call]
            model, dict.fromkeys(names, default_dynamic_qconfig), inplace=True
        )
    return quantised
