"""Saving beside training: the files of that moment, whatever comes after, and no error lost."""

import concurrent.futures
import dataclasses
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import torch
from helpers import faults
from helpers.model_files import shared_vocabulary
from helpers.train_steps import Session
from torch import Tensor

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.files import tensors as tensor_file
from nmt.training import state

MakeConfig = Callable[..., Config]


def started(run: Path, config: Config) -> Session:
    """After one step."""
    session = Session.start(run, config)
    session.train()
    return session


@pytest.fixture
def session(make_config: MakeConfig, tmp_path: Path) -> Session:
    return started(tmp_path / "run", make_config("training.ema_decay=0.6"))


@dataclasses.dataclass
class Disk:
    """One that writes nothing before it is let, and then refuses if it is full."""

    let: threading.Event
    full: bool = False


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    slow, write = Disk(threading.Event()), tensor_file.write

    def write_when_let(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
        assert slow.let.wait(timeout=30)
        if slow.full:
            raise NmtError(f"{path}: cannot be written: no space left")
        write(path, tensors, metadata)

    monkeypatch.setattr(tensor_file, "write", write_when_let)
    yield slow
    slow.let.set()


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(tensor, other[name]) for name, tensor in one.items())


def states(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "state").glob("step-*"))


def written_date(path: Path) -> str:
    """The date in a model file that was written just now."""
    date = str(model_file.load_provenance(path)["date"])
    assert datetime.now(UTC) - datetime.fromisoformat(date) < timedelta(minutes=10)
    return date


def test_files_are_those_of_a_synchronous_save(session: Session, tmp_path: Path) -> None:
    session.progress.best.step, session.progress.target_tokens, session.progress.position.epoch = 1, 77, 3
    scores = {"validation_loss": 1.5}
    with session.saver() as saver:
        saver.save(session.progress, session.train_step, scores)
    provenance = {
        "nmt": nmt.__version__, "torch": torch.__version__, "date": written_date(session.run / model_file.BEST),
        "run_dir": str(session.run), "step": 1, "epoch": 3, "target_tokens": 77, "best_metric": "validation_loss",
        "validation_key": "validation", **scores,
    }  # fmt: skip
    model = Checkpoint(session.config, shared_vocabulary(), session.weights(), provenance)
    model_file.save(model_file.checkpoint_path(tmp_path / "plain", 1), model)
    model_file.save(tmp_path / "plain" / model_file.BEST, model)
    state.write(tmp_path / "plain", state.snapshot(session.identity, session.progress, session.train_step))
    plain = [path.relative_to(tmp_path / "plain") for path in (tmp_path / "plain").rglob("*.safetensors")]
    saved = [path.relative_to(session.run) for path in session.run.rglob("*") if path.is_file()]
    assert sorted(saved) == sorted([*plain, Path(model_file.EMA)])
    for path in plain:
        (ours, our_words), (theirs, their_words) = (
            tensor_file.read(at / path) for at in (session.run, tmp_path / "plain")
        )
        assert same(ours, theirs)
        assert our_words == their_words


def test_a_state_is_written_after_what_it_speaks_of_and_nothing_is_deleted_before(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at any point, a run has the files that the state it goes on from takes for written."""
    of = started(
        tmp_path / "run", make_config("training.keep_last=1", "training.keep_best=0", "training.ema_decay=0.6")
    )
    with of.saver() as saver:
        saver.save(of.progress, of.train_step, {})
    of.train()
    of.progress.best.step = 2
    counted = faults.Faults(of.run)
    counted.install(monkeypatch.setattr)
    with of.saver() as saver:
        saver.save(of.progress, of.train_step, {"validation_loss": 1.0})
    step = "step-00000002.safetensors"
    deleted = "unlink checkpoints/step-00000001.safetensors"
    names = (f"replace checkpoints/{step}", "replace best.safetensors", "replace ema.safetensors")
    places = [counted.calls.index(call) for call in (*names, f"replace state/{step}", deleted)]
    assert places == sorted(places)


def test_what_training_does_while_a_file_is_written_is_not_in_it(session: Session, disk: Disk) -> None:
    at_save, expected = session.weights(), state.snapshot(session.identity, session.progress, session.train_step)
    with session.saver() as saver:
        saver.save(session.progress, session.train_step, {})
        session.train()
        for weight in session.train_step.model.parameters():
            weight.data.fill_(7)
        session.progress.target_tokens = 10**9
        assert not states(session.run)
        disk.let.set()
    tensors, metadata = tensor_file.read(session.run / "state" / "step-00000001.safetensors")
    assert same(tensors, expected.tensors)
    assert metadata == expected.metadata
    assert same({name: tensors[f"model.{name}"] for name in at_save}, at_save)
    model = model_file.load(model_file.checkpoint_path(session.run, 1))
    assert same(dict(model.weights), at_save)
    assert model.provenance["target_tokens"] == 0


# ------------------------------------------------------------------------ errors


def test_a_disk_that_refuses_is_heard_of_when_asked(session: Session, disk: Disk) -> None:
    saver = session.saver()
    saver.check()
    saver.save(session.progress, session.train_step, None)
    saver.check()  # not yet
    disk.full = True
    disk.let.set()
    assert saver._writing is not None
    concurrent.futures.wait([saver._writing])
    with pytest.raises(NmtError, match="no space left: training ends; no state had been saved, and the same command"):
        saver.check()
    saver.check()  # once


def test_a_file_where_a_folder_should_be_is_named(session: Session, tmp_path: Path) -> None:
    """Also if it is noticed on leaving."""
    file = tmp_path / "run" / "state"
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    with pytest.raises(NmtError, match=f"{file}.*cannot be written"), session.saver() as saver:
        saver.save(session.progress, session.train_step, {})
    assert file.read_text() == "mine"


def test_what_ends_training_is_raised_and_the_file_being_written_is_whole(session: Session, disk: Disk) -> None:
    with pytest.raises(ZeroDivisionError), session.saver() as saver:
        saver.save(session.progress, session.train_step, None)
        threading.Timer(0.05, disk.let.set).start()
        raise ZeroDivisionError
    tensors, _ = tensor_file.read(session.run / "state" / "step-00000001.safetensors")
    expected = state.snapshot(session.identity, session.progress, session.train_step)
    assert same(tensors, expected.tensors)


# ------------------------------------------------------------------------ which files stay


@pytest.mark.parametrize(
    ("last", "best", "kept"),
    [(1, 0, {5}), (2, 1, {2, 4, 5})],
)
def test_the_last_and_the_best_checkpoints_are_kept(
    make_config: MakeConfig, tmp_path: Path, last: int, best: int, kept: set[int]
) -> None:
    of = started(tmp_path / "run", make_config(f"training.keep_last={last}", f"training.keep_best={best}"))
    with of.saver() as saver:
        for step, loss in enumerate((5.0, 1.0, 2.0, 3.0, 4.0), start=1):
            of.progress.step = step
            saver.save(of.progress, of.train_step, {"validation_loss": loss})
    assert {model_file.load_provenance(path)["step"] for path in model_file.checkpoints(of.run)} == kept
    assert states(of.run) == ["step-00000004.safetensors", "step-00000005.safetensors"]


# ------------------------------------------------------------------------ the moving average


def test_the_moving_average_is_a_model_file_with_the_averaged_weights(session: Session) -> None:
    assert session.train_step.average is not None
    with session.saver() as saver:
        session.train(4)
        saver.save(session.progress, session.train_step, {"validation_loss": 1.0})
    average = dict(session.train_step.average.named_parameters())
    saved = model_file.load(session.run / model_file.EMA)
    assert saved.provenance == {
        "nmt": nmt.__version__, "torch": torch.__version__, "run_dir": str(session.run), "step": 5, "ema_decay": 0.6,
        "date": written_date(session.run / model_file.EMA), "target_tokens": session.progress.target_tokens,
    }  # fmt: skip
    model = saved.build()
    for name, weight in model.named_parameters():
        assert torch.equal(weight, average[name])
        assert not torch.equal(weight, session.weights()[name])
    assert model.output.weight is model.source_embedding.weight
    ids = torch.randint(4, 300, (2, 5))
    assert model(ids, ids).isfinite().all()
