"""Reads the weights of other programs' Transformers, each once, and gives them nmt's names.

Shapes: H heads, D d_model, d the width of a head, W the common width of all heads.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.config.schema import TransformerConfig
from nmt.errors import NmtError

# The output bias of a subword that is never chosen: its probability is zero. Training with label smoothing can hardly
# raise it.
NEVER_CHOSEN = -1000.0

Linear = tuple[Tensor, Tensor]  # weight [outputs, inputs] and bias [outputs]
# The parts of a layer that have a matrix, the attentions and the blocks that end in a norm, as nmt calls them.
ATTENTION_PARTS = ("query", "key", "value", "output")
ATTENTIONS = {"encoder": ("self_attention",), "decoder": ("self_attention", "cross_attention")}


class Weights:
    """The weights of a model in float32; each is taken once. where: the file that messages name."""

    def __init__(self, where: str, tensors: Mapping[str, Tensor]):
        self.where, self._tensors, self._remaining = where, tensors, set(tensors)

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def length(self, name: str) -> int:
        """The number of rows of a weight that exists."""
        return len(self._tensors[name]) if self._tensors[name].dim() else 0

    def take(self, name: str, *shape: int) -> Tensor:
        """The weight with this name. Raises NmtError if it is missing, has another shape, or has numbers that are not
        finite."""
        tensor = self._tensors.get(name)
        if tensor is None:
            raise NmtError(f"{self.where}: has no weight {name}: use a complete copy")
        if tuple(tensor.shape) != shape:
            raise NmtError(
                f"{self.where}: weight {name} is {list(tensor.shape)}, but its settings need {list(shape)}: they do "
                "not belong together"
            )
        if not tensor.is_floating_point():
            raise NmtError(
                f"{self.where}: weight {name} has the type {tensor.dtype}: floating-point numbers are expected"
            )
        self._remaining.discard(name)
        weight = tensor.float()
        if not bool(torch.isfinite(weight).all()):
            raise NmtError(f"{self.where}: weight {name} has numbers that are not finite: use another copy")
        return weight

    def ignore(self, names: Iterable[str]) -> None:
        """Weights with these names need not be taken."""
        self._remaining.difference_update(names)

    def check_all_taken(self) -> None:
        """Raises NmtError if a weight was not taken: a part of the model would be lost."""
        for name in sorted(self._remaining):
            raise NmtError(f"{self.where}: weight {name[:100]} does not exist in a model of nmt with these settings")


class LayerReader(Protocol):
    """Reads the layers of another program's model.

    side: encoder or decoder; layer: the index of the layer, from 0.
    """

    def linear(self, side: str, layer: int, part: str, outputs: int, inputs: int) -> Linear:
        """The weight and the bias of a linear layer. part: such as self_attention.query, cross_attention.output,
        feed_forward.inner or feed_forward.outer."""

    def norm(self, side: str, layer: int, block: str) -> Linear:
        """The scale and the bias [D] of the norm of self_attention, cross_attention or feed_forward."""


def layer_weights(model: TransformerConfig, reader: LayerReader) -> Iterator[tuple[str, Tensor]]:
    """The weights of all layers by nmt's names, in which queries, keys and values have one matrix."""
    width, inner = model.d_model, model.feed_forward
    for side, count in (("encoder", model.encoder_layers), ("decoder", model.decoder_layers)):
        for layer in range(count or 0):
            prefix = f"{side}.{layer}"
            for name in ATTENTIONS[side]:
                linears = [reader.linear(side, layer, f"{name}.{part}", width, width) for part in ATTENTION_PARTS]
                weights, biases = zip(*linears, strict=True)
                yield f"{prefix}.{name}.projection.weight", torch.cat(weights[:3])
                yield f"{prefix}.{name}.projection.bias", torch.cat(biases[:3])
                yield f"{prefix}.{name}.output.weight", weights[3]
                yield f"{prefix}.{name}.output.bias", biases[3]
            for name, outputs, inputs in (("inner", inner, width), ("outer", width, inner)):
                weight, bias = reader.linear(side, layer, f"feed_forward.{name}", outputs, inputs)
                yield f"{prefix}.feed_forward.{name}.weight", weight
                yield f"{prefix}.feed_forward.{name}.bias", bias
            for block in (*ATTENTIONS[side], "feed_forward"):
                scale, bias = reader.norm(side, layer, block)
                yield f"{prefix}.{block}_residual.norm.weight", scale
                yield f"{prefix}.{block}_residual.norm.bias", bias


def pad_heads(rows: Tensor, heads: int, width: int) -> Tensor:
    """Rows of H heads, [H·d, …] → [H·W, …], with zeros at the end of each head.

    If queries, keys, values and the columns of the output matrix are padded in this way, attention computes the same
    result: the zeros add nothing to the product of a query and a key, and the output multiplies the zeros of the values
    by zeros.
    """
    by_head = rows.reshape(heads, len(rows) // heads, *rows.shape[1:])  # [H, d, …]
    missing = width - by_head.shape[1]
    return F.pad(by_head, (0, 0) * (by_head.dim() - 2) + (0, missing)).flatten(0, 1)
