"""What a run reports: metrics, validation translations and sessions in files, its progress to the user."""

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

    metrics.jsonl: one row per logged step and one per validation, copied to TensorBoard if wanted.
    samples.jsonl: source, reference and translation of some validation sentences, and with several sets their `set`.
    sessions.jsonl: one row each time training starts or resumes (`"event": "started"`), and one when it stops to be
    resumed later (`stopped`) or is done (`finished`). A session that was killed has only the first.

    A resumed run truncates metrics and samples to the size that they had when its state was saved. Without a run
    folder (on every rank but the first) nothing is written.
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
        """tensorboard: the step from which training goes on, where rows are copied to TensorBoard, which then hides
        those of later steps; on_metrics: is called with a copy of each row of metrics. Raises NmtError when a file
        cannot be written, or TensorBoard is not installed."""
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
        """Bytes in metrics.jsonl and samples.jsonl, to be saved with the state."""
        return self._metrics.size, self._samples.size

    def metrics(self, row: dict[str, Any]) -> None:
        """Append a row, whose `step` is the x-axis in TensorBoard. Raises NmtError when it cannot be written."""
        self._metrics.write(row)
        if self._board:
            for name, value in _scalars(row):
                self._board.add_scalar(name, value, row["step"])
        if self._on_metrics:
            self._on_metrics(copy.deepcopy(row))

    def samples(self, step: int, samples: Iterable[tuple[str, str, str]], name: str | None = None) -> None:
        """Append (source, reference, translation) of a validation, one row each; name: of the set, if there are
        several."""
        of = {"step": step} if name is None else {"step": step, "set": name}
        for source, reference, translation in samples:
            self._samples.write({**of, "source": source, "reference": reference, "translation": translation})

    def session(self, event: str, step: int, **facts: Any) -> None:
        """Append a row about the session: it starts or ends after this step. facts: JSON values."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")  # 2017-06-12T17:57:34+00:00
        self._sessions.write({"event": event, "time": now, "step": step, **facts})

    def __enter__(self) -> "RunLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._open_files.close()


def summary_writer() -> Any:
    """TensorBoard's class for writing. Raises NmtError if the package is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        remedy = f"{install_command('tensorboard')}, or set it to false"
        raise NmtError(f"training.tensorboard: true needs TensorBoard: {remedy}") from None
    return SummaryWriter


def _scalars(row: dict[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a row but its step. Those in a list are named by their place, or their own name:
    `corpora/0/share`, `validation/en-de/bleu`."""
    for name, value in row.items():
        if isinstance(value, list):
            for place, item in enumerate(value):
                inner = {key: number for key, number in item.items() if key != "name" and number is not None}
                yield from ((f"{name}/{item.get('name', place)}/{key}", number) for key, number in inner.items())
        elif name != "step":
            yield name, value


class ProgressBar:
    """Step N of M, loss, learning rate, speed and time left: a bar on a terminal, log lines elsewhere."""

    def __init__(self, step: int, last_step: int, *, hidden: bool):
        """step: steps done so far; last_step: where training is expected to end. The bar is shown if standard error is
        a terminal, and not `hidden`."""
        self._first_step, self._last_step, self._start = step, last_step, time.monotonic()
        self._bar = tqdm(
            total=max(last_step, step), initial=step, smoothing=0, dynamic_ncols=True, disable=hidden or None,
            bar_format="step {n:,} of {total:,}, {remaining} left{postfix} |{bar}|",  # short on a narrow terminal
        )  # fmt: skip

    @property
    def shown(self) -> bool:
        """Whether there is a bar. tqdm shows none on a terminal with a height of 0, of which it takes 1 away."""
        return not self._bar.disable and (self._bar.nrows or 0) >= 0

    def update(self) -> None:
        """One more step is done."""
        self._bar.total = max(self._last_step, self._bar.n + 1)  # epochs may be longer than expected
        self._bar.update()

    def show(self, loss: float, learning_rate: float, speed: float) -> None:
        """Show these on the bar; speed: target tokens per second."""
        self._bar.set_postfix_str(f"loss {loss:.3f}, lr {learning_rate:.1e}, {speed:,.0f} tokens/s")

    def log(self, step: int, epoch: int, loss: float, learning_rate: float, speed: float) -> None:
        """Log these and the time left. While the bar is shown the line goes only to the log file."""
        left = (time.monotonic() - self._start) / max(1, step - self._first_step) * max(0, self._last_step - step)
        log.log(
            logging.DEBUG if self.shown else logging.INFO,
            "step %s of %s  epoch %d  loss %.3f  lr %.2e  %s target tokens/s  %s left",
            *(f"{step:,}", f"{max(step, self._last_step):,}", epoch, loss, learning_rate, f"{speed:,.0f}"),
            tqdm.format_interval(left),
        )

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()


def environment(device: torch.device, ranks: Ranks) -> dict[str, Any]:
    """What this rank runs on, as JSON values: versions, hardware models (never the machine's name), current folder."""
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
    with suppress(ValueError, OSError):  # not known on every system
        facts["memory_gib"] = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        memory = round(gpu.total_memory / 2**30, 1)
        facts |= {"gpu": gpu.name, "gpu_memory_gib": memory, "cuda": torch.version.cuda or ""}
    return facts


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the processor, from Linux; elsewhere what Python knows about it."""
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n") if cpuinfo.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, [*named, platform.processor(), platform.machine()]), "unknown")
