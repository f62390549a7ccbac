"""What pyproject.toml promises: a core for text files, and extras that the messages and the pages name."""

import ast
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib import metadata
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from nmt.files.packages import install_command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CODE = sorted((ROOT / "nmt").rglob("*.py"))
# Modules that are not called like the distribution that brings them.
MODULES = {"pyyaml": "yaml", "backports.zstd": "backports"}


def modules(requirements: list[str]) -> set[str]:
    names = {re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}
    return {MODULES.get(name, name).replace("-", "_") for name in names - {PROJECT["name"]}}


def imported(path: Path) -> set[str]:
    """The packages from elsewhere that a file imports anywhere in it, but for type checkers."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body.clear()
    found = {
        name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [alias.name for alias in node.names])
    }
    return found - set(sys.stdlib_module_names) - {"nmt", "compression"}  # compression: Python 3.14


def test_what_is_imported_is_declared_and_what_is_declared_is_imported() -> None:
    extras = PROJECT["optional-dependencies"]
    everything = [*PROJECT["dependencies"], *chain.from_iterable(extras.values())]
    used = set[str]().union(*map(imported, CODE))
    assert used - modules(everything) == {"starlette", "pydantic_core"}  # fastapi and pydantic are made of them
    assert modules(PROJECT["dependencies"]) - used == set()


def test_every_extra_that_is_named_exists() -> None:
    """In messages and on the pages, which name no package that an extra brings."""
    extras = PROJECT["optional-dependencies"].keys()
    code = "".join(path.read_text(encoding="utf-8") for path in CODE)
    named = set(re.findall(r"install_command\(\"(\w+)\"\)|install_command\('(\w+)'\)", code))
    assert {one or other for one, other in named} == extras - {"all", "dev"}
    for extra in sorted(extras):
        assert install_command(extra) == f"pip install '{PROJECT['name']}[{extra}]'"
    pages = [ROOT / "README.md", ROOT / "PACKAGE.md", *(ROOT / "docs").rglob("*.md"), ROOT / "configs" / "README.md"]
    for page in pages:
        for given in re.findall(rf"{PROJECT['name']}\[([\w,]+)\]", page.read_text(encoding="utf-8")):
            assert set(given.split(",")) <= extras, page


def requirements(extra: str) -> list[str]:
    """Those of the core and of an extra, with those of the extras that it names."""
    own = PROJECT["optional-dependencies"].get(extra, [])
    inner = [name for one in own if one.startswith(PROJECT["name"]) for name in one.partition("[")[2][:-1].split(",")]
    of_inner = chain.from_iterable(map(requirements, inner))
    return [*PROJECT["dependencies"], *(one for one in own if not one.startswith(PROJECT["name"])), *of_inner]


def test_the_constraints_are_versions_with_which_every_extra_can_be_installed() -> None:
    """All together, so no extra contradicts the core. What a package that is installed here asks for counts too."""
    text = (ROOT / "scripts" / "constraints.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"(?m)^([\w.-]+)==(\S+)$", text)
    versions = {canonicalize_name(name): version for name, version in pinned}
    direct = {one for extra in PROJECT["optional-dependencies"] for one in requirements(extra)}
    left, checked = [(Requirement(one), frozenset({""})) for one in direct], set[str]()
    while left:
        one, extras = left.pop()
        name = canonicalize_name(one.name)
        if str(one) in checked or (one.marker and not any(one.marker.evaluate({"extra": extra}) for extra in extras)):
            continue
        checked.add(str(one))
        assert name in versions or str(one) not in direct, f"{one}: scripts/constraints.txt has no version of it"
        assert name not in versions or one.specifier.contains(versions[name], prereleases=True), (
            f"{one}: {versions[name]}"
        )
        with suppress(metadata.PackageNotFoundError):
            left += [(Requirement(inner), frozenset({"", *one.extras})) for inner in metadata.requires(name) or ()]
    assert len(checked) > len(direct)


def test_the_page_of_the_package_index_needs_no_other_file() -> None:
    page = (ROOT / PROJECT["readme"]).read_text(encoding="utf-8")
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)]+)\)", page))
    assert [*re.findall(r"^\| `(\w+)`", page, re.MULTILINE), "dev"] == list(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("arguments", [["--help"], ["translate", "model", "input"]])
def test_where_nmt_does_not_run_it_says_so_in_one_line(arguments: list[str]) -> None:
    script = "import sys; sys.modules['fcntl'] = None; from nmt.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch("error: nmt runs on Linux and macOS: on Windows, .*\n", done.stderr)
