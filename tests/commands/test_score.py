"""Lines of two files, side by side."""

from pathlib import Path

import pytest

from nmt.commands.score import line_pairs
from nmt.decoding.chunks import CHUNK_LINES
from nmt.errors import NmtError


@pytest.mark.parametrize("lines", [0, 3, CHUNK_LINES, CHUNK_LINES + 1])
def test_pairs_of_lines(tmp_path: Path, lines: int) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("".join(f"a{i}\n" for i in range(lines)), encoding="utf-8")
    target.write_text("".join(f"b{i}\n" for i in range(lines)), encoding="utf-8")
    assert list(line_pairs(source, target)) == [(f"a{i}", f"b{i}") for i in range(lines)]
    with target.open("a", encoding="utf-8") as file:
        file.write("more\n" * CHUNK_LINES)
    with pytest.raises(NmtError, match=f"a has {lines:,} lines and .*b has {lines + CHUNK_LINES:,}: each line needs"):
        list(line_pairs(source, target))
    with pytest.raises(NmtError, match=f"b has {lines + CHUNK_LINES:,} lines and .*a has {lines:,}: each line needs"):
        list(line_pairs(target, source))
