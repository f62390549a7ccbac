"""The processor cores and the memory of this machine."""

import contextlib
import ctypes
import os
import platform
import re
import sys
from pathlib import Path


def available_host_memory() -> int | None:
    """Free memory in bytes, of the machine or of this process's container; None if unknown."""
    free = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().split("\n")
        free.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        words = (group / "memory.stat").read_text().split()
        cached_files = int(words[words.index("inactive_file") + 1])  # the system frees this memory on demand
        free.append(limit - used + cached_files)
    return min(free, default=None)


def host_memory_within_reach() -> int | None:
    """Free memory plus the memory of this process, part of which it can use again, in bytes; None if unknown."""
    free = available_host_memory()
    with contextlib.suppress(OSError, ValueError):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return None if free is None else free + pages * os.sysconf("SC_PAGE_SIZE")
    return None


def prepare_memory() -> None:
    """Configure the memory allocation of this process. Call it before PyTorch computes.

    glibc is set to keep freed memory instead of returning it to the system; other C libraries are not changed. Each
    training step allocates the same large tensors again. If their memory were returned in between, the system would map
    and zero every page again, which takes more than a tenth of a step on the CPU.

    oneDNN, and PyTorch's layer above it, cache their preparations for the last 1,024 shapes. Batches of sentences often
    have new shapes, so that this cache takes a gigabyte and is no faster than one of 32. A number set by the user is
    not changed.
    """
    for capacity in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(capacity, "32")
    m_trim_threshold, m_mmap_threshold = -1, -3  # malloc.h
    if sys.platform == "linux":
        with contextlib.suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).mallopt(m_mmap_threshold, 1 << 30)
            ctypes.CDLL(None).mallopt(m_trim_threshold, (1 << 31) - 1)


def make_products_repeatable() -> None:
    """Make MKL compute equal products of matrices with different numbers of threads: see nmt.training.threads for the
    limits. Call it before PyTorch computes.

    By default MKL divides long sums among its threads if this is faster. AUTO selects the same code as the default. A
    mode set by the user is not changed.
    """
    os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def processor_maker() -> str:
    """`GenuineIntel`, `AuthenticAMD` or another vendor name of x86 processors; empty if unknown."""
    with contextlib.suppress(OSError):
        match = re.search(r"^vendor_id\s*: (\S+)", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
        return match[1] if match else ""
    return platform.processor().rpartition(", ")[2]  # Windows: "AMD64 Family …, AuthenticAMD"


def usable_cores() -> int:
    """The number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_threads() -> int:
    """The number of threads to compute with on the CPU: OMP_NUM_THREADS, which PyTorch also reads, or one per core."""
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return int(threads) if re.fullmatch("[1-9][0-9]{0,3}", threads) else usable_cores()
