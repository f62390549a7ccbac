"""What is written for a line."""

import json
from dataclasses import replace

from nmt.commands.output_format import OutputFormat, score_row
from nmt.decoding.translator import Translation

ONE = Translation("ein „Hund“", -1.25, -2.5, ["▁ein", "</s>"], [-2.0, -0.5])
TWO = Translation("b", -2.0, -4.0, ["▁b", "</s>"], [-3.0, -1.0], ["▁a", "</s>"], [[0.75, 0.25], [0.5, 0.5]])


def test_text() -> None:
    assert OutputFormat(scores=True).to_text(7, "a", [ONE, TWO]) == "-1.250000\tein „Hund“\n-2.000000\tb"
    assert OutputFormat(n_best=2).to_text(7, "a", [ONE, TWO]) == "7\t-1.250000\tein „Hund“\n7\t-2.000000\tb"
    assert score_row(7, ONE, "text") == "-1.250000\t-2.500000\t-1.250000"


def test_a_table_has_four_columns() -> None:
    """Protected text can have a tab or a line separator, also in a translation."""
    best = replace(ONE, text="x\ty\u2028z", confidence=9.0)
    assert OutputFormat(table="input").to_text(7, "a\tb", [best]) == "7\t9.0\ta b\tx y z"


def test_json_says_all_there_is() -> None:
    row = OutputFormat(json=True).to_text(7, "a", [ONE, TWO])
    assert "\n" not in row and "„" in row
    found = json.loads(row)
    assert found["line"] == 7
    assert "alignment" not in found["translations"][0]
    assert Translation(**found["translations"][0]) == ONE
    assert Translation(**found["translations"][1]) == TWO
    assert json.loads(score_row(7, TWO, "json")) == {"line": 7, "translations": [found["translations"][1]]}
