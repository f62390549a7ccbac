"""JSON Lines files that are appended to. In those of a run, each line is an object with the `step` at which it was
written."""

import json
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from nmt.files import atomic
from nmt.files.text import reading

_MOST_STEPS = 2**53  # up to here a float is exact


class JsonLines(ExitStack):
    """Appends rows to a file, which is closed on exit. path None writes nothing, for ranks other than the first."""

    def __init__(self, path: Path | None, size: int | None = None, setting: str = "run_dir"):
        """size: first truncate the file to this number of bytes, its size when the run was saved. setting: that decides
        where the file is, for messages. Raises NmtError if the file cannot be written."""
        super().__init__()
        self._setting = setting
        self._file = None
        if path is None:
            return
        self._path = path
        with atomic.reporting(path, setting):
            self._file = self.enter_context(path.open("a+b", buffering=0))
            if size is not None:
                self._file.truncate(min(size, self.size))

    def write(self, row: dict[str, Any]) -> None:
        """Append one row at once. Raises NmtError if the file cannot be written."""
        if self._file is None:
            return
        line = json.dumps(row, allow_nan=False, ensure_ascii=False).encode() + b"\n"
        with atomic.reporting(self._path, self._setting):
            atomic.write_all(self._file, line)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.seek(0, 2) if self._file else 0


def read(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows of a file, and the numbers (from 1) of damaged lines. A missing file has no rows.

    A row is an object whose `step` is a whole number that a float can hold. A last line without its end is still being
    written: if it is not a row, it does not count as damaged. Raises NmtError if the file cannot be read.
    """
    content = b""
    with reading(path), suppress(FileNotFoundError):
        content = path.read_bytes()
    *lines, rest = content.split(b"\n")
    rows, damaged = [], []
    for line_number, line in enumerate([*lines, rest], start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and type(row.get("step")) is int and 0 <= row["step"] < _MOST_STEPS:
            rows.append(row)
        elif line_number <= len(lines):
            damaged.append(line_number)
    return rows, damaged
