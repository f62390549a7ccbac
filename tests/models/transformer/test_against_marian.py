"""The model is Hugging Face's `MarianMTModel` with the same weights: what it computes, its loss, and every gradient.

Marian's positions are the sinusoids of section 3.5 with all sines before all cosines, so one order of the model
dimension is exchanged for the other. The mapping is written here once more, apart from `nmt.commands.export.marian`.
"""

import re
from collections.abc import Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import schema
from nmt.models.transformer.model import Transformer
from nmt.models.transformer.positions import sinusoids
from nmt.training.loss import smoothed_cross_entropy

PAD, BOS, V, D, HEADS, INNER, LONGEST = 0, 2, 37, 32, 4, 48, 40
ROUNDING = 10  # units in the last place
SINES_FIRST = [*range(0, D, 2), *range(1, D, 2)]  # where each dimension of Marian's is in ours
RENAMED = [
    (r"^(encoder|decoder)\.(\d)", r"model.\1.layers.\2"),
    (r"self_attention\.output", "self_attn.out_proj"),
    (r"cross_attention\.output", "encoder_attn.out_proj"),
    (r"self_attention_residual\.norm", "self_attn_layer_norm"),
    (r"cross_attention_residual\.norm", "encoder_attn_layer_norm"),
    (r"feed_forward_residual\.norm", "final_layer_norm"),
    (r"feed_forward\.inner", "fc1"),
    (r"feed_forward\.outer", "fc2"),
    (r"self_attention\.projection", "self_attn.{}_proj"),
    (r"cross_attention\.projection", "encoder_attn.{}_proj"),
]


def marians(ours: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our tensors, weights or gradients, by Marian's names and in Marian's order of the model dimension."""
    mapped = {}
    for name, tensor in ours.items():
        if name == "target_embedding.weight":
            mapped["model.shared.weight"] = tensor[:, SINES_FIRST]
            continue
        if re.search(r"\.output\.|\.outer\.|norm\.", name):  # what writes into the model dimension, and norms
            tensor = tensor[SINES_FIRST]
        elif tensor.dim() == 2:
            tensor = tensor[:, SINES_FIRST]
        for one, other in RENAMED:
            name = re.sub(one, other, name)
        parts = tensor.chunk(3) if "{}" in name else [tensor]  # of queries, keys and values, or one
        mapped |= {name.format(letter): part for letter, part in zip("qkv", parts, strict=False)}
    return mapped


def make(activation: Any, dtype: torch.dtype) -> tuple[Transformer, nn.Module]:
    """Our model and Marian's with the same weights: two encoder and three decoder layers, nothing 0 or 1 by chance."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    depth = {"encoder_layers": 2, "decoder_layers": 3}
    sizes = schema.TransformerConfig(
        d_model=D, feed_forward=INNER, heads=HEADS, dropout=0.0, activation=activation, **depth
    )
    ours = Transformer(sizes, V, V, PAD)
    for parameter in ours.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.7, std=0.3)
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=V,
            d_model=D,
            **depth,
            encoder_ffn_dim=INNER,
            decoder_ffn_dim=INNER,
            encoder_attention_heads=HEADS,
            decoder_attention_heads=HEADS,
            activation_function=activation,
            dropout=0.0,
            scale_embedding=True,
            max_position_embeddings=LONGEST,
            pad_token_id=PAD,
            decoder_start_token_id=BOS,
        )
    )
    missing, unknown = theirs.load_state_dict(marians(dict(ours.named_parameters())), strict=False)
    assert not unknown
    tied = {"model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"}
    computed = {"model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight", "final_logits_bias"}
    assert set(missing) <= tied | computed
    return ours.to(dtype), theirs.to(dtype)


def sentences(lengths: list[int], seed: int) -> Tensor:
    """Random ids [B, longest], padded."""
    ids = torch.randint(4, V, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return ids.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], PAD)


def assert_rounded(got: Tensor, expected: Tensor, what: str, size: float | None = None) -> None:
    """Equal but for ROUNDING units in the last place of `size`; without that, of the tensor's norm."""
    unit = torch.finfo(expected.dtype).eps * (size or float(expected.detach().norm()))
    error = float((got - expected).detach().norm()) / unit
    assert error < ROUNDING, f"{what}: {error:.1f} units in the last place"


def test_marians_positions_are_ours_with_the_sines_first() -> None:
    _, theirs = make("relu", torch.float32)
    for side in (theirs.model.encoder, theirs.model.decoder):
        expected = sinusoids(LONGEST, D, "interleaved")[:, SINES_FIRST]
        torch.testing.assert_close(side.embed_positions.weight, expected, rtol=0, atol=6e-8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_outputs_and_gradients_are_marians(activation: Any, dtype: torch.dtype) -> None:
    ours, theirs = make(activation, dtype)
    if dtype == torch.float64:  # both tables are rounded to float32, and not by the same way there
        for side in (theirs.model.encoder, theirs.model.decoder):
            side.embed_positions.weight.copy_(ours.source_positions(0, LONGEST)[:, SINES_FIRST])
    source, target = sentences([5, 9, 3], seed=1), sentences([4, 6, 7], seed=2)
    given = F.pad(target[:, :-1], (1, 0), value=BOS)
    tokens = (target != PAD).flatten().nonzero()[:, 0]

    result = theirs(input_ids=source, attention_mask=source != PAD, decoder_input_ids=given, use_cache=False)
    memory, states = ours.encode(source).states, ours(source, given)
    words = source != PAD
    assert_rounded(memory[words][:, SINES_FIRST], result.encoder_last_hidden_state[words], "encoder")
    assert_rounded(ours.logits(states), result.logits, "decoder and output layer")

    loss, _ = smoothed_cross_entropy(
        states.flatten(0, 1)[tokens], ours.output.weight, target.flatten()[tokens], smoothing=0.1
    )
    expected = F.cross_entropy(
        result.logits.flatten(0, 1), target.flatten(), ignore_index=PAD, label_smoothing=0.1, reduction="sum"
    )
    assert_rounded(loss, expected, "loss")
    loss.backward()
    expected.backward()
    found = marians({name: p.grad for name, p in ours.named_parameters() if p.grad is not None})
    wanted = {name: p.grad for name, p in theirs.named_parameters() if p.requires_grad}
    assert found.keys() == wanted.keys()
    size = float(torch.cat([gradient.flatten() for gradient in wanted.values()]).norm())  # some tensors' are almost 0
    for name, gradient in found.items():
        assert_rounded(gradient, wanted[name], name, size)
