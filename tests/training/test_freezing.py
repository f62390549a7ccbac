"""Frozen weights: which ones a name means, and that they stay as they are while the others are trained as before."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.train_steps import Session, make_train_step

from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.training import memory

MakeConfig = Callable[..., Config]
TWO = "model.layers=2"
RECURRENT = "model={architecture: recurrent, embedding_size: 16, hidden_size: 16}"


def frozen_names(config: Config) -> set[str]:
    model = make_train_step(config).model
    return {name for name, weight in model.named_parameters() if not weight.requires_grad}


@pytest.mark.parametrize(
    ("overrides", "names", "begins"),
    [
        ((TWO, "model.norm=pre"), "encoder", ("encoder.", "encoder_norm.")),
        ((TWO,), "decoder.1, encoder.0", ("decoder.1.", "encoder.0.")),
        ((TWO,), "decoder.1.cross_attention", ("decoder.1.cross_attention.",)),
        (("model.tie=none", "model.positions=learned"), "embeddings",
         ("source_embedding.", "target_embedding.", "source_positions.", "target_positions.")),
        ((RECURRENT,), "embeddings, decoder.attention",
         ("source_embedding.", "target_embedding.", "decoder.attention.")),
    ],
)  # fmt: skip
def test_a_name_means_a_part_or_a_module(
    make_config: MakeConfig, overrides: tuple[str, ...], names: str, begins: tuple[str, ...]
) -> None:
    found = frozen_names(make_config(*overrides, f"training.freeze=[{names}]"))
    every = {name for name, _ in make_train_step(make_config(*overrides)).model.named_parameters()}
    assert found == {name for name in every if name.startswith(begins)}
    assert {begin for begin in begins if not any(name.startswith(begin) for name in found)} == set()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("embedings", "training.freeze: embedings: the model has no part of this name; did you mean embed"),
        ("embeddings, encoder, decoder", "is the whole model: leave out a part"),
    ],
)  # fmt: skip
def test_names_that_cannot_be_frozen_are_refused_before_the_model_is_built(
    make_config: MakeConfig, names: str, said: str
) -> None:
    with pytest.raises(NmtError, match=re.escape(said)):
        memory.check_model(make_config(TWO, f"training.freeze=[{names}]"), torch.device("cpu"), 1)


@pytest.mark.parametrize(
    ("names", "overrides"),
    [
        ("encoder, embeddings", ("training.precision=bfloat16", "training.packed=true")),
        ("decoder", ("training.precision=float16", "training.clip_norm=0.5")),
        ("encoder.0.feed_forward, output",
         ("training.ema_decay=0.9", "training.activation_checkpointing=true", "training.weight_decay=0.1")),
        ("encoder.0.forwards, output", (RECURRENT,)),
    ],
)  # fmt: skip
def test_frozen_weights_stay_equal_and_the_others_are_trained(
    make_config: MakeConfig, tmp_path: Path, overrides: tuple[str, ...], names: str
) -> None:
    session = Session.start(tmp_path, make_config(*overrides, f"training.freeze=[{names}]"))
    before, step = session.weights(), session.train_step
    model = dict(step.model.named_parameters())
    frozen = {name for name, weight in model.items() if not weight.requires_grad}
    assert frozen and frozen != model.keys()
    session.train(3)
    for name, weight in model.items():
        assert torch.equal(weight, before[name]) == (name in frozen), name
        assert bool(step.optimizer.state[weight]) == (name not in frozen)
    if step.average is not None:
        for name, weight in step.average.named_parameters():
            assert torch.equal(weight, before[name]) == (name in frozen), name


def test_gradients_of_the_others_are_those_without_freezing(make_config: MakeConfig, tmp_path: Path) -> None:
    gradients = []
    for freeze in ("[]", "[decoder.0.cross_attention, embeddings]"):
        found = Session.start(tmp_path, make_config(f"training.freeze={freeze}", "training.precision=bfloat16"))
        found.train_step.optimizer.zero_grad = lambda set_to_none: None  # type: ignore[method-assign]
        found.train()
        named = found.train_step.model.named_parameters()
        gradients.append({name: weight.grad for name, weight in named if weight.grad is not None})
    every, some = gradients
    assert some.keys() == {name for name in every if "cross_attention." not in name and "embedding" not in name}
    for name, gradient in some.items():
        assert torch.equal(gradient, every[name]), name
