"""What this machine computes with: the device of a command's `--device`, its memory, its processor cores."""

import contextlib
import ctypes
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.errors import NmtError

if TYPE_CHECKING:
    import torch  # which takes a second to load: only where a device is asked for

# In the errors of PyTorch on CPUs and GPUs, of CTranslate2 and of C++.
_OUT_OF_MEMORY = re.compile("out of memory|not enough memory|can't allocate memory|bad_alloc", re.IGNORECASE)


def choose(name: str) -> "torch.device":
    """The device that `cpu`, `cuda`, `cuda:N`, `mps` or `auto` (the best one here) stands for.

    Raises NmtError for a name that means nothing or a device that this machine lacks.
    """
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]+)?", name):
        raise NmtError(f"--device {name}: choose cpu, cuda, cuda:N, mps or auto")
    kind, _, index = name.partition(":")
    if kind == "cuda" and (not torch.cuda.is_available() or int(index or 0) >= torch.cuda.device_count()):
        found = torch.cuda.device_count()
        raise NmtError(f"--device {name}: PyTorch finds {found} CUDA devices here: choose another, or auto")
    if kind == "mps" and not torch.backends.mps.is_available():
        raise NmtError(f"--device {name}: PyTorch finds no Apple GPU here: choose cpu, or auto")
    return torch.device(kind, int(index)) if index else torch.device(kind)


def available_host_memory() -> int | None:
    """Bytes of memory that this machine, or the container this process is in, has left; None where it is not known."""
    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().split("\n")
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        words = (group / "memory.stat").read_text().split()
        found.append(limit - used + int(words[words.index("inactive_file") + 1]))  # files read, given up when needed
    return min(found, default=None)


def host_memory_within_reach() -> int | None:
    """Bytes that this process could have: what is left, and what it has, which may be free within it; None where it
    is not known."""
    left = available_host_memory()
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return None if left is None else left + pages * os.sysconf("SC_PAGE_SIZE")
    return None


@contextlib.contextmanager
def explaining_out_of_memory(message: Callable[[], str]) -> Iterator[None]:
    """If memory runs out inside, that of a GPU or of the machine, raise NmtError with this message instead."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(str(error)):
            raise
        raise NmtError(message()) from None


def keep_freed_memory() -> None:
    """Ask glibc to keep freed blocks rather than hand them back to the system (no-op elsewhere).

    Each step allocates the same large tensors anew; handed back in between, every page of them is
    faulted in and zeroed again, which costs a training step on the CPU more than a tenth of its time.
    """
    if sys.platform != "linux":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library
        return
    m_trim_threshold, m_mmap_threshold = -1, -3  # malloc.h
    mallopt(m_mmap_threshold, 1 << 30)
    mallopt(m_trim_threshold, (1 << 31) - 1)


def usable_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
