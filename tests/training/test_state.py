"""Resuming: the next step is the one that would have come, from the newest whole state, of the same run."""

import copy
import dataclasses
import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import torch
from helpers.model_files import make_checkpoint
from helpers.train_steps import Session

from nmt.checkpoints import model_file
from nmt.config import reader
from nmt.config.schema import Config
from nmt.data.prepare import ValidationSet
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files import tensors as tensor_file
from nmt.training import state
from nmt.training.identity import Identity, check_settings
from nmt.training.progress import Best, Interval, Position, Progress
from nmt.training.validation_key import validation_key

MakeConfig = Callable[..., Config]


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "nmt")
    return caplog


def states(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "state").iterdir())


@pytest.mark.parametrize(
    "overrides",
    [("model.tie=none", "model.positions=learned", "training.ema_decay=0.9"), ("training.precision=float16",)],
)
def test_the_next_steps_are_those_that_would_have_come(
    make_config: MakeConfig, tmp_path: Path, overrides: tuple[str, ...]
) -> None:
    """Bit for bit: weights, both moments, step counts, random numbers, the loss scale."""
    config = make_config("model.dropout=0.3", *overrides)
    whole = Session.start(tmp_path, config)
    whole.train(3)
    whole.save(3)
    at_save = {name: tensor.detach().clone() for name, tensor in whole.everything().items()}
    whole.train(2)
    after, scale = {n: t.detach().clone() for n, t in whole.everything().items()}, whole.train_step.scaler.state_dict()

    resumed = Session.start(tmp_path, config, seed=99)
    assert resumed.restore() == Progress(step=3)
    assert all(torch.equal(tensor, at_save[name]) for name, tensor in resumed.everything().items())
    resumed.train(2)
    assert all(torch.equal(tensor, after[name]) for name, tensor in resumed.everything().items())
    assert resumed.train_step.scaler.state_dict() == scale


def test_all_of_the_progress_comes_back(make_config: MakeConfig, tmp_path: Path) -> None:
    session = Session.start(tmp_path, make_config())
    progress = Progress(
        step=7, target_tokens=10**12, seconds=0.1, at_start={"news": {"bleu": 0.1}}, pair_counts=[5], overflows=6,
        metrics_bytes=12345, samples_bytes=678, auto_micro_batch_tokens=128, ranks=2,
        position=Position(2, 3, stage=1, stage_step=4, stage_time=90, stage_given=[90], pool_end=99),
        best=Best(-1 / 3, 5, validations_since=2),
        interval=Interval([0.1, 1e300], [6], [7], 1, 2, padded_tokens=3, sentences=4, seconds=1e-9, waiting=1e-10),
    )  # fmt: skip
    for part, new in ((progress, Progress()), (progress.position, Position()), (progress.best, Best()),
                      (progress.interval, Interval())):  # fmt: skip
        assert all(getattr(part, field.name) != getattr(new, field.name) for field in dataclasses.fields(part))
    state.write(tmp_path, state.snapshot(session.identity, progress, session.train_step))
    assert session.restore() == progress


@pytest.mark.parametrize(
    ("override", "text", "compared", "metric", "at_step"),
    [
        ("decoding.beam_size=3", "one", {"validation_loss"}, "bleu", 7),
        ("decoding.beam_size=3", "one", {"validation_loss"}, "validation_loss", 0),
        ("decoding.engine=torch", "one", {"validation_loss", "bleu"}, "validation_loss", 7),
        ("training.log_every=7", "another", set(), "bleu", 7),
    ],
)
def test_scores_are_compared_with_those_of_the_same_text_and_search(
    make_config: MakeConfig, tmp_path: Path, metric: str, override: str, text: str, compared: set[str], at_step: int
) -> None:
    """Those at the start; the loss needs no search. Before the first step the model is validated again."""

    def identity(text: str, config: Config) -> Identity:
        text_only = cast(ValidationSet, SimpleNamespace(pairs=[(text, text)], tags=()))
        key = validation_key([text_only], config.training, config.decoding)
        return dataclasses.replace(session.identity, config=config, validation_key=key)

    by_metric = f"training.best_metric={metric}"
    session = Session.start(tmp_path, make_config(by_metric))
    session.train()
    at_start = {"": {"validation_loss": 4.0, "bleu": 1.0}}
    progress = Progress(step=at_step, best=Best(-2.0, 0, validations_since=3), at_start=at_start)
    state.write(tmp_path, state.snapshot(identity("one", make_config(by_metric)), progress, session.train_step))
    now = identity(text, make_config(by_metric, override))
    restored = state.restore(tmp_path, now, session.train_step, Ranks())
    if at_step == 0 and len(compared) < 2:
        compared = set()
    assert {key for scores in restored.at_start.values() for key in scores} == compared


@pytest.mark.parametrize("version", [{}, {"version": "999"}])
def test_a_state_of_another_version_is_refused(
    make_config: MakeConfig, tmp_path: Path, version: dict[str, str]
) -> None:
    session = Session.start(tmp_path, make_config())
    session.save(3)
    assert state.saved(tmp_path) == (session.identity, Progress(step=3))


# ------------------------------------------------------------------------ damage


def damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    match how:
        case "cut":
            path.write_bytes(whole[:-100])
        case "flipped":
            path.write_bytes(whole[:-100] + bytes([whole[-100] ^ 1]) + whole[-99:])
        case "empty":
            path.write_bytes(b"")
        case "a model file":
            config = reader.parse(Config, tensor_file.read(path)[1]["config"], "inside")
            model_file.save(path, make_checkpoint(config))


@pytest.mark.parametrize("how", ["cut", "flipped", "a model file"])
def test_a_damaged_state_is_passed_over_with_a_warning(
    make_config: MakeConfig, tmp_path: Path, logged: pytest.LogCaptureFixture, how: str
) -> None:
    session = Session.start(tmp_path, make_config())
    session.train()
    session.save(1)
    at_1 = copy.deepcopy(session.train_step.model.state_dict())
    session.train()
    session.save(2)
    damage(tmp_path / "state" / "step-00000002.safetensors", how)
    resumed = Session.start(tmp_path, make_config(), seed=9)
    assert resumed.restore().step == 1
    assert all(torch.equal(tensor, at_1[name]) for name, tensor in resumed.train_step.model.state_dict().items())
    (warning,) = [record for record in logged.records if record.levelno == logging.WARNING]
    assert "step-00000002.safetensors: " in warning.getMessage()
    assert "the state before it" in warning.getMessage()
    logged.clear()
    assert resumed.restore().step == 1
    assert not logged.records, "said once"
    assert [path.name for path in sorted((tmp_path / "state").iterdir())] == [
        "damaged-step-00000002.safetensors", "step-00000001.safetensors",
    ]  # fmt: skip


def test_when_all_are_damaged_nothing_is_guessed(make_config: MakeConfig, tmp_path: Path) -> None:
    session = Session.start(tmp_path, make_config())
    for step in (1, 2):
        session.save(step)
        damage(tmp_path / "state" / f"step-{step:08d}.safetensors", "cut")
    before = copy.deepcopy(session.train_step.model.state_dict())
    with pytest.raises(NmtError, match=r"state: all states there are damaged: set a new run_dir"):
        session.restore()
    assert all(torch.equal(tensor, before[name]) for name, tensor in session.train_step.model.state_dict().items())


# ------------------------------------------------------------------------ another run's settings


def change(session: Session, config: Config) -> Session:
    return dataclasses.replace(session, config=config)


def test_every_refused_setting_is_named_and_no_other(make_config: MakeConfig, tmp_path: Path) -> None:
    session = Session.start(tmp_path, make_config())
    session.save(1)
    other = make_config("seed=2", "model.activation=gelu", "training.max_steps=99", "model.dropout=0.4")
    with pytest.raises(NmtError) as caught:
        change(session, other).restore()
    assert "seed: 1 in the saved run, 2 now; model.activation: relu in the saved run, gelu now" in str(caught.value)
    assert "restore seed=1 model.activation=relu, or set a new run_dir (nmt train " in str(caught.value)
    assert str(caught.value).endswith("config.yaml resumes with the saved settings)")
    assert "max_steps" not in str(caught.value)
    assert "dropout" not in str(caught.value)


def test_free_settings_may_change_and_are_said(
    make_config: MakeConfig, tmp_path: Path, logged: pytest.LogCaptureFixture
) -> None:
    session = Session.start(tmp_path, make_config())
    session.save(1)
    session.restore()
    assert not logged.records, "nothing has changed"
    free = {
        "training.max_steps": "20 -> 99", "training.learning_rate": "0.01 -> 0.5", "model.dropout": "0.1 -> 0.4",
        "model.attention_dropout": "0.0 -> 0.2", "decoding.beam_size": "2 -> 8", "training.keep_last": "10 -> 3",
    }  # fmt: skip
    overrides = [f"{key}={row.split(' -> ')[1]}" for key, row in free.items()]
    assert change(session, make_config(*overrides)).restore().step == 1
    said = [record.getMessage() for record in logged.records]
    pairs = {key: row.split(" -> ") for key, row in free.items()}
    assert sorted(said) == sorted(
        f"setting changed: {key}: {a} in the saved run, {b} now" for key, (a, b) in pairs.items()
    )


def test_the_file_of_a_vocabulary_may_be_moved(make_config: MakeConfig, tmp_path: Path) -> None:
    """Whether it is another vocabulary is seen once it is read."""
    before, now = (make_config(f"vocabulary.source_model={name}.model") for name in ("one", "moved"))
    check_settings(now, before, tmp_path)
    session = Session.start(tmp_path, before)
    session.save(1)
    identity = dataclasses.replace(session.identity, config=now)
    assert state.restore(tmp_path, identity, session.train_step, Ranks())
    other = dataclasses.replace(identity, vocabulary_key="another")
    with pytest.raises(NmtError, match=r"another vocabulary \(vocabulary.source_model: one.model in the saved"):
        state.restore(tmp_path, other, session.train_step, Ranks())
    changed = dataclasses.replace(session.identity, vocabulary_key="another")
    with pytest.raises(NmtError, match=r"another vocabulary \(the files of vocabulary.source_model have changed\)"):
        state.restore(tmp_path, changed, session.train_step, Ranks())
    for one, two in ((before, make_config()), (make_config(), before)):  # refused before a vocabulary is learned
        with pytest.raises(NmtError, match=r"other settings \(vocabulary.source_model: "):
            check_settings(one, two, tmp_path)


@pytest.mark.parametrize(
    ("field", "what"), [("data_key", "other training data"), ("vocabulary_key", "another vocabulary")]
)
def test_other_data_and_another_vocabulary_are_refused(
    make_config: MakeConfig, tmp_path: Path, field: str, what: str
) -> None:
    session = Session.start(tmp_path, make_config())
    session.save(1)
    identity = dataclasses.replace(session.identity, **{field: "another"})
    with pytest.raises(NmtError, match=f"contains a run .*{what}"):
        state.restore(tmp_path, identity, session.train_step, Ranks())
