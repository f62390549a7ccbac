"""The devices that PyTorch computes on."""

import contextlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmt.errors import NmtError
from nmt.machine import usable_cores

log = logging.getLogger("nmt")

# For `SharedCores`: seconds between two looks; the part of a core that others may take before a thread is given up; and
# seconds for which cores must be free before they are used again.
_WATCHED, _TAKEN_LITTLE, _FREE_FOR = 3.0, 0.3, 10.0
# In the errors of PyTorch on CPUs and GPUs, of CTranslate2 and of C++.
_OUT_OF_MEMORY = re.compile("out of memory|not enough memory|can't allocate memory|bad_alloc", re.IGNORECASE)
# In those of CUDA, whether PyTorch or Triton reports them.
_FAULT = re.compile(
    "illegal (memory access|address|instruction)|launch failure|misaligned address|device-side assert", re.IGNORECASE
)


def choose(name: str) -> torch.device:
    """The device `cpu`, `cuda`, `cuda:N`, `mps` or `auto` (the best one here). Raises NmtError if there is none.

    A CUDA device becomes PyTorch's current one: what measures memory or waits for a device uses that.
    """
    if name == "auto":
        if torch.cuda.is_available():
            return choose("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]+)?", name):
        raise NmtError(f"--device {name}: choose cpu, cuda, cuda:N, mps or auto")
    kind, _, index = name.partition(":")
    if kind == "cuda" and (not torch.cuda.is_available() or int(index or 0) >= torch.cuda.device_count()):
        count = torch.cuda.device_count()
        raise NmtError(f"--device {name}: PyTorch finds {count} CUDA devices: choose another device, or auto")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise NmtError(f"--device {name}: PyTorch finds no Apple GPU: choose cpu or auto")
    if kind != "cuda":
        return torch.device(kind)
    where = torch.device(kind, int(index or 0))
    torch.cuda.set_device(where)
    return where


def runs_ahead(device: torch.device) -> bool:
    """Whether operations are only queued on this device: the program goes on until it reads a result."""
    return device.type == "cuda"


class LateCopy:
    """A copy on the host of a tensor on a device, made behind all that is queued there so far.

    A program that waits for it only after it has queued more work leaves no gap in the work of the device.
    """

    def __init__(self, x: Tensor):
        self._copy = x.to("cpu", non_blocking=True)  # into pinned memory
        self._done = torch.cuda.Event() if x.is_cuda else None  # type: ignore[no-untyped-call]
        if self._done is not None:
            self._done.record(torch.cuda.current_stream(x.device))  # of this device: another may be the current one

    def wait(self) -> Any:
        """The number, or the list of numbers, once it is there."""
        if self._done is not None:
            self._done.synchronize()
        return self._copy.tolist()


def from_host(x: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device. The program does not wait until it is there."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def is_cpu(name: str) -> bool:
    """Whether `choose` would choose the CPU."""
    return name == "cpu" or choose(name).type == "cpu"


@contextlib.contextmanager
def explaining_out_of_memory(message: Callable[[], str]) -> Iterator[None]:
    """If memory runs out inside, of a GPU or of the machine, raise NmtError with this message instead."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(str(error)):
            raise
        raise NmtError(message()) from None


def is_device_fault(error: BaseException) -> bool:
    """Whether a program on the GPU has failed, such as by an illegal memory access: afterwards this process cannot use
    the GPU any more, and every later operation fails too."""
    return _FAULT.search(str(error)) is not None


class SharedCores:
    """Keeps PyTorch from computing with more threads than other programs leave cores for.

    Threads that compute together wait for one another many times in a step. If one of them has no core, all wait, and
    by default they take the others' time while they wait: training can become many times slower. So other programs get
    their cores, and the others are used. Only on Linux, which says how long each core was busy.
    """

    def __init__(self, device: torch.device, processes: int, *, adapts: bool) -> None:
        """processes: that compute together. For several, and where OMP_NUM_THREADS is set, nothing is changed. adapts:
        whether the number of threads may change; if not, a warning says once that other programs slow this one down.
        """
        self.threads, self._adapts, self._warned = torch.get_num_threads(), adapts, False  # threads: the most
        self._free_since = 0.0
        alone = device.type == "cpu" and processes == 1 and "OMP_NUM_THREADS" not in os.environ
        self._last = _core_times() if alone else None

    def adapt(self) -> None:
        """Set the number of threads by what happened since the last call; to be called between two computations.

        Fewer threads at once; more only when the cores were free for a while, as a wrong try costs a slow step.
        """
        if self._last is None or time.monotonic() - self._last.now < _WATCHED or (new := _core_times()) is None:
            return
        old, self._last = self._last, new
        seconds = new.now - old.now
        by_others = max(0.0, (new.busy - old.busy - new.own + old.own) / seconds)
        free = usable_cores() - by_others
        threads, before = max(1, min(self.threads, int(free + _TAKEN_LITTLE))), torch.get_num_threads()
        if not self._adapts:
            self._warn(by_others, slower=threads < before)
            return
        if threads <= before:
            self._free_since = new.now
        if threads < before or new.now - self._free_since > _FREE_FOR:
            torch.set_num_threads(threads)
            of = f"{threads} of {self.threads} thread{'s' * (self.threads > 1)}"
            log.info("other programs use %.1f cores: computing with %s", by_others, of)

    def _warn(self, by_others: float, *, slower: bool) -> None:
        if slower and not self._warned:
            self._warned = True
            log.warning(
                "other programs use %.1f of %d cores, and training waits for them at each operation: it can be many "
                "times slower. With training.threads=shared it computes with fewer threads while they work (stop, and "
                "run again with it; the last digits of the weights then depend on the number of threads)",
                *(by_others, usable_cores()),
            )

    @contextlib.contextmanager
    def all_threads(self) -> Iterator[None]:
        """Compute with all threads inside: for a search, whose threads do not wait for one another, and whose batches
        depend on their number."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


class _CoreTimes(NamedTuple):
    """In seconds: the clock, how long all cores together were busy, and this process of it."""

    now: float
    busy: float
    own: float


def _core_times() -> _CoreTimes | None:
    """None if unknown."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        rows = [line.split() for line in Path("/proc/stat").read_text().split("\n") if re.match("cpu[0-9]", line)]
        usable = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        # proc(5): all but idle and iowait, up to the time that a virtual machine's host gave to others
        busy = sum(sum(map(int, [*row[1:4], *row[6:9]])) for row in rows if row[0] in usable)
        return _CoreTimes(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), time.process_time())
    return None
