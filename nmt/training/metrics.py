"""`metrics.jsonl`: one JSON object a logged step and one a validation, and TensorBoard's copy of them."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from nmt.errors import NmtError


class Metrics:
    """Appends rows to RUN/metrics.jsonl, cut back first to `size` bytes, what a resumed run had written.

    Without a run (None: a rank that does not write) nothing is written anywhere.
    """

    def __init__(self, run: Path | None, size: int, *, tensorboard: bool):
        self._file, self._board = None, None
        if run is None:
            return
        self._path = run / "metrics.jsonl"
        try:
            self._file = self._path.open("a+b", buffering=0)
            self._file.truncate(min(size, self.size))
        except OSError as error:
            raise self._refused(error) from None
        self._board = _summary_writer(run / "tensorboard") if tensorboard else None

    def write(self, row: dict[str, Any]) -> None:
        """Append one row at once. `row["step"]` places it in TensorBoard. NmtError when the disk refuses."""
        if self._file is None:
            return
        try:
            line = json.dumps(row, allow_nan=False).encode() + b"\n"
            while line:  # a disk that is almost full takes a part, and refuses the rest
                line = line[self._file.write(line) :]
        except OSError as error:
            raise self._refused(error) from None
        if self._board:
            for name, value in row.items():
                if name != "step":
                    self._board.add_scalar(name, value, row["step"])

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.seek(0, 2) if self._file else 0

    def _refused(self, error: OSError) -> NmtError:
        return NmtError(f"{self._path}: cannot be written: {error.strerror}: free some space or mend the folder")

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()
        if self._board:
            self._board.close()


def _summary_writer(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise NmtError(
            "training.tensorboard: true needs TensorBoard: pip install tensorboard, or set it to false"
        ) from None
    return SummaryWriter(str(folder))
