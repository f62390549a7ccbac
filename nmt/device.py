"""The hardware: devices, memory and processor cores."""

import contextlib
import ctypes
import logging
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.errors import NmtError

if TYPE_CHECKING:
    import torch  # loading it takes a second, so functions import it when they need it
    from torch import Tensor

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


def choose(name: str) -> "torch.device":
    """The device `cpu`, `cuda`, `cuda:N`, `mps` or `auto` (the best one here). Raises NmtError if there is none.

    A CUDA device becomes PyTorch's current one: what measures memory or waits for a device uses that.
    """
    import torch

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


def runs_ahead(device: "torch.device") -> bool:
    """Whether operations are only queued on this device: the program goes on until it reads a result."""
    return device.type == "cuda"


class LateCopy:
    """A copy on the host of a tensor on a device, made behind all that is queued there so far.

    A program that waits for it only after it has queued more work leaves no gap in the work of the device.
    """

    def __init__(self, x: "Tensor"):
        import torch

        self._copy = x.to("cpu", non_blocking=True)  # into pinned memory
        self._done = torch.cuda.Event() if x.is_cuda else None  # type: ignore[no-untyped-call]
        if self._done is not None:
            self._done.record(torch.cuda.current_stream(x.device))  # of this device: another may be the current one

    def wait(self) -> Any:
        """The number, or the list of numbers, once it is there."""
        if self._done is not None:
            self._done.synchronize()
        return self._copy.tolist()


def from_host(x: "Tensor", device: "torch.device") -> "Tensor":
    """A tensor of the host on a device. The program does not wait until it is there."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


def is_cpu(name: str) -> bool:
    """Whether `choose` would choose the CPU. Loads PyTorch only where there may be something else."""
    accelerators = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg")  # NVIDIA, AMD, and both under Windows
    if name == "auto" and sys.platform == "linux" and not any(map(os.path.exists, accelerators)):
        return True
    return name == "cpu" or choose(name).type == "cpu"


def available_host_memory() -> int | None:
    """Free memory in bytes, of the machine or of the container of this process; None if unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().split("\n")
        free.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        words = (group / "memory.stat").read_text().split()
        cached_files = int(words[words.index("inactive_file") + 1])  # the system frees their memory when it is needed
        free.append(limit - used + cached_files)
    return min(free, default=None)


def host_memory_within_reach() -> int | None:
    """Free memory plus that of this process, part of which it can use again: bytes, or None if unknown."""
    left = available_host_memory()
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return None if left is None else left + pages * os.sysconf("SC_PAGE_SIZE")
    return None


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


def prepare_memory() -> None:
    """Set how this process uses the machine's memory. To be called before PyTorch computes.

    glibc keeps freed memory instead of returning it to the system; other C libraries are left alone. Each training step
    allocates the same large tensors again. If their memory were returned in between, the system would map and zero
    every page again, which takes more than a tenth of a step on the CPU.

    oneDNN, and PyTorch's layer above it, keep what they have prepared for the last 1,024 shapes. Batches of sentences
    have ever new shapes, so that this is a gigabyte of memory and no faster than 32. A user's own number stays.
    """
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, "32")
    m_trim_threshold, m_mmap_threshold = -1, -3  # malloc.h
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).mallopt(m_mmap_threshold, 1 << 30)
            ctypes.CDLL(None).mallopt(m_trim_threshold, (1 << 31) - 1)


def make_products_repeatable() -> None:
    """Have MKL give the same product of two matrices with fewer threads. To be called before PyTorch computes.

    By default MKL divides long sums among its threads where that is faster. AUTO is the code that it takes anyway. A
    user's own mode stays.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def processor_maker() -> str:
    """`GenuineIntel`, `AuthenticAMD` or another name that x86 processors give; empty if unknown."""
    with contextlib.suppress(OSError):
        match = re.search(r"^vendor_id\s*: (\S+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        return match[1] if match else ""
    return platform.processor().rpartition(", ")[2]  # Windows: "AMD64 Family …, AuthenticAMD"


def usable_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_threads() -> int:
    """The number of threads to compute with on the CPU: OMP_NUM_THREADS, which also PyTorch reads, or every core."""
    given = os.environ.get("OMP_NUM_THREADS", "")
    return int(given) if re.fullmatch("[1-9][0-9]{0,3}", given) else usable_cores()


class SharedCores:
    """Keeps PyTorch from computing with more threads than other programs leave cores for.

    Threads that compute together wait for one another many times in a step. If one of them has no core, all wait, and
    by default they take the others' time while they wait: training can become many times slower. So other programs get
    their cores, and the others are used. Only on Linux, which says how long each core was busy.
    """

    def __init__(self, device: "torch.device", processes: int, *, adapts: bool) -> None:
        """processes: that compute together. For several, and where OMP_NUM_THREADS is set, nothing is changed. adapts:
        whether the number of threads may change; if not, a warning says once that other programs slow this one down.
        """
        import torch

        self.threads, self._adapts, self._warned = torch.get_num_threads(), adapts, False  # threads: the most
        self._free_since = 0.0
        alone = device.type == "cpu" and processes == 1 and "OMP_NUM_THREADS" not in os.environ
        self._last = _core_times() if alone else None

    def adapt(self) -> None:
        """Set the number of threads by what happened since the last call; to be called between two computations.

        Fewer threads at once; more only when the cores were free for a while, as a wrong try costs a slow step.
        """
        import torch

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
        import torch

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
