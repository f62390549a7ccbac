"""Every picture of the documentation is on a page, and `scripts/draw_pictures.py` draws it."""

import re
from pathlib import Path

from helpers import scripts

ROOT = Path(__file__).parents[1]
PICTURES = ROOT / "docs" / "pictures"


def test_every_picture_is_drawn_by_the_script_and_shown_on_a_page() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"pictures/([\w.-]+)\)", page.read_text(encoding="utf-8"))}
    drawn = [name for drawing in scripts.load("draw_pictures").DRAWINGS for name in drawing.pictures]
    files = {path.name for path in PICTURES.iterdir()}
    assert len(drawn) == len(set(drawn)) and set(drawn) == files == shown


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in PICTURES.iterdir()) < 1_500_000
