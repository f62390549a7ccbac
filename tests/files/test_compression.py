"""Compressed files: their content comes out, and a damaged one is refused with its name."""

import io
import random
import sys
import tracemalloc
from pathlib import Path

import pytest
from helpers.compressed import COMPRESS

from nmt.errors import NmtError
from nmt.files import compression
from nmt.files.text import file_digest, opened, read_lines

LINES = [f"{number} größer 😀" for number in range(3000)]
CONTENT = "".join(f"{line}\n" for line in LINES).encode()
KINDS = {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2", ".zst": "Zstandard"}


@pytest.mark.parametrize("ending", compression.ENDINGS)
def test_lines_and_digest(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the content is longer than a block, and if the file is several streams, as parallel compressors write."""
    monkeypatch.setattr(compression, "BLOCK_BYTES", 1000)
    path = tmp_path / f"text{ending}"
    for cuts in ([], [0], [1], [5000, 5000], [len(CONTENT)]):
        parts = [CONTENT[a:b] for a, b in zip([0, *cuts], [*cuts, len(CONTENT)], strict=True)]
        path.write_bytes(b"".join(map(COMPRESS[ending], parts)))
        digests: dict[Path, str] = {}
        assert list(read_lines(path, digests)) == LINES
        assert digests == {path: file_digest(path)}


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize("name", ["text", "text.GZ"])
def test_what_a_file_is_compressed_with_is_in_its_content(
    tmp_path: Path, ending: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever its name; one that says something else is told."""
    caplog.set_level("INFO", "nmt")
    path = tmp_path / name
    path.write_bytes(COMPRESS[ending](CONTENT))
    assert list(read_lines(path)) == LINES
    told = f"{path}: is compressed with {KINDS[ending]}, though its name does not end in {ending}"
    assert caplog.messages == ([] if name.lower().endswith(ending) else [told])


def damages(whole: bytes) -> dict[str, bytes]:
    half = len(whole) // 2
    return {
        "truncated": whole[:half],
        "without its end": whole[:-1],
        "a byte changed": whole[:half] + bytes([whole[half] ^ 255]) + whole[half + 1 :],
        "another kind": b"plain text\n" * 100,
        "followed by something else": whole + b"plain text\n" * 100,
        "followed by a truncated stream": whole + whole[:half],
        "followed by a damaged stream": whole + bytes([whole[0] ^ 255]) + whole[1:],
    }


@pytest.mark.parametrize("damage", damages(CONTENT))
@pytest.mark.parametrize("ending", COMPRESS)
def test_damaged_files_are_refused(tmp_path: Path, ending: str, damage: str) -> None:
    random_text = random.Random(1).randbytes(3000).hex().encode()
    path = tmp_path / f"text{ending}"
    path.write_bytes(damages(COMPRESS[ending](random_text))[damage])
    with pytest.raises(NmtError, match=f"text{ending}: damaged {KINDS[ending]} file .*: download or compress") as error:
        list(read_lines(path))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ending", [".xz", ".zst"])
def test_memory_is_bounded(tmp_path: Path, ending: str) -> None:
    """A small file of a large content is decompressed in parts, not at once."""
    path = tmp_path / f"bomb{ending}"
    path.write_bytes(COMPRESS[ending](bytes(40_000_000)))
    tracemalloc.start()
    try:
        with opened(path) as stream:
            assert sum(len(block) for block in iter(lambda: stream.read(100_000), b"")) == 40_000_000
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_library_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lzma", None)  # so that its import fails
    with (
        pytest.raises(NmtError, match=r"text.xz: reading .xz files needs .*Python with lzma"),
        compression.decompressed(io.BytesIO(), Path("text.xz")),
    ):
        pass
