"""A run's folder: one process trains in it, its settings are whole, and nobody's files are lost."""

import errno
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint

from nmt.checkpoints import model_file, run_folder
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.files import atomic

MakeConfig = Callable[..., Config]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path / "run"


@pytest.mark.parametrize("text", ["# my notes\nseed: 3\n", "not: [a config", ""])
def test_a_file_of_the_users_is_not_overwritten(make_config: MakeConfig, run: Path, text: str) -> None:
    (run / "config.yaml").write_text(text)
    for check in (run_folder.check_config, run_folder.write_config):
        with pytest.raises(NmtError, match=r"config\.yaml: was not written by nmt and would be overwritten: move it"):
            check(run, make_config())
    assert (run / "config.yaml").read_text() == text


def test_a_copied_run_is_not_trained_in_the_folder_of_the_first(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the user knows which is meant: both ways are said, and each of them then works."""
    monkeypatch.chdir(tmp_path)
    run, copy = Path("run"), Path("copy")
    (run / "state").mkdir(parents=True)
    run_folder.write_config(run, make_config("run_dir=run"))
    assert run_folder.load_config(run / "config.yaml").run_dir == "run"
    shutil.copytree(run, copy)
    Path("link").symlink_to(run)
    assert run_folder.load_config(Path("link/config.yaml")).run_dir == "run", "the same folder by another name"
    here = re.escape(str(tmp_path))
    ways = rf"to continue in copy, add run_dir=copy; to train in {here}/run, "
    with pytest.raises(NmtError, match=rf"copy/config\.yaml: belongs .*{ways}give {here}/run/config\.yaml$"):
        run_folder.load_config(copy / "config.yaml")
    for chosen in ("copy", "run", "a new one"):
        assert run_folder.load_config(copy / "config.yaml", [f"run_dir={chosen}"]).run_dir == chosen
    run.rename("moved")
    with pytest.raises(NmtError, match=rf"{ways}add run_dir=run$"):
        run_folder.load_config(copy / "config.yaml")
    monkeypatch.chdir("copy")
    with pytest.raises(NmtError, match=rf"run in {here}/copy, .*{here}/copy/run: to continue in {here}/copy, add"):
        run_folder.load_config(Path("config.yaml"))


def left_by_a_run(run: Path, *without: str) -> list[str]:
    names = {"metrics.jsonl", "samples.jsonl", "best.safetensors", "config.yaml"} - set(without)
    for name in names:
        (run / name).write_text(name)
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-00000001.safetensors").write_text("weights")
    return sorted([*names, "checkpoints"])


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_earlier_run_is_moved_aside_with_its_settings(run: Path) -> None:
    (run / "config.yaml").write_text("text")
    run_folder.move_aside(run)
    assert names(run) == ["config.yaml"], "settings alone: no step was trained"
    left = left_by_a_run(run)
    run_folder.move_aside(run)
    assert names(run) == ["before-1"] and names(run / "before-1") == left
    left_by_a_run(run)
    run_folder.move_aside(run)
    assert names(run) == ["before-1", "before-2"] and names(run / "before-2") == left
    run_folder.move_aside(run)
    assert names(run) == ["before-1", "before-2"]
    (run / "before-2").rename(run / "before-9")
    left_by_a_run(run)
    run_folder.move_aside(run)
    assert names(run) == ["before-1", "before-10", "before-9"]


def test_what_was_left_by_an_interruption_is_moved_too(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = left_by_a_run(run)
    rename, calls = Path.rename, []

    def interrupted(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) > 2:
            raise OSError(errno.EIO, "Input/output error")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", interrupted)
        with pytest.raises(NmtError, match="cannot be written: Input/output error"):
            run_folder.move_aside(run)
    run_folder.move_aside(run)
    assert names(run) == ["before-1", "before-2"] and "config.yaml" in names(run / "before-1")
    assert sorted(names(run / "before-1") + names(run / "before-2")) == left


def test_one_process_at_a_time_trains(run: Path) -> None:
    with (
        run_folder.locked(run),
        pytest.raises(NmtError, match="another process is training there"),
        run_folder.locked(run),
    ):
        pass
    with run_folder.locked(run):
        assert names(run / "state") == [atomic.LOCK]


def test_the_best_checkpoint_is_written_again_if_it_was_deleted(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    (run / "checkpoints").mkdir(parents=True)
    (run / "checkpoints" / "step-00000020.safetensors").write_bytes(b"the best")
    run_folder.restore_best(run, 20, 20)
    assert (run / model_file.BEST).read_bytes() == b"the best"
    assert f"{run}/best.safetensors was missing: written again from step-00000020.safetensors" in caplog.text
    caplog.clear()
    (run / model_file.BEST).write_bytes(b"another")
    run_folder.restore_best(run, 20, 20)
    assert (run / model_file.BEST).read_bytes() == b"another" and not caplog.text


def test_a_best_checkpoint_of_a_step_that_is_trained_again_is_replaced(
    run: Path, make_config: MakeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    made = make_checkpoint(make_config(), 1, step=30)
    model_file.save(run / model_file.BEST, made)
    run_folder.restore_best(run, 20, 25)  # there is nothing to replace it by
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-00000020.safetensors").write_bytes(b"the best")
    run_folder.restore_best(run, 20, 30)
    assert model_file.load_provenance(run / model_file.BEST)["step"] == 30 and not caplog.text
    run_folder.restore_best(run, 20, 25)
    assert (run / model_file.BEST).read_bytes() == b"the best"
    assert "best.safetensors was from step 30, and training continues from step 25: written again from" in caplog.text


def test_checkpoints_of_later_steps_are_moved_aside(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    (run / "before-3").mkdir(parents=True)
    for step in (10, 20, 30, 100_000_000):
        path = model_file.checkpoint_path(run, step)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"%d" % step)
    run_folder.move_later_aside(run, 100_000_000)
    run_folder.move_later_aside(run, 15)  # none of its own
    assert len(names(run / "checkpoints")) == 4 and not caplog.text
    run_folder.move_later_aside(run, 20)
    assert names(run / "checkpoints") == ["step-00000010.safetensors", "step-00000020.safetensors"]
    moved = run / "before-4" / "checkpoints"
    assert {path.name: path.read_bytes() for path in moved.iterdir()} == {
        "step-00000030.safetensors": b"30",
        "step-100000000.safetensors": b"100000000",
    }
    assert f"checkpoints after step 20 are from an earlier attempt of this run: moved to {moved}" in caplog.text
