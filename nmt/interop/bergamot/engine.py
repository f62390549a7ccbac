"""Computes an exported Bergamot model as its engine does, from the exported file; for comparison, not for speed.

The weights and the multipliers are those of the file, the search is nmt's.

Shapes: B sentences, T positions, I inputs, O outputs of a matrix.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.language_pairs import LanguagePair
from nmt.decoding.engine import PyTorchEngine
from nmt.interop.bergamot import binary as marian_binary
from nmt.interop.bergamot import export as bergamot
from nmt.interop.bergamot import layers as marian_layers
from nmt.interop.bergamot.binary import LARGEST, Item
from nmt.models.transformer.model import Transformer


class BergamotFolder(PyTorchEngine):
    """The model in a folder that `nmt.interop.bergamot.export` has written of `loaded`."""

    def __init__(self, folder: Path, loaded: Checkpoint):
        items = marian_binary.read(folder / bergamot.file_names(loaded)["model"])
        model = loaded.build()
        assert isinstance(model, Transformer)
        model.requires_grad_(False)
        marian_layers.split_attention(model)
        _load(model, items)
        self.vocabulary = loaded.vocabulary
        super().__init__([model], torch.device("cpu"))

    def subwords(self, lines: Sequence[str], pairs: Sequence[LanguagePair] | None = None) -> list[list[int]]:
        """As nmt.interop.parity.Exported."""
        return self.vocabulary.source.encode(list(lines))


class _IntegerProduct(nn.Module):
    """x W + b, where x and W are rounded to multiples of their own step.

    The engine adds 127 to the integers of x, so that none is below 0, and the bias makes up for it. Sums of integers
    are exact, but in float32 this cancels out only nearly, and the next rounding may give other integers.
    Source: browsermt/marian-dev, src/tensors/cpu/wasm_intgemm_fallback.cpp."""

    def __init__(self, matrix: Item, bias: Item, multiplier: Item):
        """matrix: of integers, [I, O]; multiplier: of its input."""
        super().__init__()
        assert matrix.multiplier is not None
        self.integers = torch.from_numpy(matrix.values.astype(np.float64))  # in float64 their sums are exact
        of_input, largest = np.float32(multiplier.values[0]), np.float32(LARGEST)
        self.of_input, self.step = float(of_input), float(1 / (of_input * matrix.multiplier))
        shift = float((largest / of_input) * (largest / matrix.multiplier) / largest)
        self.bias = _numbers(bias)[0] - self.integers.sum(dim=0).float() * shift

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, I] → [B, T, O]."""
        rounded = (x * self.of_input).round().clamp(-LARGEST, LARGEST) + LARGEST
        return (rounded.double() @ self.integers).float() * self.step + self.bias


def _load(model: Transformer, items: dict[str, Item]) -> None:
    """Put the weights of a file in place of those of a model after marian_layers.split_attention."""
    name, *_ = marian_layers.output_names(model)
    if model.source_embedding is not model.target_embedding:
        model.source_embedding.weight.data = _numbers(items["encoder_Wemb"])
    model.target_embedding.weight.data = _numbers(items[name])
    columns = replace(items[name], values=items[name].values.T)
    output = _IntegerProduct(columns, items["decoder_ff_logit_out_b"], items[f"{name}_QuantMultA"])
    model.output = output  # type: ignore[assignment]
    for place in marian_layers.linear_layers(model):
        multiplier = items[f"{place.matrix}_QuantMultA"]
        place.replace(_IntegerProduct(items[place.matrix], items[place.bias], multiplier))
    for name, norm in marian_layers.norms(model):
        norm.weight.data = _numbers(items[name.format("scale")])[0]
        norm.bias.data = _numbers(items[name.format("bias")])[0]


def _numbers(item: Item) -> Tensor:
    return torch.from_numpy(np.array(item.numbers))
