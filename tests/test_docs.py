"""What the documents under docs/ show is what happens."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest
import typer.main

from nmt.cli import app
from nmt.config import schema

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted((ROOT / "docs").glob("*.md"))


def blocks(path: Path, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_commands_parse_and_files_exist(path: Path) -> None:
    program = typer.main.get_command(app.app)
    for block in blocks(path, "bash"):
        for line in re.sub(r"\\\n *", "", block).split("\n"):
            words = shlex.split(line, comments=True)
            if "nmt" not in words:
                assert not words or (ROOT / next(word for word in words if word.startswith("scripts/"))).is_file()
                continue
            name, *arguments = words[words.index("nmt") + 1 :]
            given = program.commands[name].make_context(name, arguments).params  # type: ignore[attr-defined]
            if "config" in given:
                schema.load(ROOT / given["config"], given["overrides"] or ())
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_settings_that_are_named_exist(path: Path) -> None:
    from nmt.config.declaration import all_settings

    named = re.findall(r"`((?:training|data|model|vocabulary|decoding)\.[a-z_]+)", path.read_text(encoding="utf-8"))
    assert not set(named) - set(all_settings(schema.Config))


def test_the_scaling_table_is_what_its_formula_gives() -> None:
    document = ROOT / "docs" / "training-at-scale.md"
    (code,) = blocks(document, "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() in blocks(document, "text")
