"""What is given to be read: a mistake in its name or in its bytes is told in one line, with the way to put it right."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint
from typer.testing import CliRunner

from nmt.checkpoints import model_file
from nmt.cli import app
from nmt.config import writer
from nmt.config.schema import Config

MakeConfig = Callable[..., Config]


@pytest.fixture
def here(make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a model, a config and a text."""
    folder = tmp_path / "here"
    folder.mkdir()
    model_file.save(folder / "model", make_checkpoint(make_config()))
    (folder / "config.yaml").write_text(writer.to_yaml(make_config()), encoding="utf-8")
    (folder / "text").write_text("one\ntwo\n")
    monkeypatch.chdir(folder)
    return folder


def error(*arguments: object) -> str:
    """The one line that a command says before it ends with status 1, nothing on standard output."""
    done = CliRunner().invoke(app.app, [str(argument) for argument in arguments])
    assert (done.exit_code, done.stdout) == (1, ""), (done.output, done.exception)
    lines = done.stderr.splitlines()
    assert lines[-1].startswith("error: ") and not any("Traceback" in line for line in lines)
    return lines[-1].removeprefix("error: ")


# ------------------------------------------------------------------------ names


def test_a_setting_without_its_section(here: Path) -> None:
    """Wherever an argument may be a file or a setting."""
    for arguments in (["translate", "model", "beam_size=8"], ["evaluate", "model", "beam_size=8", *texts()]):
        assert error(*arguments) == f"beam_size=8: no such file in {here}: " + ("did you mean decoding.beam_size=8?")
    for arguments in (["translate", "model", "text", "beam_size=8"], ["inspect", "model", "one", "beam_size=8"]):
        assert error(*arguments) == "beam_size=8: did you mean decoding.beam_size=8?"


def texts() -> list[str]:
    return ["--source", "text", "--reference", "text"]


# ------------------------------------------------------------------------ bytes


def table(row: str) -> bytes:
    return json.dumps({"en": "a", "de": "b"}).replace('"b"', row).encode()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("text.en", b"one\nca\xe9t\n", "text.en:2: byte 3 is not UTF-8"),
        ("text.en.gz", gzip.compress(b"one\ntwo\n" * 99, mtime=0)[:-9], "damaged gzip file"),
    ],
)
def test_text_that_is_none(here: Path, name: str, content: bytes, words: str) -> None:
    (here / name).write_bytes(content)
    entry = f"{{file: {name}}}" if name.startswith("table") else f"{{source: {name}, target: text}}"
    assert words in error("prepare", "config.yaml", f"data.train=[{entry}]")
    if name in ("text.en", "text.en.gz"):
        assert words in error("prepare", "config.yaml", f"data.validation={entry}")
        assert words in error("translate", "model", name)
        assert words in error("evaluate", "--hypothesis", name, "--reference", "text")


def test_null_characters_are_text_like_any_other(here: Path) -> None:
    """As many lines as there are line feeds, and nothing after a NUL is lost."""
    lines = [f"one\0two {number}" for number in range(40)]
    (here / "nul").write_text("".join(f"{line}\n" for line in lines))
    (here / "plain").write_text("".join(f"{line}\n" for line in lines).replace("\0", " "))
    (here / "json.jsonl").write_text("".join(json.dumps({"en": line, "de": line}) + "\n" for line in lines))
    for entry in ("{source: nul, target: nul}", "{file: json.jsonl}"):
        arguments = ["prepare", "config.yaml", f"data.train=[{entry}]", "data.store_dir=store", "vocabulary.size=280"]
        done = CliRunner().invoke(app.app, arguments)
        assert done.exit_code == 0, done.output
        words = [row.split()[1] for row in done.stdout.splitlines() if row.startswith(("source", "target"))]
        assert "40" in done.stdout and len(words) == 2
    done = CliRunner().invoke(app.app, ["translate", "model", "nul"])
    assert (done.exit_code, done.stdout.count("\n")) == (0, 40)
