"""Reads an exported Bergamot model as its engine does, and computes it like this; for comparison, not for speed.

The weights and the multipliers are those of the file, the search is nmt's.

Shapes: B sentences, T positions, I inputs, O outputs of a matrix.
"""

import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nmt.checkpoints.model_file import Checkpoint
from nmt.decoding.engine import PyTorchEngine
from nmt.interop.bergamot import layers
from nmt.interop.bergamot.binary import LARGEST
from nmt.interop.bergamot.export import file_names
from nmt.models.transformer.model import Transformer

TYPES = {0x404: "float32", 0x101: "int8", 0x4101: "intgemm8"}


class Stored(NamedTuple):
    kind: str
    shape: tuple[int, ...]
    content: bytes


def stored(path: Path) -> dict[str, Stored]:
    """The items of a file, by name, read as the engine does."""
    data = path.read_bytes()
    version, count = struct.unpack("<QQ", data[:16])
    assert version == 1
    headers = [struct.unpack("<QQQQ", data[16 + 32 * i :][:32]) for i in range(count)]
    place = 16 + 32 * count
    names = []
    for size, _, _, _ in headers:
        assert data[place + size - 1] == 0
        names.append(data[place : place + size - 1].decode())
        place += size
    shapes: list[tuple[int, ...]] = []
    for _, _, rank, _ in headers:
        shapes.append(struct.unpack(f"<{rank}i", data[place : place + 4 * rank]))
        place += 4 * rank
    (skipped,) = struct.unpack("<Q", data[place : place + 8])
    assert not any(data[place + 8 : place + 8 + skipped])
    place += 8 + skipped
    items = {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, headers, strict=True):
        assert place % 256 == size % 256 == 0  # as the engine's vector instructions need
        items[name] = Stored(TYPES[kind], shape, data[place : place + size])
        place += size
    assert place == len(data) and len(items) == count
    return items


def numbers(item: Stored) -> NDArray[np.float32]:
    count = math.prod(item.shape)
    assert item.kind == "float32" and not any(item.content[4 * count :])
    return np.frombuffer(item.content, "<f4", count).reshape(item.shape)


def integers(item: Stored) -> tuple[NDArray[np.int8], float]:
    """In the order in which they are stored, and their multiplier."""
    count = math.prod(item.shape)
    assert item.kind == "intgemm8" and not any(item.content[count + 4 :])
    return np.frombuffer(item.content, "i1", count), struct.unpack("<f", item.content[count : count + 4])[0]


def matrix(items: Mapping[str, Stored], name: str) -> tuple[NDArray[np.int8], float]:
    """The integers in Marian's shape, and their multiplier: all but embeddings are stored by columns."""
    values, multiplier = integers(items[name])
    shape = items[name].shape
    return (values.reshape(shape) if "Wemb" in name else values.reshape(shape[::-1]).T), multiplier


class BergamotFolder(PyTorchEngine):
    """The model in a folder that was exported of `loaded`."""

    def __init__(self, folder: Path, loaded: Checkpoint):
        model = loaded.build()
        assert isinstance(model, Transformer)
        model.requires_grad_(False)
        layers.split_attention(model)
        _load(model, stored(folder / file_names(loaded)["model"]))
        super().__init__([model], torch.device("cpu"))


class _IntegerProduct(nn.Module):
    """x W + b, where x and W are rounded to multiples of their own step.

    The engine adds 127 to the integers of x, so that none is below 0, and the bias makes up for it. Sums of integers
    are exact, but in float32 this cancels out only nearly, and the next rounding may give other integers.
    Source: browsermt/marian-dev, src/tensors/cpu/wasm_intgemm_fallback.cpp."""

    def __init__(self, integers: NDArray[np.int8], multiplier: float, bias: Stored, input_multiplier: Stored):
        """integers: [I, O]."""
        super().__init__()
        self.integers = torch.from_numpy(integers.astype(np.float64))  # in float64 their sums are exact
        of_matrix, of_input = np.float32(multiplier), np.float32(numbers(input_multiplier)[0])
        largest = np.float32(LARGEST)
        self.of_input, self.step = float(of_input), float(1 / (of_input * of_matrix))
        shift = float((largest / of_input) * (largest / of_matrix) / largest)
        self.bias = _tensor(bias) - self.integers.sum(dim=0).float() * shift

    def forward(self, x: Tensor) -> Tensor:
        """[B, T, I] → [B, T, O]."""
        rounded = (x * self.of_input).round().clamp(-LARGEST, LARGEST) + LARGEST
        return (rounded.double() @ self.integers).float() * self.step + self.bias


def _load(model: Transformer, items: Mapping[str, Stored]) -> None:
    """Put the weights of a file in place of those of a model after layers.split_attention."""
    name, *_ = layers.output_names(model)
    if model.source_embedding is not model.target_embedding:
        model.source_embedding.weight.data = _embedding(items, "encoder_Wemb")
    model.target_embedding.weight.data = _embedding(items, name)
    values, multiplier = matrix(items, name)
    bias, inputs = items["decoder_ff_logit_out_b"], items[f"{name}_QuantMultA"]
    model.output = _IntegerProduct(values.T, multiplier, bias, inputs)  # type: ignore[assignment]
    paths = {module: path for path, module in model.named_modules()}
    for name, bias_name, layer in list(layers.linear_layers(model)):
        product = _IntegerProduct(*matrix(items, name), items[bias_name], items[f"{name}_QuantMultA"])
        model.set_submodule(paths[layer], product)
    for scale, bias_name, norm in layers.norms(model):
        norm.weight.data, norm.bias.data = _tensor(items[scale]), _tensor(items[bias_name])


def _embedding(items: Mapping[str, Stored], name: str) -> Tensor:
    values, multiplier = matrix(items, name)
    return torch.from_numpy(values.astype(np.float32) / np.float32(multiplier))


def _tensor(item: Stored) -> Tensor:
    return torch.from_numpy(numbers(item)[0].copy())
