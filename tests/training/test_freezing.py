"""Frozen weights: which ones a name means, and that they stay as they are while the others are trained as before."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.train_steps import Session, make_train_step

from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.training import freezing, memory

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


def test_a_tied_matrix_is_frozen_with_either_of_its_parts_and_that_is_said(make_config: MakeConfig) -> None:
    for name, others in [
        ("output", "target_embedding.weight, source_embedding.weight too"),
        ("embeddings", "output.weight too"),
        ("target_embedding", "source_embedding.weight, output.weight too"),
    ]:
        model = make_train_step(make_config(f"training.freeze=[{name}]")).model
        assert not model.output_weight.requires_grad
        said = freezing.summary(model, [name])
        assert others in said
        total = model.parameter_counts()["total"]
        assert f": {total - model.output_weight.numel():,} of {total:,} parameters are trained" in said
    apart = make_train_step(make_config("model.tie=none", "training.freeze=[output]")).model
    assert "too" not in freezing.summary(apart, ["output"])


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


def test_frozen_weights_need_no_memory_for_gradients_and_moments(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, part = make_config(), make_config("training.freeze=[encoder]")
    model = make_train_step(part).model
    total, trained = model.parameter_counts()["total"], freezing.count_trained(model)
    monkeypatch.setattr(memory, "available_memory", lambda: 4 * (total + 3 * trained))
    memory.check_model(part, torch.device("cpu"), 1)
    with pytest.raises(NmtError, match="lower the sizes"):
        memory.check_model(whole, torch.device("cpu"), 1)


def test_a_run_resumes_with_other_layers_frozen(make_config: MakeConfig, tmp_path: Path) -> None:
    first = Session.start(tmp_path, make_config())
    first.train(2)
    first.save(2)
    for freeze in ("[encoder]", "[]"):  # and trained again: with new moments
        again = Session.start(tmp_path, make_config(f"training.freeze={freeze}"))
        again.restore()
        moments = again.train_step.optimizer.state
        assert all(weight.requires_grad for weight in moments) and len(moments) > 10
        before = again.weights()
        again.train()
        for name, weight in again.weights().items():
            assert torch.equal(weight, before[name]) == (freeze != "[]" and name.startswith("encoder"))
        again.save(3)
