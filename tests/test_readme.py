"""What the README tells a newcomer to type is what the commands take."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from nmt.cli import app
from nmt.config import schema
from nmt.errors import NmtError

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```bash\n(.*?)```", README, re.DOTALL)
LINES = [line for block in BLOCKS for line in re.sub(r"\\\n *", "", block).split("\n")]
COMMANDS = [shlex.split(line, comments=True) for line in LINES if line and not line.startswith("#")]


@pytest.mark.parametrize("command", [words for words in COMMANDS if words and words[0] == "nmt"], ids=" ".join)
def test_commands_parse(command: list[str]) -> None:
    program = typer.main.get_command(app.app)
    _, name, *arguments = command
    given = program.commands[name].make_context(name, arguments).params  # type: ignore[attr-defined]
    if name in ("train", "prepare"):
        schema.load(ROOT / given["config"], given["overrides"] or ())


def test_there_are_commands_of_every_kind() -> None:
    names = {command[1] for command in COMMANDS if command and command[0] == "nmt"}
    assert names == {"train", "prepare", "translate", "serve", "average-checkpoints", "evaluate", "export"}


def test_scripts_and_links_exist() -> None:
    for words in COMMANDS:
        if words and words[0].startswith("scripts/"):
            assert (ROOT / words[0]).is_file()
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_mistake_shown_is_what_is_said() -> None:
    shown = re.search(r"^error: (configs/multi30k.yaml: .*)$", README, re.MULTILINE)
    assert shown
    with pytest.raises(NmtError) as error:
        schema.load(ROOT / "configs/multi30k.yaml", ["model.dropuot=0.2"])
    assert str(error.value).endswith(shown[1])
