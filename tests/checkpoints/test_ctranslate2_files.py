"""Our files for CTranslate2 are those of its own converter, and the divided ones give the same probabilities."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.export_models import SEPARATE, VARIANTS, make_model
from torch import nn

from nmt.checkpoints import ctranslate2_files, export_folder
from nmt.checkpoints.ctranslate2_files import QUANTIZATIONS, model_files, sinusoids
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.export.transformer_weights import build_transformer, head_width, padded
from nmt.data.vocabulary import BOS, EOS, PAD, UNK
from nmt.errors import NmtError
from nmt.files.tensors import Array
from nmt.models.transformer import positions

ONLY_HERE = [
    ("model.norm=pre", "model.activation=gelu", "model.bias=false", "model.encoder_layers=2"),
    ("model.positions=learned", "model.max_positions=300"),
    ("model.positions=concatenated",),
    ("model.key_size=5", "model.value_size=20"),
    ("model.positions=rotary",),
    ("model.positions=rotary", "model.key_size=6", "model.value_size=7", "model.norm=pre"),
    ("model.d_model=31", "model.heads=3", "model.key_size=6", "model.value_size=7", "model.positions=learned",
     "model.max_positions=300"),
]  # fmt: skip


def ours(made: Checkpoint, quantization: str = "float32", **options: bool) -> dict[str, bytes]:
    weights = {name: Array.of(weight.numpy()) for name, weight in made.weights.items()}
    length = export_folder.longest_position(made.config)
    return model_files(made.config, made.vocabulary, weights, length, quantization, **options)


@pytest.mark.parametrize("overrides", [*VARIANTS, *ONLY_HERE], ids=" ".join)
def test_every_variant_has_the_bytes_of_the_other_converter(overrides: tuple[str, ...], tmp_path: Path) -> None:
    compare(make_model(*overrides), "float32", tmp_path)


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
@pytest.mark.parametrize("overrides", [(), (*SEPARATE, "model.bias=false")], ids=" ".join)
def test_every_quantization_has_them(
    overrides: tuple[str, ...], quantization: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ctranslate2_files, "_INT8_LARGEST", 127)  # the other converter's
    compare(make_model(*overrides), quantization, tmp_path)


def test_two_products_with_int8_weights_fit_into_16_bits() -> None:
    """On CPUs without VNNI their sum must; inputs are up to 255 there."""
    matrix = np.random.default_rng(1).standard_normal((4, 50)).astype(np.float32)
    matrix[2] = 0
    (_, first), (suffix, second) = ctranslate2_files._quantized("layer/weight", Array.of(matrix), "int8")
    weights, scale = first.numpy(), second.numpy()
    assert suffix == "_scale" and weights.dtype == np.int8
    largest = np.abs(weights.astype(np.int64)).max(axis=1)
    assert 2 * 255 * largest.max() < 1 << 15 and (largest[[0, 1, 3]] > 60).all()
    np.testing.assert_allclose(weights / scale[:, None], matrix, atol=float((0.51 / scale).max()))


def compare(made: Checkpoint, quantization: str, folder: Path) -> None:
    spec = their_specification(made)
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(str(folder))
    found = ours(made, quantization)
    assert found.keys() == {path.name for path in folder.iterdir()}
    for name, content in found.items():
        assert content == (folder / name).read_bytes(), name


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("width", [1, 2, 31, 64])
def test_sinusoids_are_the_models(layout: str, width: int) -> None:
    if width % 2:
        return
    expected = positions.sinusoids(700, width, layout).numpy()  # type: ignore[arg-type]
    np.testing.assert_allclose(
        sinusoids(700, width, concatenated=layout == "concatenated").numpy(), expected, atol=1e-7
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weights: weights.pop("encoder.0.self_attention.output.bias"), "output.bias is missing"),
        (lambda weights: weights.update(more=Array("int8", (3,), b"123")), "unknown weight more"),
        (
            lambda weights: weights.update({"target_embedding.weight": Array("float32", (2, 32), bytes(256))}),
            r"target_embedding.weight is \[2, 32\], but its settings need \[300, 32\]",
        ),
    ],
)
def test_weights_of_other_settings_are_refused(change: Any, words: str) -> None:
    made = make_model()
    weights = {name: Array.of(weight.numpy()) for name, weight in made.weights.items()}
    change(weights)
    with pytest.raises(NmtError, match=words):
        model_files(made.config, made.vocabulary, weights, 50)


@pytest.mark.parametrize("beta", [0.0, 0.3], ids=["a bias", "no bias"])
@pytest.mark.parametrize(
    "overrides",
    [(), ("model.norm=pre",), ("model.encoder_layers=3",), SEPARATE, ("vocabulary.shared=false", "model.tie=none")],
    ids=" ".join,
)
def test_divided_files_give_every_target_the_models_probability(overrides: tuple[str, ...], beta: float) -> None:
    """With special subwords that have a large share, which forbidding them would give to the others."""
    made = with_large_shares(*overrides, beta=beta)
    assert (b"decoder/projection/bias" in ours(made, divided=True)["model.bin"]) == (not beta)
    differs, share = compared_scores(made)
    assert share > 5e-4 and differs < 5e-5


@pytest.mark.parametrize(
    "change",
    [
        lambda gamma, beta: gamma.__setitem__(3, 0.0),
        lambda gamma, beta: (gamma.__setitem__(3, 1e-9), beta.__setitem__(3, 0.0)),
        lambda gamma, beta: beta.copy_((beta / gamma - (beta / gamma).mean() + 1e-5) * gamma),
        lambda gamma, beta: beta.__setitem__(3, math.nan),
    ],
    ids=["a factor of 0", "nearly 0", "a sum that is nearly 0", "not a number"],
)
def test_what_would_be_rounded_too_much_has_a_bias(change: Callable[[torch.Tensor, torch.Tensor], object]) -> None:
    made = with_large_shares(beta=0.3)
    name = f"decoder.{made.config.model.layers - 1}.feed_forward_residual.norm"
    change(made.weights[f"{name}.weight"], made.weights[f"{name}.bias"])
    assert b"decoder/projection/bias" in ours(made, divided=True)["model.bin"]
    if not made.weights[f"{name}.bias"].isnan().any():
        assert compared_scores(made)[0] < 5e-5


def test_a_large_matrix_is_not_copied_to_save_a_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    tied, own = with_large_shares(beta=0.3), with_large_shares("model.tie=none", beta=0.3)
    monkeypatch.setattr(ctranslate2_files, "_LARGEST_COPY", 300 * 32 * 4 - 1)
    assert b"decoder/projection/bias" in ours(tied, divided=True)["model.bin"]
    assert b"decoder/projection/bias" not in ours(own, divided=True)["model.bin"]


def with_large_shares(*overrides: str, beta: float) -> Checkpoint:
    """A model in which special subwords are likely, and each layer norm adds about `beta`."""
    made = make_model(*overrides)
    name = "output.weight" if "output.weight" in made.weights else "target_embedding.weight"
    weights = {name: weight.clone() for name, weight in made.weights.items()}
    weights[name][[PAD, UNK, BOS]] = 0.9 * weights[name][[EOS]]
    for norm in (name for name in weights if name.endswith("norm.bias")):
        weights[norm] = beta * torch.rand(weights[norm].shape, generator=torch.Generator().manual_seed(1))
    return Checkpoint(made.config, made.vocabulary, weights, {})


def compared_scores(made: Checkpoint) -> tuple[float, float]:
    """How much log P of a token differs at most, and the largest share of special subwords."""
    import ctranslate2

    translator = ctranslate2.Translator("it", files=ours(made, divided=True))
    source, target = [10, 20, 30], [51, 52, 53]
    [found] = translator.score_batch(
        [made.vocabulary.source.pieces(source)], [made.vocabulary.target.pieces(target)], max_input_length=0
    )
    model = build_transformer(made)
    states = model(torch.tensor([[*source, EOS]]), torch.tensor([[BOS, *target]]))
    log_p = model.logits(states).log_softmax(-1)[0]
    expected = log_p.gather(1, torch.tensor([[*target, EOS]]).t())[:, 0]
    differs = (torch.tensor(found.log_probs) - expected).abs().max()
    return float(differs), float(log_p[:, [PAD, UNK, BOS]].exp().sum(dim=-1).max())


def their_specification(loaded: Checkpoint) -> Any:
    """The model as CTranslate2's own classes describe it."""
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
    if sizes.positions == "rotary":  # numbers i and i + dk/2 of a head are turned together
        shape |= {"rotary_dim": first.self_attention.key_size, "rotary_interleave": False}
    spec = transformer_spec.TransformerSpec(
        transformer_spec.TransformerEncoderSpec(len(model.encoder), **shape),
        transformer_spec.TransformerDecoderSpec(len(model.decoder), **shape),
    )
    positions = export_folder.longest_position(loaded.config)
    set_side(spec.encoder, model.encoder, model.encoder_norm, model.source_positions, positions)
    set_side(spec.decoder, model.decoder, model.decoder_norm, model.target_positions, positions)
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


def set_side(spec: Any, layers: nn.ModuleList, norm: nn.Module, positions: nn.Module, length: int) -> None:
    """Write the encoder or the decoder, without its embeddings."""
    if hasattr(spec.layer[0].self_attention, "rotary_dim"):
        vars(spec).pop("position_encodings", None)  # their encoder has a place for them nevertheless
    else:
        spec.position_encodings.encodings = positions(0, length).clone()  # [T, D]
    if isinstance(norm, nn.LayerNorm):
        set_norm(spec.layer_norm, norm)
    layer: Any  # an EncoderLayer or a DecoderLayer
    for to, layer in zip(spec.layer, layers, strict=True):
        set_attention(to.self_attention, layer.self_attention, layer.self_attention_residual.norm, is_self=True)
        if hasattr(layer, "cross_attention"):
            set_attention(to.attention, layer.cross_attention, layer.cross_attention_residual.norm, is_self=False)
        set_feed_forward(to.ffn, layer.feed_forward, layer.feed_forward_residual.norm)


def set_attention(spec: Any, attention: Any, norm: nn.LayerNorm, *, is_self: bool) -> None:
    """Self-attention has queries, keys and values in one matrix; cross-attention has the queries in another one."""
    query, key, value, output = padded(attention, head_width(attention))
    matrices = [joined(query, key, value), output] if is_self else [query, joined(key, value), output]
    for to, matrix in zip(spec.linear, matrices, strict=True):
        set_linear(to, matrix)
    spec.queries_scale = attention.key_size**-0.5
    set_norm(spec.layer_norm, norm)


def set_feed_forward(spec: Any, feed_forward: Any, norm: nn.LayerNorm) -> None:
    set_linear(spec.linear_0, feed_forward.inner)
    set_linear(spec.linear_1, feed_forward.outer)
    set_norm(spec.layer_norm, norm)


def set_linear(spec: Any, projection: Any) -> None:
    spec.weight = projection.weight
    if projection.bias is not None:
        spec.bias = projection.bias


def set_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = norm.weight, norm.bias


def joined(*parts: Any) -> Any:
    biases = [part.bias for part in parts if part.bias is not None]
    return type(parts[0])(torch.cat([part.weight for part in parts]), torch.cat(biases) if biases else None)
