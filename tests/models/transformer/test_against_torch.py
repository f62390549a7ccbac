"""The model is `torch.nn.Transformer` with the same weights: what it computes, and every gradient.

PyTorch's module is the encoder and the decoder alone; the embeddings of section 3.4 are written out here. The two may
differ by what rounding leaves, in float32 and in float64.
"""

import math
import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import schema
from nmt.models.transformer import layers as transformer_layers
from nmt.models.transformer.model import Transformer

PAD, V, D, HEADS, INNER = 0, 37, 32, 4, 48
ROUNDING = 10  # units in the last place
RENAMED = [
    (r"^(encoder|decoder)\.(\d)", r"\1.layers.\2"),
    (r"self_attention\.projection\.", "self_attn.in_proj_"),
    (r"cross_attention\.projection\.", "multihead_attn.in_proj_"),
    (r"self_attention\.output", "self_attn.out_proj"),
    (r"cross_attention\.output", "multihead_attn.out_proj"),
    (r"self_attention_residual\.norm", "norm1"),
    (r"cross_attention_residual\.norm", "norm2"),
    (r"^(encoder.*)feed_forward_residual\.norm", r"\1norm2"),
    (r"^(decoder.*)feed_forward_residual\.norm", r"\1norm3"),
    (r"feed_forward\.inner", "linear1"),
    (r"feed_forward\.outer", "linear2"),
    (r"^(encoder|decoder)_norm", r"\1.norm"),
]


def pytorchs_name(name: str) -> str:
    for ours, theirs in RENAMED:
        name = re.sub(ours, theirs, name)
    return name


def make(dtype: torch.dtype, **changes: Any) -> Transformer:
    """Two encoder and three decoder layers, without dropout, in which no norm's gain is 1 and no bias 0."""
    torch.manual_seed(0)
    depth = {"encoder_layers": 2, "decoder_layers": 3}
    sizes = schema.TransformerConfig(
        d_model=D, feed_forward=INNER, heads=HEADS, dropout=0.0, tie="none", **depth, **changes
    )
    model = Transformer(sizes, V, V, PAD)
    for parameter in model.parameters():
        if parameter.dim() == 1:
            nn.init.normal_(parameter, mean=0.7, std=0.3)
    return model.to(dtype)


def pytorchs(ours: Transformer, activation: Any, dtype: torch.dtype) -> nn.Transformer:
    """`torch.nn.Transformer` with our weights."""
    pre = ours.config.norm == "pre"
    depth, options = (2, 3), {"activation": activation, "norm_first": pre, "dtype": dtype}
    theirs = nn.Transformer(D, HEADS, *depth, dim_feedforward=INNER, dropout=0.0, batch_first=True, **options)
    if not pre:  # it would normalise twice at the end: the paper's sub-layers end in a norm already
        theirs.encoder.norm = theirs.decoder.norm = None
    layers = {name: p.detach() for name, p in ours.named_parameters() if name.startswith(("encoder", "decoder"))}
    theirs.load_state_dict({pytorchs_name(name): weight for name, weight in layers.items()})  # none missing, none left
    return theirs


def sentences(lengths: list[int], seed: int) -> Tensor:
    """Random ids [B, longest], padded."""
    ids = torch.randint(4, V, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return ids.masked_fill(torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None], PAD)


def embedded(ids: Tensor, weight: Tensor, positions: nn.Module) -> Tensor:
    """sqrt(d_model) times the embedding (section 3.4) plus the positions, see test_positions.py."""
    return F.embedding(ids, weight) * math.sqrt(D) + positions(0, ids.shape[1])


def assert_rounded(got: Tensor, expected: Tensor, what: str, size: float | None = None) -> None:
    """Equal but for ROUNDING units in the last place of `size`; without that, of the tensor's norm."""
    unit = torch.finfo(expected.dtype).eps * (size or float(expected.detach().norm()))
    error = float((got - expected).detach().norm()) / unit
    assert error < ROUNDING, f"{what}: {error:.1f} units in the last place"


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")  # which changes what is computed where, not what
@pytest.mark.parametrize(
    ("name", "activation", "norm", "dtype"),
    [
        ("relu", "relu", "post", torch.float32),
        ("relu", "relu", "pre", torch.float64),
        ("swish", F.silu, "post", torch.float64),
    ],
    ids=lambda value: str(value) if not callable(value) else value.__name__,
)
def test_outputs_and_gradients_are_those_of_torch_nn_transformer(
    name: str, activation: Any, norm: str, dtype: torch.dtype
) -> None:
    ours = make(dtype, norm=norm, activation=name)
    theirs = pytorchs(ours, activation, dtype)
    source, target = sentences([5, 9, 3], seed=1), sentences([6, 6, 6], seed=2)
    tables = {
        "source_embedding.weight": ours.source_embedding.weight.detach().clone().requires_grad_(),
        "target_embedding.weight": ours.target_embedding.weight.detach().clone().requires_grad_(),
    }

    memory, states = ours.encode(source).states, ours(source, target)
    padding, later = source == PAD, torch.ones(6, 6, dtype=torch.bool).triu(1)
    x = embedded(source, tables["source_embedding.weight"], ours.source_positions)
    y = embedded(target, tables["target_embedding.weight"], ours.target_positions)
    expected_memory = theirs.encoder(x, src_key_padding_mask=padding)
    expected = theirs(
        x, y, tgt_mask=later, src_key_padding_mask=padding, memory_key_padding_mask=padding, tgt_is_causal=True
    )
    assert_rounded(memory[~padding], expected_memory[~padding], "encoder")
    assert_rounded(states, expected, "decoder")

    direction = torch.randn_like(states)
    states.backward(direction)
    expected.backward(direction)
    wanted = {name: p.grad for name, p in theirs.named_parameters()} | {name: p.grad for name, p in tables.items()}
    found = {pytorchs_name(name): p.grad for name, p in ours.named_parameters() if p.grad is not None}
    assert found.keys() == wanted.keys()
    size = float(torch.cat([gradient.flatten() for gradient in wanted.values()]).norm())  # some tensors' are almost 0
    for name, gradient in found.items():
        assert_rounded(gradient, wanted[name], name, size)


@pytest.mark.parametrize("bias", [True, False])
def test_relu_as_a_part_of_the_product(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in search on a GPU."""
    torch.manual_seed(1)
    layer = transformer_layers.FeedForward(schema.TransformerConfig(d_model=8, feed_forward=12, heads=2, bias=bias))
    x = torch.randn(3, 2, 8)
    with torch.inference_mode():
        expected = layer(x)
        monkeypatch.setattr(transformer_layers, "searches_on_gpu", lambda x: True)
        torch.testing.assert_close(layer(x), expected)
