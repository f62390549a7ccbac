"""Exports a model as a CTranslate2 folder, through CTranslate2's model specification.

CTranslate2 supports every setting of our Transformer: positions are written as a table, so any layout is exact, and
keys and values of different widths are padded with zeros (`nmt.commands.export.transformer_weights`).
Source: ctranslate2.specs.transformer_spec, and the attention layer and position encoder in its C++.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from nmt.checkpoints import export_folder
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export.transformer_weights import Linear, build_transformer, head_width, padded
from nmt.data.vocabulary import BOS, EOS, PAD, UNK
from nmt.models.transformer.attention import MultiHeadAttention
from nmt.models.transformer.model import FeedForward

if TYPE_CHECKING:
    from ctranslate2.specs import TransformerSpec

QUANTIZATIONS = ("float32", "float16", "bfloat16", "int16", "int8", "int8_float32", "int8_float16", "int8_bfloat16")


def write(folder: Path, loaded: Checkpoint, quantization: str = "float32") -> None:
    """Write model, vocabulary and settings into an existing empty folder. Raises NmtError as `build_transformer`."""
    spec = _spec(loaded)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    export_folder.write(folder, loaded.config, loaded.vocabulary)


def _spec(loaded: Checkpoint) -> "TransformerSpec":
    from ctranslate2.specs import common_spec, transformer_spec

    model, sizes, vocabulary = build_transformer(loaded), loaded.config.model, loaded.vocabulary
    first: Any = model.encoder[0]
    shape = {
        "num_heads": sizes.heads,
        "pre_norm": sizes.norm == "pre",
        # Our GELU is the exact x · Φ(x), which is GELU there; GELUTanh and GELUSigmoid are approximations.
        "activation": common_spec.Activation[sizes.activation.upper()],
        "head_dim": head_width(first.self_attention),
    }
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(len(model.encoder), **shape),
        transformer_spec.TransformerDecoderSpec(len(model.decoder), **shape),
    )
    positions = export_folder.longest_position(loaded.config)
    _set_side(spec.encoder, model.encoder, model.encoder_norm, model.source_positions, positions)
    _set_side(spec.decoder, model.decoder, model.decoder_norm, model.target_positions, positions)
    spec.encoder.embeddings[0].weight = model.source_embedding.weight
    spec.decoder.embeddings.weight = model.target_embedding.weight
    spec.decoder.projection.weight = model.output.weight
    special = vocabulary.target.pieces([PAD, UNK, BOS, EOS])  # the same names in both vocabularies
    spec.register_source_vocabulary(special + vocabulary.source.every_piece()[EOS + 1 :])
    spec.register_target_vocabulary(special + vocabulary.target.every_piece()[EOS + 1 :])
    _, spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = special
    spec.config.decoder_start_token = spec.config.bos_token
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = first.self_attention_residual.norm.eps
    return spec


def _set_side(spec: Any, layers: nn.ModuleList, norm: nn.Module, positions: nn.Module, length: int) -> None:
    """Write the encoder or the decoder, without its embeddings."""
    spec.position_encodings.encodings = positions(0, length).clone()  # [T, D]
    if isinstance(norm, nn.LayerNorm):
        _set_norm(spec.layer_norm, norm)
    layer: Any  # an EncoderLayer or a DecoderLayer
    for to, layer in zip(spec.layer, layers, strict=True):
        _set_attention(to.self_attention, layer.self_attention, layer.self_attention_residual.norm, is_self=True)
        if hasattr(layer, "cross_attention"):
            _set_attention(to.attention, layer.cross_attention, layer.cross_attention_residual.norm, is_self=False)
        _set_feed_forward(to.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def _set_attention(spec: Any, attention: MultiHeadAttention, norm: nn.LayerNorm, *, is_self: bool) -> None:
    """Self-attention has queries, keys and values in one matrix; cross-attention has the queries in another one."""
    query, key, value, output = padded(attention, head_width(attention))
    matrices = [_joined(query, key, value), output] if is_self else [query, _joined(key, value), output]
    for to, matrix in zip(spec.linear, matrices, strict=True):
        _set_linear(to, matrix)
    spec.queries_scale = attention.key_size**-0.5
    _set_norm(spec.layer_norm, norm)


def _set_feed_forward(spec: Any, feed_forward: FeedForward, norm: nn.LayerNorm) -> None:
    _set_linear(spec.linear_0, feed_forward.inner)
    _set_linear(spec.linear_1, feed_forward.outer)
    _set_norm(spec.layer_norm, norm)


def _set_linear(spec: Any, projection: Linear | nn.Linear) -> None:
    spec.weight = projection.weight
    if projection.bias is not None:
        spec.bias = projection.bias


def _set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight, norm.bias


def _joined(*parts: Linear) -> Linear:
    biases = [part.bias for part in parts if part.bias is not None]
    return Linear(torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None)
