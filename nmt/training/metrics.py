"""`metrics.jsonl`: one JSON object a logged step and one a validation, and TensorBoard's copy of them."""

from pathlib import Path
from typing import Any

from nmt.errors import NmtError
from nmt.files.json_lines import JsonLines


class Metrics:
    """Appends rows to RUN/metrics.jsonl, cut back first to `size` bytes, what a resumed run had written.

    Without a run (None: a rank that does not write) nothing is written anywhere.
    """

    def __init__(self, run: Path | None, size: int, *, tensorboard: bool):
        self._lines = JsonLines(run and run / "metrics.jsonl", size)
        self._board = _summary_writer(run / "tensorboard") if run and tensorboard else None

    def write(self, row: dict[str, Any]) -> None:
        """Append one row at once. `row["step"]` places it in TensorBoard. NmtError when the disk refuses."""
        self._lines.write(row)
        if self._board:
            for name, value in row.items():
                if name != "step":
                    self._board.add_scalar(name, value, row["step"])

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._lines.size

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.__exit__()
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
