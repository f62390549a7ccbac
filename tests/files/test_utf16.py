"""Text in UTF-16 is recognised and read; text in UTF-8 is never taken for it."""

import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.errors import NmtError
from nmt.files.text import decoded_lines, read_lines
from nmt.files.utf16 import as_utf8

SCRIPTS = {
    "Latin": "Größe und Maß, sagte er.",
    "Cyrillic": "Это было давно, сказал он",
    "Greek": "Ήταν πριν πολύ καιρό, είπε",
    "Hindi": "यह बहुत पहले की बात है",
    "Arabic": "كان ذلك منذ زمن بعيد",
    "Chinese": "这是很久以前的事了，一上午。",
    "with emoji": "😀 ok 😀",
}


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_utf16(tmp_path: Path, script: str, encoding: str, caplog: pytest.LogCaptureFixture) -> None:
    """In each order of bytes, with a byte order mark and without, which is said; compressed too."""
    caplog.set_level("INFO", "nmt")
    lines = [f"{SCRIPTS[script]} {number}" for number in range(2000)]
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("".join(f"{line}\r\n" for line in lines).encode(encoding)))
    assert list(read_lines(path)) == lines
    told = f"{path}: read as UTF-16, without a byte order mark"
    assert caplog.messages == ([] if encoding == "utf-16" else [told])


def test_bytes_that_are_not_utf16_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes("\ufeffa text\n".encode("utf-16-le") + b"\0\xdc" + "more".encode("utf-16-le"))
    with pytest.raises(NmtError, match=r"text: not UTF-16-LE: .* after .* bytes: convert it to UTF-8"):
        list(read_lines(path))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text(st.sampled_from("\0\0\0\x04\t\v\x1f aä一😀") | st.characters(codec="utf-8")), max_size=9))
def test_utf8_is_not_taken_for_utf16(lines: list[str]) -> None:
    content = "".join(line.replace("\n", "") + "\n" for line in lines).encode()
    stream = as_utf8(io.BytesIO(b"a NUL \0 or two \0\n" + content), "a file")
    assert next(decoded_lines(stream, "a file")) == "a NUL \0 or two \0"
