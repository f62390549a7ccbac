"""Aligned tables."""

from nmt.files.table import table

ROWS = [["name", "loss", "note"], ["last 5", "1.25", "x"], ["ema", "12.50", ""]]


def test_the_first_column_is_aligned_to_the_left_and_the_others_to_the_right() -> None:
    assert table(ROWS).split("\n") == ["name     loss  note", "last 5   1.25     x", "ema     12.50"]
    assert table(ROWS, left=(0, 2)).split("\n")[1] == "last 5   1.25  x"


def test_a_rule_and_a_mark() -> None:
    assert table(ROWS, rule=True, mark=2).split("\n") == [
        "  name     loss  note", "-" * 21, "  last 5   1.25     x", "* ema     12.50",
    ]  # fmt: skip
