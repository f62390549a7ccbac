"""PyTorch devices: their choice, memory errors, and the threads of the CPU."""

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

from nmt.errors import NmtError, first_line
from nmt.machine import usable_cores

log = logging.getLogger("nmt")

# For `SharedCores`: seconds between two checks; the share of a core that other programs may use before a thread is
# given up; seconds for which cores must be free before they are used again.
_CHECK_INTERVAL, _TOLERATED_SHARE, _FREE_FOR = 3.0, 0.3, 10.0
# In error messages of PyTorch on CPUs and GPUs, of CTranslate2 and of C++.
_OUT_OF_MEMORY = re.compile("out of memory|not enough memory|can't allocate memory|bad_alloc", re.IGNORECASE)
# In error messages of CUDA, from PyTorch or Triton.
_FAULT = re.compile(
    "illegal (memory access|address|instruction)|launch failure|misaligned address|device-side assert", re.IGNORECASE
)


def choose(name: str) -> torch.device:
    """The device `cpu`, `cuda`, `cuda:N`, `mps` or `auto` (the best available). Raises NmtError if it does not exist.

    A CUDA device becomes PyTorch's current device, because functions that measure memory or wait for a device use it.
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
    """Whether operations are only queued on this device, so that the program waits only when it reads a result."""
    return device.type == "cuda"


class LateCopy:
    """A copy of a device's tensor on the host, which is queued after all earlier operations on the device.

    A program that queues more operations before it waits for the copy keeps the device busy.
    """

    def __init__(self, x: Tensor):
        self._copy = x.to("cpu", non_blocking=True)  # into pinned memory
        self._done = torch.cuda.Event() if x.is_cuda else None  # type: ignore[no-untyped-call]
        if self._done is not None:
            self._done.record(torch.cuda.current_stream(x.device))  # x.device may not be the current device

    def wait(self) -> Any:
        """Wait for the copy. Returns the number, or the list of numbers."""
        if self._done is not None:
            self._done.synchronize()
        return self._copy.tolist()


def from_host(x: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor from the host to a device, without waiting for the copy."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def is_cpu(name: str) -> bool:
    """Whether `choose` would choose the CPU."""
    return name == "cpu" or choose(name).type == "cpu"


@contextlib.contextmanager
def explaining_out_of_memory(message: Callable[[], str]) -> Iterator[None]:
    """If a GPU or the machine runs out of memory inside the block, raise NmtError with this message instead."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(str(error)):
            raise
        raise NmtError(message()) from None


def is_device_fault(error: BaseException) -> bool:
    """Whether a kernel on the GPU has failed, for example with an illegal memory access. This process then cannot use
    the GPU any longer: every later operation fails too."""
    return _FAULT.search(str(error)) is not None


@contextlib.contextmanager
def continuing_if_recording_fails(message: str, device: torch.device) -> Iterator[None]:
    """If recording a CUDA graph fails in the block, log a warning with this message and the reason, and continue after
    the block. A device fault is raised again."""
    stream = torch.cuda.current_stream(device)
    try:
        yield
    except Exception as error:  # of many types: an operation that cannot be recorded, too little memory
        # After some errors PyTorch cannot end the recording either: this is a second error, which hides the first, and
        # leaves the recording's stream and the state of the random numbers in use.
        first = error.__context__
        reason = first if isinstance(first, Exception) and not error.__suppress_context__ else error
        if is_device_fault(error) or is_device_fault(reason):
            raise
        torch.cuda.set_stream(stream)
        random = torch.cuda.default_generators[device.index]
        random.graphsafe_set_state(random.clone_state())
        log.warning("%s (%s)", message, first_line(reason))


class SharedCores:
    """Reduces PyTorch's threads to the number of cores that other programs do not use.

    Threads that compute together wait for one another many times in a step. If one of them has no core, all of them
    wait, and by default waiting threads use their cores too: training can become many times slower. This class works
    only on Linux, which reports how long each core was busy.
    """

    def __init__(self, device: torch.device, processes: int, *, adapts: bool) -> None:
        """processes: the number of processes that compute together. For several, or if OMP_NUM_THREADS is set, nothing
        is changed. adapts: whether the number of threads may change; if not, one warning tells that other programs slow
        this one down."""
        self.threads, self._adapts, self._warned = torch.get_num_threads(), adapts, False  # threads: the largest number
        self._free_since = 0.0
        alone = device.type == "cpu" and processes == 1 and "OMP_NUM_THREADS" not in os.environ
        self._last = _core_times() if alone else None

    def adapt(self) -> None:
        """Set the number of threads by the use of the cores since the last call. Call it between two computations.

        The number is lowered immediately. It is raised only after the cores were free for some time, because too many
        threads make a step slow.
        """
        if self._last is None or time.monotonic() - self._last.now < _CHECK_INTERVAL:
            return
        if (new := _core_times()) is None:
            return
        old, self._last = self._last, new
        seconds = new.now - old.now
        by_others = max(0.0, (new.busy - old.busy - new.own + old.own) / seconds)
        free = usable_cores() - by_others
        threads, before = max(1, min(self.threads, int(free + _TOLERATED_SHARE))), torch.get_num_threads()
        if not self._adapts:
            self._warn(by_others, slower=threads < before)
            return
        if threads <= before:
            self._free_since = new.now
        if threads < before or new.now - self._free_since > _FREE_FOR:
            torch.set_num_threads(threads)
            message = "other programs use %.1f cores: computing with %d of %d threads"
            log.info(message, by_others, threads, self.threads)

    def _warn(self, by_others: float, *, slower: bool) -> None:
        if slower and not self._warned:
            self._warned = True
            log.warning(
                "other programs use %.1f of %d cores, and training waits for them at each operation: it can be many "
                "times slower. To compute with fewer threads while they run, stop, and run again with "
                "training.threads=shared (the last digits of the weights then depend on the number of threads)",
                *(by_others, usable_cores()),
            )

    @contextlib.contextmanager
    def all_threads(self) -> Iterator[None]:
        """Compute with all threads inside the block. This is for search: its threads do not wait for one another, and
        its batches depend on their number."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)


class _CoreTimes(NamedTuple):
    """Times in seconds: the clock, the busy time of all usable cores together, and this process's part of it."""

    now: float
    busy: float
    own: float


def _core_times() -> _CoreTimes | None:
    """The present times; None if the system does not report them."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        usable, busy = {f"cpu{core}" for core in os.sched_getaffinity(0)}, 0
        for line in Path("/proc/stat").read_text().split("\n"):
            name, *times = line.split() or [""]
            if name in usable:  # proc(5): all times except idle and iowait, up to the time stolen by a virtual machine
                busy += sum(map(int, [*times[:3], *times[5:8]]))
        return _CoreTimes(time.monotonic(), busy / os.sysconf("SC_CLK_TCK"), time.process_time())
    return None
