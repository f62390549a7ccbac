"""Compiled layers compute what others compute; what happens where there is no compiler, or its cache is damaged."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._inductor.config as inductor
from torch import Tensor
from torch._dynamo.utils import counters

from nmt.checkpoints import model_file
from nmt.commands.train import training_data
from nmt.config.schema import Config
from nmt.data.batches.batching import Step
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]


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
@pytest.mark.parametrize(
    ("packed", "positions"), [("true", "rotary"), pytest.param("false", "interleaved", marks=pytest.mark.thorough)]
)
def test_compiled_layers_learn_the_same_with_one_kernel_for_all_shapes(
    make_config: MakeConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture, packed: str, positions: str
) -> None:
    """One graph for encoder layers, one for decoder layers, one to try the compiler: none after the first step. Of
    padded batches, for all their shapes; of packed ones, for their only shape."""
    caplog.set_level(logging.INFO, "nmt")
    graphs: list[int] = []
    settings = (*SHORT, f"model.positions={positions}")
    compiled = train(
        make_config(*settings, "training.compile=true", f"training.packed={packed}"),
        lambda: graphs.append(counters["stats"]["unique_graphs"]),
        check_gradients,
    )
    graphs.append(counters["stats"]["unique_graphs"])  # after validation, whose shapes are not compiled
    plain = train(make_config(*settings, f"run_dir={tmp_path / 'plain'}"))
    assert len(compiled) > 20
    if said := [record for record in caplog.records if "going on without it" in record.getMessage()]:
        assert len(said) == 1 and compiled == plain  # no compiler here, or one that does not work
        return
    assert compiled == pytest.approx(plain, rel=1e-3)
    assert set(graphs) == {3}
    assert "training.compile: 3 graphs, one of them a test; 0 were compiled again" in caplog.text


class FailsBackward(torch.autograd.Function):
    """What is compiled lazily, at the first backward pass."""

    @staticmethod
    def forward(_: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(_: Any, __: Tensor) -> Tensor:
        raise RuntimeError("the compiler has crashed")


@pytest.mark.usefixtures("dynamo")
@pytest.mark.parametrize("fails", ["at once", "in the backward pass"])
def test_where_the_compiler_fails_training_goes_on_after_one_warning(
    make_config: MakeConfig,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fails: str,
) -> None:
    def compile(function: Callable[..., Any], **_: object) -> Callable[..., Any]:
        def compiled(*arguments: Any, **named: Any) -> Any:
            return FailsBackward.apply(function(*arguments, **named))  # type: ignore[no-untyped-call]

        if fails == "at once":
            raise RuntimeError("the compiler has crashed\nand much more about it")
        return function if function is torch.sin else compiled

    monkeypatch.setattr(torch, "compile", compile)
    short = ("training.max_steps=3", "training.validation_bleu=false")
    losses = train(make_config("training.compile=true", *short))
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    (warning,) = [message for message in messages if not message.startswith("data.validation")]
    assert "training.compile" in warning and "going on without it (the compiler has crashed)" in warning
    assert losses == train(make_config(*short, f"run_dir={tmp_path / 'plain'}"))
    saved = [model_file.load(tmp_path / run / model_file.BEST).weights for run in ("run", "plain")]
    assert all(torch.equal(weight, saved[1][name]) for name, weight in saved[0].items())
