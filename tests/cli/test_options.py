"""What all commands' options have in common."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from typer.models import ArgumentInfo, CommandInfo, OptionInfo
from typer.testing import CliRunner

from nmt.cli import app, evaluate, options
from nmt.commands.evaluate import Request
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
    names = {field.name for field in fields(Request)} - {"overrides"}
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
