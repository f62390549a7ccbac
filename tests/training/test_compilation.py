"""Compiled layers compute what others compute; what happens where there is no compiler, or its cache is damaged."""

import logging
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config as inductor
from torch import Tensor
from torch._dynamo.utils import counters
from torch._inductor import compile_fx

from nmt.checkpoints import model_file
from nmt.commands.train import training_data
from nmt.config import schema
from nmt.config.schema import Config
from nmt.data.batches.batching import Step
from nmt.data.batches.padding import collate_pairs
from nmt.data.subwords.vocabulary import PAD
from nmt.models.transformer.model import Transformer
from nmt.training import compilation
from nmt.training.compilation import compile_layers
from nmt.training.objective import Objective
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
V = 23
SIZES = schema.TransformerConfig(d_model=16, feed_forward=24, layers=2, heads=2, dropout=0.0)


@pytest.fixture
def dynamo() -> Iterator[None]:
    """A compiler that knows nothing of the tests before, and leaves nothing to those after.

    Its code is for any processor: without the instructions of this one, compiling takes half the time.
    """
    torch._dynamo.reset()
    torch._dynamo.utils.clear_compilation_metrics()
    counters.clear()
    with torch._dynamo.config.patch(suppress_errors=False), inductor.patch("cpp.vec_isa_ok", False):
        yield
    torch._dynamo.reset()
    counters.clear()


def train(
    config: Config,
    after_step: Callable[[], object] = lambda: None,
    after_run: Callable[[Trainer], object] = lambda _: 0,
) -> list[float]:
    """Run it all and give the mean loss of every step."""
    trainer = Trainer(config, training_data(config), torch.device("cpu"))
    losses = []
    run, sums = trainer.train_step.run, trainer.train_step.losses

    def run_and_note(step: Step, *arguments: Any, **named: Any) -> bool:
        before = float(sums[0])
        updated = run(step, *arguments, **named)
        losses.append((float(sums[0]) - before) / step.target_tokens)
        after_step()
        return updated

    trainer.train_step.run = run_and_note  # type: ignore[method-assign]
    trainer.run()
    after_run(trainer)
    return losses


def check_gradients(trainer: Trainer) -> None:
    """Weight by weight: those of compiled layers are those of the same layers, run as they are."""
    objective, batch = trainer.train_step.objective, next(trainer.batches.epoch(7)).micro_batches[0]
    found = []
    for stance in ("default", "force_eager"):
        objective.train().zero_grad()
        with torch.compiler.set_stance(stance):
            loss, _ = objective(batch)
            loss.backward()
        found.append({name: w.grad.clone() for name, w in objective.named_parameters() if w.grad is not None})
    for name, gradient in found[0].items():
        torch.testing.assert_close(gradient, found[1][name], rtol=1e-3, atol=1e-5, msg=name)


SHORT = ("model.dropout=0", "model.layers=2", "training.max_epochs=1", "training.batch_tokens=128",
         "training.max_steps=100", "training.validate_every=100", "training.validation_bleu=false",
         "training.checkpoint_every=100", "training.log_every=100")  # fmt: skip


@pytest.mark.usefixtures("dynamo")
def test_compiled_layers_learn_the_same_with_one_kernel_for_all_shapes(
    make_config: MakeConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """One graph for encoder layers, one for decoder layers, one to try the compiler: none after the first step."""
    caplog.set_level(logging.INFO, "nmt")
    graphs: list[int] = []
    settings = (*SHORT, "model.positions=rotary", "training.packed=true")
    compiled = train(
        make_config(*settings, "training.compile=true"),
        lambda: graphs.append(counters["stats"]["unique_graphs"]),
        check_gradients,
    )
    graphs.append(counters["stats"]["unique_graphs"])  # after validation, whose shapes are not compiled
    plain = train(make_config(*settings, f"run_dir={tmp_path / 'plain'}"))
    assert len(compiled) > 20
    if said := [record for record in caplog.records if "continuing without it" in record.getMessage()]:
        assert len(said) == 1 and compiled == plain  # no compiler here, or one that does not work
        return
    assert compiled == pytest.approx(plain, rel=1e-3)
    assert set(graphs) == {3}
    assert "training.compile: 3 graphs, one of them a test; 0 were recompiled" in caplog.text


class FailsBackward(torch.autograd.Function):
    """What is compiled lazily, at the first backward pass."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, __: Tensor) -> Tensor:
        raise RuntimeError("the compiler has crashed")


@pytest.mark.usefixtures("dynamo")
def test_where_the_compiler_fails_training_goes_on_after_one_warning(
    make_config: MakeConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compile(function: Callable[..., Any], **_: object) -> Callable[..., Any]:
        def compiled(*arguments: Any, **named: Any) -> Any:
            return FailsBackward.apply(function(*arguments, **named))  # type: ignore[no-untyped-call]

        return function if function is torch.sin else compiled

    monkeypatch.setattr(torch, "compile", compile)
    short = ("training.max_steps=3", "training.validation_bleu=false")
    losses = train(make_config("training.compile=true", *short))
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    (warning,) = [message for message in messages if not message.startswith("data.validation")]
    assert "training.compile" in warning and "continuing without it (the compiler has crashed)" in warning
    assert losses == train(make_config(*short, f"run_dir={tmp_path / 'plain'}"))
    saved = [model_file.load(tmp_path / run / model_file.BEST).weights for run in ("run", "plain")]
    assert all(torch.equal(weight, saved[1][name]) for name, weight in saved[0].items())


@pytest.mark.filterwarnings("default")
def test_pytorch_does_not_advise_tf32_to_users_who_chose_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other warnings of a compilation are shown."""

    def compile(*_: object, **__: object) -> None:
        compile_fx._warn_tf32_disabled.__wrapped__()
        warnings.warn("another", stacklevel=1)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(compilation, "_compile", compile)
    objective = Objective(Transformer(SIZES, V, V, PAD), schema.TrainingConfig())
    with warnings.catch_warnings(record=True) as shown:
        compile()
        assert compile_layers(objective, collate_pairs([], []), sharded=False)
    assert [str(warning.message)[:14] for warning in shown] == ["TensorFloat32 ", "another", "another"]


@pytest.mark.usefixtures("dynamo")
def test_where_its_cache_is_damaged_a_new_one_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compilation that was killed leaves empty files, which the next one cannot load."""
    cache, name = str(tmp_path), "TORCHINDUCTOR_CACHE_DIR"
    tried = []

    def compile(*_: object, **__: object) -> None:
        tried.append(os.environ[name])
        if os.environ[name] == cache:
            raise ImportError(f"{cache}/kernel.so: file too short\nand much more about it")

    monkeypatch.setenv(name, cache)
    monkeypatch.setenv("TRITON_CACHE_DIR", f"{cache}/triton/0")
    monkeypatch.setattr(compilation, "_compile", compile)
    objective = Objective(Transformer(SIZES, V, V, PAD), schema.TrainingConfig())
    assert compile_layers(objective, collate_pairs([], []), sharded=False)
    assert tried == [cache, os.environ[name]] and Path(tried[1]).is_dir() and not list(Path(tried[1]).iterdir())
    assert "TRITON_CACHE_DIR" not in os.environ
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "nmt"]
    assert warning.endswith(f"delete {cache}: {cache}/kernel.so: file too short")
