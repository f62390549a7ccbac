"""How many cells of a batch a device's memory holds: `training.micro_batch_tokens: auto`."""

import contextlib
import logging
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from nmt.distributed import Ranks
from nmt.errors import NmtError
from nmt.training.objective import Objective

log = logging.getLogger("nmt")

# Of the memory that is free at the start, what a step may take: shapes that vary fragment the rest.
_SHARE = 0.9
_PROBE_CELLS = 2048  # on the CPU, whose memory cannot be tried out: beyond it the system kills


def micro_batch_cells(objective: Objective, batch_cells: int, longest: int, ranks: Ranks, chosen: int = 0) -> int:
    """The most cells of a micro-batch such that a forward and backward pass fits, a whole part of `batch_cells`.

    longest: the longer side of the longest pair, at most `batch_cells`. Tried with pairs of that length, both
    sides of them full: nothing in the corpus takes more. On a GPU the passes are run; on a CPU what they take is
    measured on a small batch, for memory that is not there is found out too late. Every rank gets the smallest
    result. Raises NmtError where even the longest pair alone does not fit.
    chosen: when the run began, or 0. It stays: dropout's masks depend on the split, so that another one would make
    the resumed run another run. Only a warning says that it does not fit into the memory that is free now.
    """
    where = next(objective.parameters()).device
    on_gpu = where.type == "cuda"
    fits = _runs(objective, longest) if on_gpu else _estimate(objective, longest, ranks.local_size)

    if chosen:
        if ranks.begin_most(lambda: int(not fits(chosen)))():
            log.warning(
                "training.micro_batch_tokens: auto: %s cells, as when the run began, may not fit into the memory that "
                "is free now: free some, or set a smaller number (the results are then not the same bit for bit)",
                f"{chosen:,}",
            )
        else:
            log.info("training.micro_batch_tokens: auto: %s cells, as when the run began", f"{chosen:,}")
        return chosen

    def cells_of(parts: int) -> int:
        return max(longest, -(-batch_cells // parts))

    most = -(-batch_cells // longest)  # parts: each holds the longest pair then, and no more
    fewest = bisect_left(range(1, most + 1), True, key=lambda parts: fits(cells_of(parts))) + 1
    fewest = ranks.begin_most(lambda: fewest)()
    if fewest > most:
        raise NmtError(
            f"training.micro_batch_tokens: auto: one pair of {longest} subwords does not fit into this device's "
            "memory: lower data.max_length, or set training.activation_checkpointing: true"
        )
    whole = ", a whole step" if fewest == 1 else f", {fewest} to a step"
    if ranks.size > 1:
        whole = f" at most on each of {ranks.size} ranks"
    log.info("training.micro_batch_tokens: auto: %s cells%s", f"{cells_of(fewest):,}", whole)
    return cells_of(fewest)


def _passes(objective: Objective, cells: int, longest: int) -> None:
    """Forward and backward over at least so many cells."""
    where = next(objective.parameters()).device
    shape = -(-cells // longest), longest
    source, target = (torch.ones(shape, dtype=torch.int64, device=where) for _ in range(2))
    objective.train()
    loss, _ = objective(source, target, torch.arange(target.numel(), device=where))
    (loss * 0).backward()
    objective.zero_grad(set_to_none=True)


def _runs(objective: Objective, longest: int) -> Callable[[int], bool]:
    """Whether the passes leave a margin on this GPU, Adam's moments (two more copies of the weights) beside them."""

    def fits(cells: int) -> bool:
        free, _ = torch.cuda.mem_get_info()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        try:
            moments = [torch.empty_like(weight) for weight in objective.parameters() for _ in range(2)]
            _passes(objective, cells, longest)
            del moments
            return torch.cuda.max_memory_allocated() - before <= _SHARE * free
        except torch.OutOfMemoryError:
            return False
        finally:
            objective.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()

    return fits


def _estimate(objective: Objective, longest: int, ranks_here: int) -> Callable[[int], bool]:
    probed = -(-_PROBE_CELLS // longest) * longest
    _passes(objective, probed, longest)  # whatever is made once
    weights = sum(weight.numel() * weight.element_size() for weight in objective.parameters())
    a_cell = (peak_bytes(objective, probed, longest) - weights) / probed  # their gradients do not grow with the cells
    free = _SHARE * available_memory() / ranks_here - 3 * weights  # gradients and two moments are yet to come
    return lambda cells: cells * a_cell <= free


def peak_bytes(objective: Objective, cells: int, longest: int) -> int:
    """The most memory that PyTorch holds at once on the CPU in both passes, beyond what it held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        _passes(objective, cells, longest)
    assert profiled.profiler is not None and profiled.profiler.kineto_results is not None
    changes = (event.nbytes() for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]")
    return max(accumulate(changes), default=0)


def available_memory() -> int:
    """Bytes of memory that this machine, or the container this process is in, has left."""
    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().split("\n")
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
        words = (group / "memory.stat").read_text().split()
        found.append(limit - used + int(words[words.index("inactive_file") + 1]))  # files read, given up when needed
    return min(found, default=4 << 30)
