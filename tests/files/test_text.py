"""Lines of two files side by side, and hashes of values."""

from pathlib import Path

import pytest

from nmt.errors import NmtError
from nmt.files.text import content_key, line_pairs


@pytest.mark.parametrize("lines", [0, 3, 2001])
def test_pairs_of_lines(tmp_path: Path, lines: int) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_text("".join(f"a{i}\n" for i in range(lines)), encoding="utf-8")
    target.write_text("".join(f"b{i}\n" for i in range(lines)), encoding="utf-8")
    assert list(line_pairs(source, target)) == [(f"a{i}", f"b{i}") for i in range(lines)]
    with target.open("a", encoding="utf-8") as file:
        file.write("more\n" * 2000)
    with pytest.raises(NmtError, match=f"a has {lines:,} lines and .*b has {lines + 2000:,}: each line needs"):
        list(line_pairs(source, target))
    with pytest.raises(NmtError, match=f"b has {lines + 2000:,} lines and .*a has {lines:,}: each line needs"):
        list(line_pairs(target, source))


def test_key_follows_the_parts() -> None:
    key = content_key(1, ["a", None], {"x": 1, "y": 2.5})
    assert key == content_key(1, ["a", None], {"y": 2.5, "x": 1})
    assert len(key) == 16
    different = [(1, ["a", None]), (1, ["a", "None"], {"x": 1, "y": 2.5}), ("1", ["a", None], {"x": 1, "y": 2.5})]
    assert len({key, *(content_key(*parts) for parts in different)}) == 4
