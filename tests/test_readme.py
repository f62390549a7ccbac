"""The README is short and complete. `test_docs.py` runs its commands and follows its links."""

import re
from pathlib import Path

import pytest
import typer.main

from nmt.cli import app
from nmt.config import schema
from nmt.errors import NmtError

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_newcomer_reads_it_in_three_minutes() -> None:
    assert len(README) <= 8_000


def test_its_table_has_every_command() -> None:
    table = set(re.findall(r"^\| `nmt ([a-z-]+)", README, re.MULTILINE))
    assert table == set(typer.main.get_command(app.app).commands)  # type: ignore[attr-defined]


def test_it_links_to_every_page() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert f"({page.relative_to(ROOT)})" in README, page


def test_the_error_message_shown_is_the_real_one() -> None:
    shown = re.search(r"^error: (configs/multi30k.yaml: .*)$", README, re.MULTILINE)
    assert shown
    with pytest.raises(NmtError) as error:
        schema.load(ROOT / "configs/multi30k.yaml", ["model.dropuot=0.2"])
    assert str(error.value).endswith(shown[1])
