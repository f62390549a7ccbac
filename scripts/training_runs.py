"""Train the runs of a grid, several at the same time, and stop the worse rows early.

Each run is trained by `nmt train` in a process of its own, and can be resumed. Stopping early is successive halving
(Jamieson and Talwalkar 2016, "Non-stochastic Best Arm Identification and Hyperparameter Optimization"): all rows are
trained for some steps, the better half for more steps, and so on. What was stopped can be continued later.
"""

import logging
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from nmt.device import usable_cores
from nmt.distributed.environment import LAUNCHER
from nmt.distributed.stopping import SIGNALS, log_from_handler
from nmt.errors import NmtError
from nmt.files import atomic, json_lines

if TYPE_CHECKING:
    from grid import Run

log = logging.getLogger("nmt")

_POLL = 0.2  # seconds


class Launch(NamedTuple):
    """How runs are trained: on which device, by how many ranks each (None: in one process), how many at a time."""

    device: str
    ranks: int | None = None
    jobs: int = 1


class Stopped(NamedTuple):
    """A row that was stopped early: after a validation at this step, with this BLEU until then."""

    step: int
    bleu: float


def train(runs: Sequence["Run"], launch: Launch, until: int | None = None) -> Iterator["Run"]:
    """Train or resume the runs, in their order; gives each as soon as it is finished or, with `until`, has validated at
    that step or later. A run that fails is logged and not given; the others are trained all the same.

    Signals that would stop this process are sent to all runs, so that they save their states; then typer.Exit is
    raised. What is not finished is logged, then and at the beginning. Raises NmtError, before anything is trained,
    while another command trains one of the runs.
    """
    waiting = [run for run in runs if until is None or not reached(run, until)]
    for run in waiting:
        _check_free(run)
    running: dict[Run, subprocess.Popen[str]] = {}
    stopping: set[Run] = set()  # they have come far enough
    if waiting:
        what = "not finished" if until is None else f"to be compared after step {until:,}"
        log.info("%s: %s", what, _steps_of(waiting))
    yield from (run for run in runs if run not in waiting)
    try:
        while waiting or running:
            with _passing_on(running) as heard:
                while waiting and len(running) < launch.jobs and not heard:
                    run = waiting.pop(0)
                    running[run] = _start(run, launch)
                    if heard:  # while it was started: it was not among those that were told
                        running[run].send_signal(heard[0])
                while not (ended := [run for run, process in running.items() if process.poll() is not None]):
                    time.sleep(_POLL)
                    far_enough = {run for run in running if until is not None and reached(run, until)} - stopping
                    for run in far_enough:
                        running[run].send_signal(signal.SIGTERM)
                    stopping |= far_enough
                trained = [run for run in ended if _succeeded(run, running[run], until, launch)]
            for run in ended:
                del running[run]
            for run in trained:
                with ending_on_sigterm():  # Ctrl-C is an exception anyway
                    yield run
    finally:  # of an exception here, of a run, or in what the caller does with one
        for process in running.values():
            process.send_signal(signal.SIGTERM)
        for process in running.values():
            process.wait()
        if left := [*running, *waiting]:
            log.info("not finished: %s", _steps_of(left))


def _check_free(run: "Run") -> None:
    """Raises NmtError while another process trains the run."""
    try:
        with suppress(OSError), atomic.locked(run.folder / "state"):  # OSError: such as a run that has not begun
            pass
    except atomic.HeldByAnother:
        raise NmtError(
            f"row {run.row.row}: another command is training it in {run.folder}: wait for it, or leave the row out "
            "with --rows"
        ) from None


def _steps_of(runs: Sequence["Run"]) -> str:
    """The runs, each with the last step that it has logged."""
    shown = []
    for run in runs:
        step = 0
        with suppress(NmtError, OSError):  # what is damaged is reported where it matters
            step = max((row["step"] for row in metrics(run)), default=0)
        shown.append(f"{run.row.row} seed {run.seed} (step {step:,} of {run.config.training.max_steps:,})")
    return ", ".join(shown)


@contextmanager
def _passing_on(running: dict["Run", "subprocess.Popen[str]"]) -> Iterator[list[int]]:
    """Send signals to all runs; raises typer.Exit after one, when the runs have ended or are where they should be.

    Gives the list of the signals that were received.
    """
    heard: list[int] = []

    def pass_on(number: int, _: FrameType | None) -> None:
        if not heard:
            name = signal.Signals(number).name
            log_from_handler(f"{name}: the runs save their states; the same command continues them")
        heard.append(number)
        for process in running.values():
            process.send_signal(number)

    not_ignored = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]  # nohup ignores some
    before = {number: signal.signal(number, pass_on) for number in not_ignored}
    try:
        yield heard
        if heard:
            raise typer.Exit(128 + heard[0])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def ending_on_sigterm() -> Iterator[None]:
    """SIGTERM raises SystemExit, so that what was started here is ended too."""

    def end(number: int, _: FrameType | None) -> None:
        sys.exit(128 + number)

    before = signal.getsignal(signal.SIGTERM)
    if before == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        if before == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, before)


def _start(run: "Run", launch: Launch) -> "subprocess.Popen[str]":
    arguments = ["train", str(run.file), *run.overrides, "--device", launch.device]
    arguments += [] if launch.ranks is None else ["--nproc-per-node", str(launch.ranks)]
    log.info("nmt %s", shlex.join(arguments))
    environment = os.environ | {LAUNCHER: str(os.getpid())}
    if launch.jobs > 1:
        environment.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // launch.jobs)))
    command = [sys.executable, "-m", "nmt", *arguments]
    with ExitStack() as stack:
        output = None
        if launch.jobs > 1:  # the lines of several runs together could not be read
            path = _log_file(run)
            log.info("%s seed %d: its output is in %s", run.row.row, run.seed, path)
            path.parent.mkdir(parents=True, exist_ok=True)
            output = stack.enter_context(path.open("a", encoding="utf-8"))
        # In a new session, so that it gets Ctrl-C at a terminal only once, from this process.
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=output, text=True, start_new_session=True, env=environment
        )


def _log_file(run: "Run") -> Path:
    return run.folder.with_name(f"{run.folder.name}.log")


def _succeeded(run: "Run", process: "subprocess.Popen[str]", until: int | None, launch: Launch) -> bool:
    """Whether it is finished, or has validated at `until`; if not, this is logged with the reason."""
    printed, _ = process.communicate()
    status = process.returncode
    failed = status in (1, 2)
    if not failed and (printed.strip() or (until is not None and reached(run, until))):  # finished, it prints a path
        return True
    if not failed:
        reason = f"ended by signal {-status}" if status < 0 else "stopped before its end"
    elif launch.jobs > 1:
        last_line = _log_file(run).read_text(encoding="utf-8").strip().rpartition("\n")[2]
        reason = f"failed: {last_line.removeprefix('error: ')}"
    else:
        reason = "failed, see above"
    log.warning("%s seed %d: %s", run.row.row, run.seed, reason)
    return False


def metrics(run: "Run") -> list[dict[str, Any]]:
    """The rows of its metrics.jsonl until now. Raises NmtError for a damaged line."""
    path = run.folder / "metrics.jsonl"
    rows, damaged = json_lines.read(path)
    if damaged:
        raise NmtError(f"{path}: line {damaged[0]}: not a row of metrics: delete {run.folder}, and it is trained again")
    return rows


def validations(run: "Run") -> list[dict[str, Any]]:
    """Its validations until now, as metrics.jsonl has them, without that of the model that it started from."""
    return [row for row in metrics(run) if "validation_loss" in row and row["step"] > 0]


def reached(run: "Run", step: int) -> bool:
    """Whether it was validated at this step or later."""
    return any(row["step"] >= step for row in validations(run))


# ------------------------------------------------------------------------ successive halving


def check_halving(runs: Sequence["Run"], steps: Sequence[int]) -> None:
    """Raises NmtError if rows cannot be compared after these steps."""
    if list(steps) != sorted(set(steps)):
        raise NmtError(f"--halve {','.join(map(str, steps))}: give each step once, the smallest first")
    for run in runs:
        training = run.config.training
        if not training.validation_bleu:
            raise NmtError(f"--halve: row {run.row.row} has training.validation_bleu=false: rows are compared by BLEU")
        for step in steps:
            if step % training.validate_every or not 0 < step < training.max_steps:
                raise NmtError(
                    f"--halve {step}: row {run.row.row} has no validation then, or is finished: give a multiple of "
                    f"training.validate_every={training.validate_every}, below training.max_steps={training.max_steps}"
                )


def halved(runs: Sequence["Run"], steps: Sequence[int], launch: Launch) -> tuple[list["Run"], dict[str, Stopped]]:
    """Train all runs until a validation at the first of the steps, then the first row, with which the others are
    compared, and the better half of the others until the second, and so on. Gives the runs that remain, and the rows
    that were stopped. A row of which a run fails does not remain.

    A row is as good as its best validation BLEU until that step, the mean over its seeds; of equal ones the row with
    the lower validation loss is better.
    """
    first, left, stopped = runs[0].row.row, list(runs), dict[str, Stopped]()
    for step in steps:
        trained = set(train(left, launch, step))
        failed = {run.row.row for run in left if run not in trained}
        left = [run for run in left if run.row.row not in failed]
        rows = list(dict.fromkeys(run.row.row for run in left))
        if not rows:
            break
        means = {row: _means([run for run in left if run.row.row == row], step) for row in rows}
        bleu = {row: mean for row, (mean, _) in means.items()}
        others = sorted(set(rows) - {first}, key=lambda row: (-means[row][0], means[row][1], rows.index(row)))
        kept = {first, *others[: math.ceil(len(others) / 2)]}
        stopped |= {row: Stopped(step, bleu[row]) for row in rows if row not in kept}
        left = [run for run in left if run.row.row in kept]
        for row in sorted(rows, key=bleu.__getitem__, reverse=True):
            fate = "goes on" if row in kept else "stopped"
            log.info("step %d: %s: BLEU %.2f, validation loss %.4f: %s", step, row, *means[row], fate)
    return left, stopped


def _means(runs: Sequence["Run"], step: int) -> tuple[float, float]:
    """The best validation BLEU and loss until this step, the means of the runs."""
    until = [[row for row in validations(run) if row["step"] <= step] for run in runs]
    bleu = math.fsum(max(row["bleu"] for row in rows) for rows in until) / len(runs)
    return bleu, math.fsum(min(row["validation_loss"] for row in rows) for rows in until) / len(runs)
