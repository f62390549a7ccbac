"""What is written for a line."""

import json
from pathlib import Path

import pytest

from nmt.commands import output_format
from nmt.decoding.chunks import CHUNK_LINES
from nmt.decoding.translator import Translation
from nmt.errors import NmtError

ONE = Translation("ein „Hund“", -1.25, -2.5, ["▁ein", "</s>"], [-2.0, -0.5])
TWO = Translation("b", -2.0, -4.0, ["▁b", "</s>"], [-3.0, -1.0], ["▁a", "</s>"], [[0.75, 0.25], [0.5, 0.5]])


def test_text() -> None:
    assert output_format.of(7, [ONE, TWO], "text", numbered=False) == ["-1.250000\tein „Hund“", "-2.000000\tb"]
    assert output_format.of(7, [ONE, TWO], "text", numbered=True) == ["7\t-1.250000\tein „Hund“", "7\t-2.000000\tb"]
    assert output_format.scored(7, ONE, "text") == "-1.250000\t-2.500000\t-1.250000"


def test_json_says_all_there_is() -> None:
    [row] = output_format.of(7, [ONE, TWO], "json", numbered=True)
    assert "\n" not in row and "„" in row
    found = json.loads(row)
    assert found["line"] == 7
    assert "alignment" not in found["translations"][0]
    assert Translation(**found["translations"][0]) == ONE
    assert Translation(**found["translations"][1]) == TWO
    assert json.loads(output_format.scored(7, TWO, "json")) == {"line": 7, "translations": [found["translations"][1]]}


@pytest.mark.parametrize("lines", [0, 3, CHUNK_LINES, CHUNK_LINES + 1])
def test_pairs_of_lines(tmp_path: Path, lines: int) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("".join(f"a{i}\n" for i in range(lines)), encoding="utf-8")
    target.write_text("".join(f"b{i}\n" for i in range(lines)), encoding="utf-8")
    found = list(output_format.pairs(source, target))
    assert [line for _, (chunk, _) in found for line in chunk] == [f"a{i}" for i in range(lines)]
    assert [line for _, (_, chunk) in found for line in chunk] == [f"b{i}" for i in range(lines)]
    assert [first for first, _ in found] == list(range(1, lines + 1, CHUNK_LINES))
    with target.open("a", encoding="utf-8") as file:
        file.write("more\n")
    with pytest.raises(NmtError, match=f"a: ends after line {lines:,}, and the other does not"):
        list(output_format.pairs(source, target))
