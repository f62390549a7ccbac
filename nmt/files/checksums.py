"""Checksums of the files in a folder, in `checksums.json` beside them. They detect damage by a disk or a copy."""

import json
import zlib
from collections.abc import Iterable
from pathlib import Path

from nmt.errors import NmtError
from nmt.files import atomic

FILE = "checksums.json"
_BLOCK = 1 << 22  # bytes read at once


def write(folder: Path, files: Iterable[Path]) -> None:
    """Write the checksums of these files of a folder. Raises OSError if that is not possible."""
    # The file of checksums itself is left out: an interrupted call may have written it.
    sums = {path.name: _checksum(path) for path in sorted(files) if path.name != FILE}
    atomic.write_text(folder / FILE, json.dumps(sums, indent=1) + "\n")


def check(folder: Path) -> None:
    """Raises NmtError, with the file name, for a file that has changed or is missing."""
    advice = f"delete the folder {folder} to make it again"
    for name, expected in _recorded(folder, advice).items():
        path = folder / name
        try:
            checksum = _checksum(path)
        except FileNotFoundError:
            raise NmtError(f"{path}: missing: {advice}") from None
        except OSError as error:
            raise NmtError(f"{path}: cannot be read ({error.strerror}): {advice}") from None
        if checksum != expected:
            raise NmtError(f"{path}: damaged (its checksum is wrong): {advice}")


def _recorded(folder: Path, advice: str) -> dict[str, int]:
    """The checksum of each file."""
    try:
        sums = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NmtError(f"{folder / FILE}: damaged ({error}): {advice}") from None
    if not isinstance(sums, dict) or not sums:
        raise NmtError(f"{folder / FILE}: damaged (it names no files): {advice}")
    return sums


def _checksum(path: Path) -> int:
    """The CRC-32 of a file's bytes: about 2 GB a second, so that reading takes most of the time."""
    total, block = 0, memoryview(bytearray(_BLOCK))
    with path.open("rb", buffering=0) as file:
        while size := file.readinto(block):
            total = zlib.crc32(block[:size], total)
    return total
