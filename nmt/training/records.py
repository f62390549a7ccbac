"""What a run writes down as it goes: metrics, translations of some validation sentences, and its sessions."""

import datetime
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nmt.files.json_lines import JsonLines
from nmt.training.metrics import Metrics
from nmt.training.state import Progress


class Records:
    """The files that tell how training went. Metrics and samples are cut back to where a resumed run stood.

    `sessions.jsonl` is not: it has a row for each time that training started or went on (`"event": "started"`), and
    one when it stopped to go on later, or finished (`stopped`, `finished`). A session that was killed has none.
    """

    def __init__(self, run: Path | None, progress: Progress, *, tensorboard: bool):
        """run: None on a rank that does not write. Raises NmtError when a file cannot be written."""
        with ExitStack() as opened:
            self.metrics = opened.enter_context(Metrics(run, progress.metrics_bytes, tensorboard=tensorboard))
            self._samples = opened.enter_context(JsonLines(run and run / "samples.jsonl", progress.samples_bytes))
            self._sessions = opened.enter_context(JsonLines(run and run / "sessions.jsonl"))
            self._open = opened.pop_all()

    def sample(self, step: int, samples: Iterable[tuple[str, str, str]]) -> None:
        """Keep (source, reference, translation) of a validation: a row each."""
        for source, reference, translation in samples:
            self._samples.write({"step": step, "source": source, "reference": reference, "translation": translation})

    def start(self, step: int, facts: dict[str, Any]) -> None:
        """A session starts behind this step, 0 for a new run."""
        self._sessions.write({"event": "started", "time": _now(), "step": step, **facts})

    def end(self, step: int, reason: str, *, finished: bool) -> None:
        """It ends after this step; finished: there is nothing more to train."""
        event = "finished" if finished else "stopped"
        self._sessions.write({"event": event, "time": _now(), "step": step, "reason": reason})

    def note_sizes(self, progress: Progress) -> None:
        """Have a state that is about to be saved know how much was written before it."""
        progress.metrics_bytes, progress.samples_bytes = self.metrics.size, self._samples.size

    def __enter__(self) -> "Records":
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


def _now() -> str:
    """The time of day, UTC, as 2017-06-12T17:57:34+00:00."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
