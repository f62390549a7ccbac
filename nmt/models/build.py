"""Models from settings and vocabulary sizes."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nmt.config.schema import ModelConfig, RecurrentConfig, TransformerConfig
from nmt.errors import NmtError
from nmt.models.recurrent.model import RecurrentModel
from nmt.models.transformer.model import Transformer
from nmt.models.translation_model import TranslationModel


def build(config: ModelConfig, source_vocabulary: int, target_vocabulary: int, padding: int) -> TranslationModel:
    """An untrained model in float32, with weights drawn from PyTorch's global generator; padding: the padding id."""
    match config:
        case TransformerConfig():
            return Transformer(config, source_vocabulary, target_vocabulary, padding)
        case RecurrentConfig():
            return RecurrentModel(config, source_vocabulary, target_vocabulary, padding)


def build_on_meta(
    config: ModelConfig, source_vocabulary: int, target_vocabulary: int, padding: int
) -> TranslationModel:
    """Like `build`, but on the meta device, without memory for weights. Raises NmtError if a matrix is too large."""
    try:
        with torch.device("meta"), Uninitialised():
            return build(config, source_vocabulary, target_vocabulary, padding)
    except RuntimeError:  # the number of bytes overflows an integer
        raise NmtError(
            "the model settings make a matrix that no machine can hold: lower the widths in the model settings"
        ) from None


class Uninitialised(TorchFunctionMode):
    """A context in which models are built without initialising their weights, which would take most of the time."""

    def __torch_function__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), named: dict[str, Any] | None = None
    ) -> Any:
        named = named or {}
        initialising = function in (Tensor.normal_, Tensor.uniform_, Tensor.fill_, Tensor.zero_)
        if initialising or getattr(function, "__module__", None) == nn.init.__name__:
            return arguments[0] if arguments else named["tensor"]
        return function(*arguments, **named)
