"""Writes a CTranslate2 model from the weights of a model file, with CTranslate2's own classes, which load PyTorch.

CTranslate2 supports every setting of nmt's Transformer. Rotary positions exist there too; other positions are written
as a table, so that any layout is exact. Keys and values of different widths are padded with zeros.
Source: ctranslate2.specs (model_spec, transformer_spec, attention_spec).

Shapes: H heads, D d_model, dk and dv the key and value widths of a head, W = max(dk, dv), V subwords, T positions.
"""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, assert_never

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nmt.config.schema import Config, ModelConfig, TransformerConfig
from nmt.data.subwords.shortlist import Shortlist
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Tokenizer, Vocabulary
from nmt.errors import NmtError
from nmt.interop.weights import Weights, pad_heads
from nmt.models.transformer.positions import sinusoids

SHORTLIST = "vmap.txt"  # the name that CTranslate2 looks for
QUANTIZATIONS = ("float32", "float16", "bfloat16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")

# Half of int8's range: x86 processors without VNNI add two products of a weight and an input (up to 255) in 16 bits,
# and larger sums saturate. CTranslate2's own converter uses 127.
_INT8_LARGEST = 63
# CTranslate2's `GELU` is the exact x · Φ(x) too; `GELUTanh` is an approximation.
_ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "quick_gelu": "GELUSigmoid", "swish": "SWISH"}
# The values of settings of `model` that can be written. Another value, such as a new one, gives another model.
VALUES: Mapping[str, Collection[str]] = {
    "activation": _ACTIVATIONS,
    "norm": ("post", "pre"),
    "positions": ("interleaved", "concatenated", "learned", "rotary"),
    "tie": ("all", "target", "none"),
    "decoder_start": ("bos", "eos", "zero"),
}


def unsupported(model: ModelConfig) -> str | None:
    """The first setting that cannot be written, and why; None if all settings can be written."""
    if not isinstance(model, TransformerConfig):
        return f"model.architecture: {model.architecture}: CTranslate2 has no such model"
    for key, values in VALUES.items():
        if (value := getattr(model, key)) not in values:
            return f"model.{key}: {value}: nmt cannot write it for CTranslate2, only {', '.join(values)}"
    return None


def write(
    folder: Path,
    config: Config,
    vocabulary: Vocabulary,
    weights: Mapping[str, Tensor],
    positions: int,
    quantization: str = "float32",
    shortlist: Shortlist | None = None,
) -> None:
    """Write a model into an existing folder, with the shortlist if there is one, and if its text format can hold it.

    weights: of a model file; positions: the length of the table of sinusoids. Raises NmtError for a model
    that is `unsupported`, and if weights and settings do not belong together.
    """
    if problem := unsupported(config.model):
        raise NmtError(problem)
    assert isinstance(config.model, TransformerConfig)
    starts = {"bos": BOS, "zero": BOS, "eos": EOS}
    spec = _specification(config.model, vocabulary, weights, positions)
    source, target = (_names(vocabulary, side) for side in (vocabulary.source, vocabulary.target))
    spec.register_source_vocabulary(source)
    spec.register_target_vocabulary(target)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = target[UNK], target[BOS], target[EOS]
    spec.config.decoder_start_token = target[starts[config.model.decoder_start]]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = config.model.norm_epsilon
    spec.validate()
    spec.optimize()  # equal matrices are written once
    _quantize(spec, quantization)
    spec.save(str(folder))
    if shortlist is not None and not {*" \t\n"} & {*"".join(source + target)}:  # these characters separate subwords
        rows = [" ".join(target[i] for i in shortlist.row(subword).tolist()) for subword in range(len(source))]
        source[EOS] = ""  # the name of the row that is always used; CTranslate2 does not look up EOS
        lines = (f"{subword}\t{row}\n" for subword, row in zip(source, rows, strict=True) if row)
        (folder / SHORTLIST).write_text("".join(lines), encoding="utf-8")


def _specs() -> Any:
    from ctranslate2 import specs  # an optional package

    return specs


def _specification(
    config: TransformerConfig, vocabulary: Vocabulary, weights: Mapping[str, Tensor], length: int
) -> Any:
    """The model without its vocabularies, as a ctranslate2.specs.TransformerSpec."""
    specs, width = _specs(), config.d_model
    key, value = config.head_widths
    shape = {
        "num_heads": config.heads,
        "pre_norm": config.norm_first,
        "activation": specs.Activation[_ACTIVATIONS[config.activation]],
        "head_dim": max(key, value),
    }
    if config.rotates:  # dimensions i and i + dk/2 of a head are rotated together
        shape |= {"rotary_dim": key, "rotary_interleave": False}
    encoder = specs.TransformerEncoderSpec(config.encoder_layers or config.layers, **shape)
    decoder = specs.TransformerDecoderSpec(config.decoder_layers or config.layers, **shape)
    writer = _SpecWriter(weights, config)
    target = writer.take("target_embedding.weight", len(vocabulary.target), width)
    source = target if config.ties_embeddings else writer.take("source_embedding.weight", len(vocabulary.source), width)
    encoder.embeddings[0].weight, decoder.embeddings.weight = source, target
    tied = config.ties_output
    decoder.projection.weight = target if tied else writer.take("output.weight", len(vocabulary.target), width)
    if config.output_bias:
        decoder.projection.bias = writer.take("output.bias", len(vocabulary.target))
    decoder.start_from_zero_embedding = {"bos": False, "eos": False, "zero": True}[config.decoder_start]
    match config.positions:
        case "learned":
            for side, name in ((encoder, "source"), (decoder, "target")):
                side.position_encodings.encodings = writer.take(f"{name}_positions.weight", config.max_positions, width)
        case "interleaved" | "concatenated":
            offset = config.position_offset
            table = sinusoids(offset + length, width, config.positions)[offset:].numpy()
            encoder.position_encodings.encodings = decoder.position_encodings.encodings = table
        case "rotary":
            pass
        case _:
            assert_never(config.positions)
    for side, name in ((encoder, "encoder"), (decoder, "decoder")):
        if config.norm_first:
            writer.norm(side.layer_norm, f"{name}_norm")
        for index, layer in enumerate(side.layer):
            writer.attention(layer.self_attention, f"{name}.{index}.self_attention")
            if name == "decoder":
                writer.attention(layer.attention, f"{name}.{index}.cross_attention")
            writer.feed_forward(layer.ffn, f"{name}.{index}.feed_forward")
    writer.weights.check_all_taken()
    return specs.TransformerSpec(encoder, decoder)


class _SpecWriter:
    """Puts the weights of a model file into a specification, each once."""

    def __init__(self, weights: Mapping[str, Tensor], config: TransformerConfig):
        self.weights, self.config = Weights("the model", weights), config

    def take(self, name: str, *shape: int) -> NDArray[Any]:
        """As nmt.interop.weights.Weights, an array."""
        return self.weights.take(name, *shape).numpy()

    def norm(self, spec: Any, name: str) -> None:
        width = self.config.d_model
        spec.gamma, spec.beta = self.take(f"{name}.weight", width), self.take(f"{name}.bias", width)

    def linear(self, spec: Any, name: str, outputs: int, inputs: int) -> None:
        spec.weight = self.take(f"{name}.weight", outputs, inputs)
        if self.config.bias:
            spec.bias = self.take(f"{name}.bias", outputs)

    def feed_forward(self, spec: Any, name: str) -> None:
        self.linear(spec.linear_0, f"{name}.inner", self.config.feed_forward, self.config.d_model)
        self.linear(spec.linear_1, f"{name}.outer", self.config.d_model, self.config.feed_forward)
        self.norm(spec.layer_norm, f"{name}_residual.norm")

    def attention(self, spec: Any, name: str) -> None:
        """In CTranslate2, self-attention has one matrix for queries, keys and values; cross-attention has one for
        queries and one for keys and values. If keys and values have different widths, zeros are added to the narrower
        ones, which does not change the result."""
        heads, width, (key, value) = self.config.heads, self.config.d_model, self.config.head_widths
        rows = [heads * key, heads * key, heads * value]
        padded_width = max(key, value)
        *inputs, output = spec.linear
        for part, shape in (("weight", (sum(rows), width)), ("bias", (sum(rows),))):
            if part == "weight" or self.config.bias:
                joint = self.weights.take(f"{name}.projection.{part}", *shape)
                padded = [pad_heads(each, heads, padded_width) for each in torch.split(joint, rows)]
                parts = [padded] if len(inputs) == 1 else [padded[:1], padded[1:]]
                for layer, tensors in zip(inputs, parts, strict=True):
                    setattr(layer, part, torch.cat(tensors).numpy())
        self.linear(output, f"{name}.output", width, heads * value)
        output.weight = pad_heads(torch.from_numpy(output.weight).T, heads, padded_width).T.contiguous().numpy()
        spec.queries_scale = key**-0.5
        self.norm(spec.layer_norm, f"{name}_residual.norm")


def _names(vocabulary: Vocabulary, side: Tokenizer) -> list[str]:
    """The subwords of a side. Both sides have the target's names of the special subwords."""
    return vocabulary.target.pieces([PAD, UNK, BOS, EOS]) + side.every_piece()[EOS + 1 :]


def _quantize(spec: Any, quantization: str) -> None:
    """Convert the weights of a complete specification. int8 has a scale for each row of a matrix; other weights can
    become 16-bit floating-point numbers. Like `spec.optimize`, except for the largest int8."""
    kind, _, rest = quantization.partition("_")
    if quantization == "float32":
        return
    model_spec = _specs().model_spec

    def change(layer: Any, name: str, variable: Any) -> None:
        name = name.rpartition("/")[2]
        if not isinstance(variable, model_spec.Variable) or variable.is_scalar():
            return
        if kind != "int8" or not hasattr(layer, f"{name}_scale"):
            setattr(layer, name, variable.to(rest or "float32" if kind == "int8" else kind))
            return
        numbers = variable.numpy()
        largest = np.abs(numbers).max(axis=1)
        largest[largest == 0] = _INT8_LARGEST
        # At least so large that the scale does not overflow float32.
        scale = np.float32(_INT8_LARGEST) / np.maximum(largest, np.float32(_INT8_LARGEST) / np.finfo(np.float32).max)
        layer.weight = model_spec.NumpyVariable(np.rint(numbers * scale[:, None]).astype(np.int8))
        layer.weight_scale = model_spec.NumpyVariable(scale)

    model_spec.visit_spec(spec, change)
