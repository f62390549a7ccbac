"""What the README and the pages under docs/ show is what happens, and every link leads somewhere."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from pydoc import locate

import pytest
import typer.main

from nmt.cli import app
from nmt.config import schema
from nmt.config.declaration import all_settings

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
SHOWING = [*PAGES, ROOT / "PACKAGE.md"]  # that is the page on the package index
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "configs" / "README.md"]
SETTINGS = set(all_settings(schema.Config))
SETTINGS |= {path.rpartition(".")[0] for path in SETTINGS}  # sections too
WITHOUT_NMT = {"source", "pip", "for", "done", "shuf"}  # first words of lines that are not checked


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def commands(page: Path) -> Iterator[list[str]]:
    """The words of every command in the page's shell blocks, without comments and redirections."""
    for block in blocks(page, "bash"):
        for line in re.sub(r"\\\n *", "", block).replace("$seed", "1").split("\n"):
            words = shlex.split(line, comments=True)
            if words:
                yield words[: words.index(">")] if ">" in words else words


@pytest.mark.parametrize("page", SHOWING, ids=name)
def test_commands_parse_and_scripts_exist(page: Path) -> None:
    program = typer.main.get_command(app.app)
    written = set()  # by `nmt init`, which must come first on the page
    for words in commands(page):
        if "nmt" in words:
            command, *arguments = words[words.index("nmt") + 1 :]
            given = program.commands[command].make_context(command, arguments).params  # type: ignore[attr-defined]
            if command == "init":
                written.add(given["config"])
            elif "config" in given and given["config"] not in written:
                schema.load(ROOT / given["config"], given["overrides"] or ())
        elif words[0] not in WITHOUT_NMT:
            script = next(word for word in words if word.startswith("scripts/"))
            assert (ROOT / script).is_file(), script


def test_every_command_is_shown() -> None:
    shown = {words[words.index("nmt") + 1] for page in PAGES for words in commands(page) if "nmt" in words}
    assert shown == set(typer.main.get_command(app.app).commands)  # type: ignore[attr-defined]


def test_the_pages_are_short() -> None:
    lines = {name(page): page.read_text(encoding="utf-8").count("\n") for page in PAGES}
    assert max(lines.values()) <= 250 and sum(lines.values()) - lines["README.md"] <= 3_600, lines


@pytest.mark.parametrize("page", [*PAGES[1:], ROOT / "configs" / "README.md"], ids=name)
def test_a_long_page_begins_with_its_contents(page: Path) -> None:
    """Before its first section, a page of more than 120 lines links to each of its sections."""
    text = prose(page)
    if page.read_text(encoding="utf-8").count("\n") > 120:
        sections = {anchor_of(heading) for heading in re.findall(r"^## (.*)$", text, re.MULTILINE)}
        assert sections <= set(re.findall(r"\]\(#([^)]+)\)", text.partition("\n## ")[0]))


def anchor_of(heading: str) -> str:
    """What GitHub calls a heading in links."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)}


@pytest.mark.parametrize("page", LINKING, ids=name)
def test_links_and_anchors_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", prose(page)):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.resolve()), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_settings_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:training|data|model|vocabulary|decoding)\.[a-z_]+)[`:= ]", prose(page))
    assert not {one for one in named if one not in SETTINGS and not locate(f"nmt.{one}")}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_files_that_are_named_exist(page: Path) -> None:
    for path in re.findall(r"`((?:nmt|tests|scripts|configs)/[\w./-]+)`", prose(page)):
        assert (ROOT / path).exists() or "NAME" in path, path


def test_the_code_tour_names_functions_that_exist() -> None:
    """`module.function`, where the module is given from nmt/ on: `data.batching.Batches.epoch`."""
    folders = "|".join(folder.name for folder in (ROOT / "nmt").iterdir() if folder.is_dir())
    for page in (ROOT / "docs" / "code-tour.md", ROOT / "docs" / "adding-a-model.md"):
        for dotted in re.findall(rf"`((?:{folders})(?:\.\w+)+)(?:\(\))?`", prose(page)):
            assert dotted in SETTINGS or locate(f"nmt.{dotted}"), dotted


def test_a_newcomer_reads_the_readme_in_three_minutes() -> None:
    assert len(README.read_text(encoding="utf-8")) <= 8_000


def test_the_readme_has_a_table_of_every_command() -> None:
    table = set(re.findall(r"^\| `nmt ([a-z-]+)", README.read_text(encoding="utf-8"), re.MULTILINE))
    assert table == set(typer.main.get_command(app.app).commands)  # type: ignore[attr-defined]


def test_the_readme_links_to_every_page() -> None:
    text = README.read_text(encoding="utf-8")
    assert [name(page) for page in PAGES[1:] if f"({name(page)})" not in text] == []
