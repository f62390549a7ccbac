"""What a command is asked to write is looked at before the work: refused in one line, and nothing is left behind."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint
from typer.testing import CliRunner, Result

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.config import writer
from nmt.config.schema import Config

MakeConfig = Callable[..., Config]
READ_ONLY = Path("/proc")  # where even the superuser can make no file


@pytest.fixture
def run(make_config: MakeConfig, tmp_path: Path) -> Path:
    """The folder of a run with two checkpoints, and a text beside it."""
    run = tmp_path / "a run"
    for step in (1, 2):
        made = make_checkpoint(make_config(), step, step=step)
        model_file.save(model_file.checkpoint_path(run, step), made)
    (run / "config.yaml").write_text(writer.to_yaml(make_config()), encoding="utf-8")
    (tmp_path / "text").write_text("one\ntwo\n")
    return run


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app.app, [str(argument) for argument in arguments])


def commands(run: Path) -> dict[str, list[object]]:
    """Each command that writes a file or a folder, all but --output."""
    text = run.parent / "text"
    return {
        "translate": ["translate", run, text],
        "by line": ["translate", run, text, "--line-by-line"],
        "score": ["score", run, "--source", text, "--target", text],
        "evaluate": ["evaluate", run, "--source", text, "--reference", text],
        "average": ["average-checkpoints", run, "--last", 2],
        "select": ["average-checkpoints", run, "--select"],
        "report": ["report", run],
        "export": ["export", run, "--format", "ctranslate2"],
        "inspect": ["inspect", run, "one"],
    }


WRITE_A_FILE = ("translate", "by line", "score", "evaluate", "average", "select", "report")


def assert_refused_before_the_work(command: str, output: object, run: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The line that says why; no weights are read for it, and no file appears or changes."""

    def load(_: Path) -> None:
        raise AssertionError("weights are read before the output is known to be writable")

    def state() -> dict[str, object]:
        everything = sorted(run.parent.rglob("*"))
        return {str(path): path.read_bytes() if path.is_file() else path.is_symlink() for path in everything}

    before = state()
    with monkeypatch.context() as patched:
        patched.setattr(model_file, "load", load)
        done = invoke(*commands(run)[command], "--output", output)
    assert (done.exit_code, done.stdout) == (1, ""), (done.output, done.exception)
    assert state() == before
    [line] = done.stderr.splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize("command", WRITE_A_FILE)
def test_a_missing_folder_is_refused(run: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    output = run.parent / "no" / "x"
    line = assert_refused_before_the_work(command, output, run, monkeypatch)
    assert line == f"error: {output}: no folder {output.parent}: make it first, or choose another --output"


def test_links_that_lead_back_to_themselves(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = run.parent / "one", run.parent / "other"
    one.symlink_to(other)
    other.symlink_to(one)
    line = assert_refused_before_the_work("translate", one, run, monkeypatch)
    assert str(one) in line and "link" in line


@pytest.mark.skipif(not READ_ONLY.is_dir(), reason="no folder here in which nobody can make a file")
@pytest.mark.parametrize("command", [*WRITE_A_FILE])
def test_a_folder_that_nobody_can_write_to(run: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    line = assert_refused_before_the_work(command, READ_ONLY / "x", run, monkeypatch)
    assert line == f"error: {READ_ONLY / 'x'}: cannot be written: the folder is not writable: choose another --output"


@pytest.mark.parametrize("command", ["evaluate", "average"])
def test_a_folder_is_no_file(run: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a folder: " in assert_refused_before_the_work(command, run.parent, run, monkeypatch)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("translate", "best.safetensors"), ("evaluate", "checkpoints/step-00000009.safetensors"),
        ("select", "state/other"),
    ],
)  # fmt: skip
def test_files_that_training_writes_are_refused(
    run: Path, command: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run / "state").mkdir()
    line = assert_refused_before_the_work(command, run / name, run, monkeypatch)
    assert line == f"error: {run / name}: is a file of the run itself: choose another --output"


@pytest.mark.parametrize("command", WRITE_A_FILE)
def test_a_file_of_settings_is_not_written_over(run: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (run.parent / "my.yaml").write_text("run_dir: r\n")
    line = assert_refused_before_the_work(command, run.parent / "my.yaml", run, monkeypatch)
    assert "my.yaml: is a file of settings and would be overwritten: choose another --output" in line


# ------------------------------------------------------------------------ paths as they are given


@pytest.mark.parametrize("command", ["translate", "report"])
def test_the_folder_of_checkpoints_stands_for_the_run(run: Path, tmp_path: Path, command: str) -> None:
    written = []
    for given in (run, run / "checkpoints"):
        arguments = [given if one == run else one for one in commands(run)[command]]
        written.append(tmp_path / f"output {given.name}")
        done = invoke(*arguments, "--output", written[-1])
        assert done.exit_code == 0, done.output
    one, other = (re.sub(r'"written": *"[^"]*"', "", path.read_text()) for path in written)  # a report's time
    assert one == other
