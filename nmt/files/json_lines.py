"""Files of JSON objects, one a line, that a run appends to as it goes: each says at which step it was written."""

import json
from pathlib import Path
from typing import Any

from nmt.errors import NmtError
from nmt.files import atomic

_MOST_STEPS = 2**53


class JsonLines:
    """Appends rows to a file, cut back first to `size` bytes (None: not at all), what a resumed run had written.

    Without a path (None: a rank that does not write) nothing is written anywhere.
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
        """Append one row at once. NmtError when the disk refuses."""
        if self._file is None:
            return
        try:
            line = json.dumps(row, allow_nan=False, ensure_ascii=False).encode() + b"\n"
            while line:  # a disk that is almost full takes a part, and refuses the rest
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
    """The rows of such a file, none where it is missing, and the numbers, from 1, of lines that are damaged.

    A row is an object with a `step`, a whole number that is exact as a float too. A last line that is still being
    written is neither.
    Raises NmtError when the file cannot be read.
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
