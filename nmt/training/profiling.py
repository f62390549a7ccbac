"""Where the time of a step goes: some steps timed phase by phase, some more traced by PyTorch's profiler."""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError

log = logging.getLogger("nmt")

SKIPPED = 10  # the first steps of a session: caches, compilers and allocators are still at work
TIMED = 20
TRACED = 5  # apart from those timed, since tracing slows them down
PHASES = ("data", "forward", "backward", "optimizer")


class Profile:
    """Times the phases of TIMED steps of a session, traces TRACED more, then says what it found; once.

    In those steps the device is waited for at the end of each phase, so that what it still computes is not
    counted in the next. Before and after them `phase` does nothing.
    """

    def __init__(self, folder: Path, where: torch.device, dtype: torch.dtype, ranks: Ranks) -> None:
        """folder: where each rank writes its trace, RUN/profile; dtype: that of most matrix products."""
        self._folder, self._where, self._dtype, self._ranks = folder, where, dtype, ranks
        self._steps, self._flops, self._start, self._whole = 0, 0.0, 0.0, 0.0
        self._seconds = dict.fromkeys(PHASES, 0.0)
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the tracer speaks of itself
        kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if where.type == "cuda" else [])]
        self._trace = profile(activities=kinds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside as `name`, one of PHASES."""
        if not SKIPPED <= self._steps < SKIPPED + TIMED + TRACED:
            yield
            return
        start = time.perf_counter()
        with record_function(name):
            yield
            self._wait()
        if self._steps < SKIPPED + TIMED:
            self._seconds[name] += time.perf_counter() - start

    def step(self, flops: float) -> None:
        """A step is over, in which all ranks together did so many operations of the model."""
        self._steps += 1
        if SKIPPED < self._steps <= SKIPPED + TIMED:
            self._flops += flops
        if self._steps == SKIPPED:
            self._wait()
            self._start = time.perf_counter()
        elif self._steps == SKIPPED + TIMED:
            self._whole = time.perf_counter() - self._start
            self._trace.start()
        elif self._steps == SKIPPED + TIMED + TRACED:
            self._trace.stop()
            self._report()

    def close(self) -> None:
        """Training is over: say so if it was too short to tell anything."""
        missing = SKIPPED + TIMED + TRACED - self._steps
        if missing > 0:
            if self._steps >= SKIPPED + TIMED:
                self._trace.stop()
            log.warning("--profile: training ended %d steps before the profile did: raise training.max_steps", missing)

    def _report(self) -> None:
        rows = {**self._seconds, "other": self._whole - sum(self._seconds.values())}
        shown = [f"  {name:<13}{1000 * s / TIMED:9.1f} ms  {s / self._whole:6.1%}" for name, s in rows.items()]
        log.info("profile: %.1f ms a step, the mean of %d\n%s", 1000 * self._whole / TIMED, TIMED, "\n".join(shown))
        done, peak = self._flops / self._whole / self._ranks.size, measured_peak(self._where, self._dtype)
        kind = str(self._dtype).removeprefix("torch.")
        log.info(
            "profile: the model's %.3f TFLOP/s a device are %.0f%% of the %.3f that a large %s product reaches here",
            *(done / 1e12, 100 * done / peak, peak / 1e12, kind),
        )
        path = self._folder / f"trace-rank{self._ranks.rank}.json.gz"
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._trace.export_chrome_trace(str(path))
        except OSError as error:
            raise NmtError(
                f"{path}: cannot be written: {error.strerror}: mend the folder, or leave --profile"
            ) from None
        log.info("profile: trace of %d steps in %s (open it in https://ui.perfetto.dev)", TRACED, path)

    def _wait(self) -> None:
        if self._where.type == "cuda":
            torch.cuda.synchronize()


def measured_peak(where: torch.device, dtype: torch.dtype, seconds: float = 0.5) -> float:
    """Floating-point operations a second in the fastest of several products of square matrices, on this device."""
    side = 8192 if where.type == "cuda" else 2048
    a, b = (torch.randn(side, side, device=where).to(dtype) for _ in range(2))
    fastest, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        a @ b
        if where.type == "cuda":
            torch.cuda.synchronize()
        fastest = min(fastest, time.perf_counter() - start)
    return 2 * side**3 / fastest
