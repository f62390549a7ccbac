"""What a shell completes: commands, options, models, configs, and settings with their values."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.cli import app, completion
from nmt.config.declaration import all_settings
from nmt.config.schema import Config

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a run, a config and a text."""
    (tmp_path / "runs" / "demo").mkdir(parents=True)
    for name in ("runs/demo/best.safetensors", "runs/demo/metrics.jsonl", "my run.yaml", ".hidden.yaml", "test.en"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("nmt tr", "train translate"),
        ("nmt evaluate --form", "--format"),
        ("nmt evaluate --format ", "text json"),
        ("nmt train m", "my\\ run.yaml"),
        ("nmt train ", "my\\ run.yaml runs/"),
        ("nmt train 'my run.yaml' training.le", "training.learning_rate="),
        ("nmt train a.yaml model.layers=3 model.arch", "model.architecture="),
        ("nmt train a.yaml model.architecture=", "transformer recurrent"),
        ("nmt train a.yaml training.schedule=c", "cosine constant"),
        ("nmt train a.yaml training.packed=", "true false null"),
        ("nmt train a.yaml training.micro_batch_tokens=a", "auto"),
        ("nmt train a.yaml training.start_from=r", ""),  # files, which the shell knows
        ("nmt translate runs/demo/", "runs/demo/best.safetensors"),
        ("nmt translate runs/demo t", ""),
        ("nmt translate runs/demo decoding.beam", "decoding.beam_size="),
        ("nmt translate runs/demo test.en training.", ""),
        ("nmt evaluate runs/demo decoding.engine=to", "torch"),
        ("nmt train 'a", ""),
        ("nmt unknown a", "average-checkpoints"),
    ],
)
def test_completion(line: str, expected: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    completion.answer(app.app, "bash", line)
    shown = capsys.readouterr().out.replace("\\ ", "\\_").split()
    assert " ".join(shown).replace("\\_", "\\ ") == expected


def test_every_setting_is_offered_with_its_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    completion.answer(app.app, "fish", "nmt prepare a.yaml ")
    lines = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert lines == {f"{path}=": own.meaning for path, own in all_settings(Config).items()}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script(folder: Path) -> None:
    """In the way bash calls it: with the line and the place of the cursor."""
    program = folder / "nmt"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m nmt "$@"\n')
    program.chmod(0o755)
    script = CliRunner().invoke(app.app, ["completion", "bash"]).stdout
    call = 'COMP_LINE="nmt train a.yaml training.schedule=co X"; COMP_POINT=37; _nmt nmt; echo "${COMPREPLY[@]}"'
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", script + call], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "cosine constant\n"), done.stderr
