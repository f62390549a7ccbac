"""JSON Lines files that a run appends to: each line is an object with the `step` at which it was written."""

import json
from pathlib import Path
from typing import Any

from nmt.errors import NmtError
from nmt.files import atomic

_MOST_STEPS = 2**53  # up to here a float is exact


class JsonLines:
    """Appends rows to a file. path None writes nothing, for ranks other than the first.

    size: the file is first cut to this many bytes, what the run had written when it was saved; None keeps all of it.
    """

    def __init__(self, path: Path | None, size: int | None = None):
        """Raises NmtError when the file cannot be written."""
        self._file = None
        if path is None:
            return
        self._path = path
        try:
            self._file = path.open("a+b", buffering=0)
            if size is not None:
                self._file.truncate(min(size, self.size))
        except OSError as error:
            raise atomic.not_written(self._path, error, "run_dir") from None

    def write(self, row: dict[str, Any]) -> None:
        """Append one row at once. Raises NmtError when the file cannot be written."""
        if self._file is None:
            return
        try:
            line = json.dumps(row, allow_nan=False, ensure_ascii=False).encode() + b"\n"
            while line:  # a disk that is almost full takes only a part of it
                line = line[self._file.write(line) :]
        except OSError as error:
            raise atomic.not_written(self._path, error, "run_dir") from None

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.seek(0, 2) if self._file else 0

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()


def read(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """The rows of a file, and the numbers (from 1) of damaged lines. A missing file has no rows.

    A row is an object whose `step` is a whole number that a float can hold. A last line without its end is still being
    written: if it is not a row, it does not count as damaged. Raises NmtError when the file cannot be read.
    """
    try:
        *lines, rest = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror}") from None
    rows, damaged = [], []
    for number, line in enumerate([*lines, rest], start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if isinstance(row, dict) and type(row.get("step")) is int and 0 <= row["step"] < _MOST_STEPS:
            rows.append(row)
        elif number <= len(lines):
            damaged.append(number)
    return rows, damaged
