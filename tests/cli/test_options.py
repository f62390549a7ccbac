"""What all commands' options have in common."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from typer.models import ArgumentInfo, CommandInfo, OptionInfo
from typer.testing import CliRunner

from nmt.cli import app, evaluate, options
from nmt.commands.evaluate import EvaluateRequest
from nmt.files.text import to_path

COMMANDS = app.app.registered_commands


def kinds(annotation: Any) -> set[Any]:
    """A type and all types in it: of `tuple[Path, Path] | None` also Path and None."""
    return {annotation}.union(*(kinds(inner) for inner in get_args(annotation)))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.callback.__name__)
def test_every_path_is_read_by_our_parser(command: CommandInfo) -> None:
    """Which puts the user's home in place of `~`."""
    for name, annotation in get_type_hints(command.callback, include_extras=True).items():
        kind, *metadata = get_args(annotation) or [annotation]
        if Path in kinds(kind):
            assert isinstance(metadata[0], OptionInfo | ArgumentInfo), name
            assert metadata[0].parser in (to_path, options.file_or_dash), name


def test_the_home_is_meant_by_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    done = CliRunner().invoke(app.app, ["init", "~/my.yaml", "--train", "~/a", "~/b"])
    assert (done.exit_code, done.stdout) == (0, f"{tmp_path}/my.yaml\n")
    assert f"{{source: {tmp_path}/a, target: {tmp_path}/b}}" in (tmp_path / "my.yaml").read_text()
    for arguments in (["translate", "~/none"], ["evaluate", "--hypothesis=~/none", "--reference=~/none"]):
        done = CliRunner().invoke(app.app, arguments)
        assert (done.exit_code, done.stderr) == (1, f"error: {tmp_path}/none: no such file\n")


def test_every_field_of_an_evaluation_is_an_option() -> None:
    names = {field.name for field in fields(EvaluateRequest)} - {"overrides"}
    assert names <= inspect.signature(evaluate.evaluate).parameters.keys()


@pytest.mark.parametrize(
    ("argument", "expected"), [("decoding.seed=1", True), ("a.b=", True), ("seed=1", False), ("A.b=1", False)]
)
def test_settings_are_told_from_files(argument: str, expected: bool, tmp_path: Path) -> None:
    assert options.is_setting(argument) is expected


def test_arguments_win_over_options() -> None:
    found = options.decoding_overrides(["decoding.beam_size=2"], 3, 0.5)
    assert found == ["decoding.beam_size=3", "decoding.length_penalty=0.5", "decoding.beam_size=2"]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.callback.__name__)
def test_help_has_an_example_and_a_line_for_each_option(command: CommandInfo) -> None:
    name = command.name or command.callback.__name__  # type: ignore[union-attr]
    done = CliRunner().invoke(app.app, [name, "--help"])
    assert done.exit_code == 0
    assert f"nmt {name} " in " ".join(done.stdout.split()).partition("Example: ")[2]
    for option, annotation in get_type_hints(command.callback, include_extras=True).items():
        metadata = get_args(annotation)[1:]
        assert option == "return" or metadata[-1].help, option


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "a.yaml", "--lr", "3"], "--lr: a setting has no dashes: training.learning_rate=3"),
        (["train", "--max-steps=3", "a.yaml"], "--max-steps: a setting has no dashes: training.max_steps=3"),
        (["prepare", "a.yaml", "--batch-size", "9"], "training.batch_tokens=9 or decoding.batch_tokens=9"),
        (["train", "a.yaml", "--dropout"], "model.dropout=…"),
        (["translate", "m", "--top-k", "3"], "--top-k: a setting has no dashes: decoding.top_k=3"),
        (["translate", "m", "--beam", "3"], "No such option: --beam (Possible options: --beam-size)"),
        (["serve", "m", "--max-steps", "3"], "No such option: --max-steps"),
    ],
)
def test_an_option_that_is_none_leads_to_what_is_meant(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app.app, arguments)
    assert done.exit_code == 2 and message in done.stderr


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.callback.__name__)
def test_usage_has_dots_where_more_can_be_given(command: CommandInfo) -> None:
    """And the help has --device where it is used; elsewhere it is accepted, and said to be ignored."""
    name = command.name or command.callback.__name__
    shown = CliRunner().invoke(app.app, [name, "--help"], env={"COLUMNS": "200"}).stdout
    usage, hints = shown.split("\n")[0], get_type_hints(command.callback, include_extras=True)
    for annotation in filter(get_args, hints.values()):
        kind, *metadata = get_args(annotation)
        if isinstance(metadata[0], ArgumentInfo) and list in map(get_origin, kinds(kind)):
            assert re.search(rf"{re.escape(metadata[0].metavar)}\]?\.\.\.", usage), usage
    assert "<" not in usage and "{" not in usage
    assert ("--device" in shown) == (get_type_hints(command.callback).get("device") is str)


def test_a_device_that_is_ignored_is_said_to_be(tmp_path: Path) -> None:
    done = CliRunner().invoke(app.app, ["report", str(tmp_path), "--device", "cpu"])
    assert done.stderr.startswith("--device is ignored: this command runs on the CPU\n")


@pytest.mark.parametrize(
    ("words", "offered"),
    [("nmt tra", "train translate"), ("nmt score --form", "--format"), ("nmt score --format ", "text json")],
)
def test_the_shell_completes(words: str, offered: str) -> None:
    asked = {"_NMT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert CliRunner().invoke(app.app, [], env=asked, prog_name="nmt").stdout.split() == offered.split()
