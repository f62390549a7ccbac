"""Tiny Transformers in many variants, and batches for them."""

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import schema
from nmt.models.transformer.model import Transformer

PAD, BOS, EOS, V = 0, 2, 3, 23


TINY = schema.TransformerConfig(d_model=16, feed_forward=24, layers=2, heads=4, dropout=0.0)


DEEP = {"encoder_layers": 1, "decoder_layers": 3}


WIDE = {"key_size": 3, "value_size": 5}


MARIAN = {"activation": "quick_gelu", "output_bias": True, "norm_epsilon": 1e-2, "decoder_start": "zero"}


# Every two values of norm, tie and positions together, and each of the other settings with several of them.
VARIANTS: list[dict[str, Any]] = [
    {"norm": norm, "tie": tie, "positions": positions, **others}
    for norm, tie, positions, others in (
        ("post", "all", "interleaved", {}),
        ("post", "all", "interleaved", MARIAN),
        ("pre", "target", "concatenated", {**MARIAN, "decoder_start": "eos", "position_offset": 2}),
        ("pre", "target", "concatenated", {**DEEP, "activation": "gelu"}),
        ("post", "none", "learned", {**WIDE, "bias": False}),
        ("pre", "all", "rotary", {"bias": False, "activation": "swish"}),
        ("post", "target", "rotary", {"d_model": 15, "key_size": 6, "value_size": 5, "activation": "gelu"}),
        ("pre", "none", "interleaved", {**WIDE, "activation": "swish"}),
        ("post", "all", "concatenated", {**WIDE, "bias": False, "activation": "gelu"}),
        ("pre", "all", "learned", {**DEEP, **WIDE, "d_model": 15}),
        ("post", "none", "concatenated", {**DEEP, "activation": "swish"}),
        ("post", "target", "interleaved", {**DEEP, "bias": False}),
        ("pre", "target", "learned", {"activation": "swish"}),
        ("post", "none", "rotary", DEEP),
    )
]


def make(double: bool = True, **changes: Any) -> Transformer:
    """A tiny model whose every weight matters, in float64."""
    torch.manual_seed(0)
    sizes = dataclasses.replace(TINY, max_positions=32, **changes)
    source = V if sizes.tie == "all" else V + 4
    model = Transformer(sizes, source, V, PAD)
    for parameter in model.parameters():
        if parameter.dim() == 1:  # norms and biases start at 1 and 0, which would hide a missing one
            nn.init.normal_(parameter, mean=0.7, std=0.3)
    return model.double() if double else model


def sentences(lengths: list[int], seed: int = 0) -> Tensor:
    """Random ids [B, longest], each row ending in EOS, then padding."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in zip(ids, lengths, strict=True):
        row[: length - 1] = torch.randint(4, V, (length - 1,), generator=generator)
        row[length - 1] = EOS
    return ids


def decoder_input(lengths: list[int], seed: int = 1) -> Tensor:
    """What the decoder is given for `sentences`: BOS, then all but the last."""
    ids = sentences(lengths, seed)
    return torch.cat([torch.full((len(ids), 1), BOS), ids[:, :-1]], dim=1)
