"""The reports of a run: metrics, validation translations and sessions in files, and the progress bar."""

import copy
import datetime
import logging
import os
import platform
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from nmt import __version__
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError, current_folder
from nmt.files.json_lines import JsonLines
from nmt.files.packages import install_command
from nmt.machine import usable_cores

log = logging.getLogger("nmt")

OnMetrics = Callable[[dict[str, Any]], object]  # takes a row of metrics.jsonl


class RunLog:
    """Appends to the log files in a run's folder.

    metrics.jsonl: one row per logged step and one per validation; training.tensorboard copies them to TensorBoard.
    samples.jsonl: source, reference and translation of some validation sentences, and their `set` if there are several.
    sessions.jsonl: one row when training starts or resumes (`"event": "started"`), and one when it stops before its end
    (`stopped`) or is done (`finished`). A session that was killed has only the first row.

    A resumed run truncates metrics and samples to their sizes at the time of the saved state. Without a run folder (on
    every rank but the first) nothing is written.
    """

    def __init__(
        self,
        run: Path | None,
        metrics_bytes: int,
        samples_bytes: int,
        *,
        tensorboard: int | None,
        on_metrics: OnMetrics | None = None,
    ):
        """tensorboard: the step from which training continues, or None without TensorBoard, which hides the rows of
        later steps from then on; on_metrics: is called with a copy of each row of metrics. Raises NmtError if a file
        cannot be written, or if TensorBoard is not installed."""
        with ExitStack() as opened:
            self._metrics = opened.enter_context(JsonLines(run and run / "metrics.jsonl", metrics_bytes))
            self._samples = opened.enter_context(JsonLines(run and run / "samples.jsonl", samples_bytes))
            self._sessions = opened.enter_context(JsonLines(run and run / "sessions.jsonl"))
            self._board: Any = None
            self._on_metrics = on_metrics if run else None
            if run and tensorboard is not None:
                self._board = summary_writer()(str(run / "tensorboard"), purge_step=tensorboard + 1)
                opened.callback(self._board.close)
            self._open_files = opened.pop_all()

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of metrics.jsonl and samples.jsonl in bytes, to be saved with the state."""
        return self._metrics.size, self._samples.size

    def metrics(self, row: dict[str, Any]) -> None:
        """Append a row. Its `step` is the x-axis in TensorBoard. Raises NmtError if it cannot be written."""
        self._metrics.write(row)
        if self._board:
            for name, value in _scalars(row):
                self._board.add_scalar(name, value, row["step"])
        if self._on_metrics:
            self._on_metrics(copy.deepcopy(row))

    def samples(self, step: int, samples: Iterable[tuple[str, str, str]], name: str | None = None) -> None:
        """Append (source, reference, translation) of a validation, one row each; name: of the validation set, if there
        are several."""
        origin = {"step": step} if name is None else {"step": step, "set": name}
        for source, reference, translation in samples:
            self._samples.write({**origin, "source": source, "reference": reference, "translation": translation})

    def session(self, event: str, step: int, **facts: Any) -> None:
        """Append a row about the session, which starts or ends after this step. facts: JSON values."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")  # 2017-06-12T17:57:34+00:00
        self._sessions.write({"event": event, "time": now, "step": step, **facts})

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()


def summary_writer() -> Any:
    """TensorBoard's SummaryWriter class. Raises NmtError if the package is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        remedy = f"{install_command('tensorboard')}, or set it to false"
        raise NmtError(f"training.tensorboard: true needs TensorBoard: {remedy}") from None
    return SummaryWriter


def _scalars(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a row except its step. Numbers in a list are named by the item's name or index:
    `corpora/0/share`, `validation/en-de/bleu`."""
    for name, value in row.items():
        if isinstance(value, list):
            for i, item in enumerate(value):
                for key, scalar in item.items():
                    if key != "name" and scalar is not None:
                        yield f"{name}/{item.get('name', i)}/{key}", scalar
        elif name != "step":
            yield name, value


class ProgressBar:
    """Shows step, loss, learning rate, speed and remaining time: as a bar on a terminal, as log lines elsewhere."""

    def __init__(self, step: int, last_step: int, *, hidden: bool):
        """step: steps done so far; last_step: the expected last step. The bar is shown if standard error is a terminal,
        unless `hidden`."""
        self._first_step, self._last_step, self._start = step, last_step, time.monotonic()
        self._bar = tqdm(
            total=max(last_step, step), initial=step, smoothing=0, dynamic_ncols=True, disable=hidden or None,
            bar_format="step {n:,} of {total:,}, {remaining} left{postfix} |{bar}|",  # short on a narrow terminal
        )  # fmt: skip

    @property
    def shown(self) -> bool:
        """Whether the bar is visible. tqdm subtracts 1 from the terminal's height, and shows no bar if it is 0."""
        return not self._bar.disable and (self._bar.nrows or 0) >= 0

    def update(self) -> None:
        """Count a finished step."""
        self._bar.total = max(self._last_step, self._bar.n + 1)  # epochs may be longer than expected
        self._bar.update()

    def show(self, loss: float, learning_rate: float, speed: float) -> None:
        """Show these numbers on the bar; speed: target tokens per second."""
        self._bar.set_postfix_str(f"loss {loss:.3f}, lr {learning_rate:.1e}, {speed:,.0f} tokens/s")

    def log(self, step: int, epoch: int, loss: float, learning_rate: float, speed: float) -> None:
        """Log these numbers and the remaining time. While the bar is shown, the line is written to the log file
        only."""
        seconds_per_step = (time.monotonic() - self._start) / max(1, step - self._first_step)
        remaining = seconds_per_step * max(0, self._last_step - step)
        log.log(
            logging.DEBUG if self.shown else logging.INFO,
            "step %s of %s  epoch %d  loss %.3f  lr %.2e  %s target tokens/s  %s left",
            *(f"{step:,}", f"{max(step, self._last_step):,}", epoch, loss, learning_rate, f"{speed:,.0f}"),
            tqdm.format_interval(remaining),
        )

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def environment(device: torch.device, ranks: Ranks) -> dict[str, Any]:
    """The environment of this rank as JSON values: versions, hardware models, current folder. Never the host name."""
    facts: dict[str, Any] = {
        "nmt": __version__,
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in ("torch", "sentencepiece", "sacrebleu")},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "device": device.type,
        "ranks": ranks.size,
        "folder": current_folder(),
    }
    with suppress(ValueError, OSError):  # not available on every system
        facts["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        memory = round(gpu.total_memory / 2**30, 1)
        facts |= {"gpu": gpu.name, "gpu_memory_gib": memory, "cuda": torch.version.cuda or ""}
    return facts


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model name of the processor, from Linux; on other systems from Python's `platform`."""
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n") if cpuinfo.is_file() else []
    model_names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, [*model_names, platform.processor(), platform.machine()]), "unknown")
