"""Everything but exports and attention pages works with another architecture: docs/adding-a-model.md."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.bag_of_words import BagOfWords, add_architecture
from helpers.runs import config_text, rows_of, rows_without_clock
from helpers.train_steps import before_step
from torch import Tensor
from typer.testing import CliRunner, Result

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.commands.train import train, training_data
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.models.recurrent.model import RecurrentModel
from nmt.training.trainer import Trainer

CPU = torch.device("cpu")
TOY, RECURRENT = "bag-of-words", "recurrent"
MODELS = {  # as overrides
    TOY: "model={architecture: bag-of-words}",
    RECURRENT: "model={architecture: recurrent, embedding_size: 16, hidden_size: 32, dropout: 0.1}",
}
CLASSES = {TOY: BagOfWords, RECURRENT: RecurrentModel}
MakeConfig = Callable[..., Config]


@pytest.fixture(autouse=True)
def second_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    add_architecture(monkeypatch)


@pytest.fixture(scope="module", params=[TOY, pytest.param(RECURRENT, marks=pytest.mark.thorough)])
def name(request: pytest.FixtureRequest) -> str:
    """Of an architecture."""
    return str(request.param)


@pytest.fixture(scope="module")
def run_folder(name: str, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 20 steps."""
    folder = tmp_path_factory.mktemp(name)
    (folder / "config.yaml").write_text(config_text(corpus, folder / "run"))
    with pytest.MonkeyPatch.context() as patch:
        add_architecture(patch)
        assert nmt("train", folder / "config.yaml", MODELS[name], "training.ema_decay=0.9").exit_code == 0
    return folder / "run"


def nmt(*arguments: object, text: str = "") -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments], input=text)


def refusal(*arguments: object) -> str:
    """The one line of an error."""
    done = nmt(*arguments)
    assert (done.exit_code, done.stdout) == (1, ""), (done.output, done.exception)
    return done.stderr.strip().split("\n")[-1].removeprefix("error: ")


# ------------------------------------------------------------------------ a run, and what is made of it


def test_a_run_trains_validates_and_saves(run_folder: Path, name: str) -> None:
    rows = rows_of(run_folder / "metrics.jsonl")
    losses = [row["loss"] for row in rows if "loss" in row]
    assert losses[-1] < losses[0]
    assert {"validation_loss", "bleu", "chrf"} <= rows[-1].keys()
    loaded = model_file.load(run_folder / "best.safetensors")
    assert str(loaded.config.model.architecture) == name
    made = loaded.build()
    assert isinstance(made, CLASSES[name]) and loaded.weights.keys() == model_file.weights_of(made).keys()


def test_rules_of_the_others_are_not_applied_to_it(make_config: MakeConfig) -> None:
    assert make_config("model={architecture: bag-of-words, size: 33}", "vocabulary.shared=false").model.width == 33
    with pytest.raises(NmtError, match=r"model\.d_model: unknown setting of model\.architecture: bag-of-words; transf"):
        make_config("model={architecture: bag-of-words, d_model: 33}")


def test_resumed_is_uninterrupted(name: str, make_config: MakeConfig, tmp_path: Path) -> None:
    train(make_config(MODELS[name], f"run_dir={tmp_path / 'whole'}"), "cpu")
    parts = make_config(MODELS[name], f"run_dir={tmp_path / 'parts'}")
    trainer = Trainer(parts, training_data(parts), CPU)
    before_step(trainer, 12, lambda: os.kill(os.getpid(), signal.SIGTERM))
    assert trainer.run().agreed == signal.SIGTERM and trainer.progress.step == 12
    train(parts, "cpu")
    assert rows_without_clock(tmp_path / "whole") == rows_without_clock(tmp_path / "parts")
    one, other = (weights_of(model_file.checkpoints(tmp_path / name)[-1]) for name in ("whole", "parts"))
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())


def weights_of(path: Path) -> dict[str, Tensor]:
    return dict(model_file.load(path).weights)


def test_it_translates_and_scores(run_folder: Path, tmp_path: Path, name: str) -> None:
    done = nmt("translate", run_folder, "--format", "json", text="one two\nthree\n")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 0 and len(rows) == 2
    for weights in rows[0]["translations"][0]["alignment"]:
        assert sum(weights) == pytest.approx(1, abs=1e-3)
        assert name != TOY or weights == pytest.approx([1 / len(weights)] * len(weights))
    both = nmt("translate", run_folder, "--ensemble", run_folder / "ema.safetensors", text="one two\n")
    assert both.exit_code == 0 and both.stdout.count("\n") == 1
    (tmp_path / "source").write_text("one two\nthree\n")
    (tmp_path / "target").write_text("zwei eins\ndrei\n")
    scored = nmt("score", run_folder, "--source", tmp_path / "source", "--target", tmp_path / "target")
    assert scored.exit_code == 0 and scored.stdout.count("\n") == 2
    small = nmt("translate", run_folder, "decoding.precision=int8", text="one two\n")
    assert small.exit_code == 0 and small.stdout.count("\n") == 1


def test_exports_refuse_it(run_folder: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("ctranslate2")
    message = refusal("export", run_folder, "--format", "ctranslate2", "--output", tmp_path / "exported")
    assert message.startswith(f"{run_folder / model_file.BEST}: ") and f"model.architecture: {name}: " in message
    assert "only a transformer can be exported" in message and "nmt translate" in message
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize("name", [TOY], indirect=True)
def test_attention_pages_refuse_it(run_folder: Path) -> None:
    message = refusal("inspect", run_folder, "one two")
    assert f"model.architecture: {TOY}: cannot be inspected" in message and "nmt translate --format json" in message
