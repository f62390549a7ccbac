"""Measures the time of each phase of a step."""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile, record_function

from nmt.distributed.ranks import Ranks
from nmt.files import atomic
from nmt.models.linear import product

log = logging.getLogger("nmt")

SKIPPED = 10  # the first steps of a session, in which caches, compilers and allocators warm up
TIMED = 20
TRACED = 5  # after the timed steps, because tracing slows steps down
PHASES = ("data", "forward", "backward", "optimizer")  # or `replay`, a whole step as one CUDA graph


class Profile:
    """Times the phases of TIMED steps of a session, traces TRACED more steps, then logs the result once.

    In these steps each phase ends by waiting for the device, so that its work is not counted in the next phase.
    In all other steps `phase` does nothing.
    """

    def __init__(self, folder: Path, where: torch.device, dtype: torch.dtype, ranks: Ranks) -> None:
        """folder: RUN/profile, where each rank writes its trace; dtype: of most matrix products."""
        self._folder, self._where, self._dtype, self._ranks = folder, where, dtype, ranks
        self._steps, self._flops, self._start, self._total = 0, 0.0, 0.0, 0.0
        self._seconds = defaultdict[str, float](float)
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise the tracer logs its own messages
        activities = [ProfilerActivity.CPU]
        if where.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self._trace = profile(activities=activities)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of the block for the phase `name`, one of PHASES."""
        if not SKIPPED <= self._steps < SKIPPED + TIMED + TRACED:
            yield
            return
        start = time.perf_counter()
        with record_function(name):
            yield
            _synchronize(self._where)
        if self._steps < SKIPPED + TIMED:
            self._seconds[name] += time.perf_counter() - start

    def step(self, flops: float) -> None:
        """Count a finished step; flops: the model's floating-point operations in it, summed over all ranks."""
        self._steps += 1
        if SKIPPED < self._steps <= SKIPPED + TIMED:
            self._flops += flops
        if self._steps == SKIPPED:
            _synchronize(self._where)
            self._start = time.perf_counter()
        elif self._steps == SKIPPED + TIMED:
            self._total = time.perf_counter() - self._start
            self._trace.start()
        elif self._steps == SKIPPED + TIMED + TRACED:
            self._trace.stop()
            self._report()

    def close(self) -> None:
        """Call it when training has ended; warns if training was too short for a profile."""
        missing = SKIPPED + TIMED + TRACED - self._steps
        if missing > 0:
            if self._steps >= SKIPPED + TIMED:
                self._trace.stop()
            log.warning(
                "--profile: training ended %d steps before the profile was complete: raise training.max_steps", missing
            )

    def _report(self) -> None:
        rows = {**self._seconds, "other": self._total - sum(self._seconds.values())}
        shown = [f"  {name:<13}{1000 * s / TIMED:9.1f} ms  {s / self._total:6.1%}" for name, s in rows.items()]
        log.info("profile: %.1f ms per step, the mean of %d\n%s", 1000 * self._total / TIMED, TIMED, "\n".join(shown))
        reached, peak = self._flops / self._total / self._ranks.size, measured_peak(self._where, self._dtype)
        log.info(
            "profile: the model reaches %.3f TFLOP/s per device: %.0f%% of the %.3f that a large %s matrix product "
            "reaches here",
            *(reached / 1e12, 100 * reached / peak, peak / 1e12, str(self._dtype).removeprefix("torch.")),
        )
        path = self._folder / f"trace-rank{self._ranks.rank}.json.gz"
        with atomic.reporting(path, "run_dir"):
            self._folder.mkdir(parents=True, exist_ok=True)
            self._trace.export_chrome_trace(str(path))
        log.info("profile: trace of %d steps in %s (open it in https://ui.perfetto.dev)", TRACED, path)


def measured_peak(where: torch.device, dtype: torch.dtype, seconds: float = 0.5) -> float:
    """Floating-point operations per second of the fastest of several square matrix products on this device.

    The matrices grow while a product takes a small part of `seconds`. A product of 2,048 rows in a dtype for which a
    CPU has no instructions would take most of a minute.
    """

    def pair(side: int) -> tuple[Tensor, Tensor]:
        a, b = (torch.randn(side, side, device=where).to(dtype) for _ in range(2))
        _synchronize(where)
        return a, b

    side, largest, highest = 128, 8192 if where.type == "cuda" else 2048, 0.0
    end = time.perf_counter() + seconds
    a, b = pair(side)
    while (remaining := end - time.perf_counter()) > 0:
        start = time.perf_counter()
        product(a, b)
        _synchronize(where)
        elapsed = time.perf_counter() - start
        highest = max(highest, 2 * side**3 / elapsed)
        if side < largest and 10 * elapsed < remaining:
            side *= 2
            a, b = pair(side)
    return highest


def _synchronize(where: torch.device) -> None:
    if where.type == "cuda":
        torch.cuda.synchronize()
