"""How many cells of a batch a device's memory holds: `training.micro_batch_tokens: auto`."""

import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from nmt.distributed import Ranks
from nmt.errors import SharedError
from nmt.training.objective import Objective

log = logging.getLogger("nmt")

# Of the memory that is free at the start, what a step may take: shapes that vary fragment the rest.
_SHARE = 0.9
_PROBE_CELLS = 2048  # on the CPU, whose memory cannot be tried out: beyond it the system kills


def micro_batch_cells(objective: Objective, batch_cells: int, longest: int, ranks: Ranks) -> int:
    """The most cells of a micro-batch such that a forward and backward pass fits, a whole part of `batch_cells`.

    longest: the longer side of the longest pair, at most `batch_cells`. Tried with pairs of that length, both
    sides of them full: nothing in the corpus takes more. On a GPU the passes are run; on a CPU what they keep is
    counted on a small batch, for memory that is not there is found out too late. Every rank gets the smallest
    result. Raises SharedError where even the longest pair alone does not fit.
    """
    where = next(objective.parameters()).device
    fits = _runs if where.type == "cuda" else _by_estimate(objective, longest, ranks.local_size)
    parts, most = 1, -(-batch_cells // longest)
    while parts <= most and not fits(objective, -(-batch_cells // parts), longest):
        parts *= 2
    least = parts // 2 + 1  # half as many did not fit
    while least < parts:
        middle = (least + parts) // 2
        if fits(objective, -(-batch_cells // middle), longest):
            parts = middle
        else:
            least = middle + 1
    tried = parts
    parts = ranks.begin_most(lambda: tried)()
    cells = max(longest, -(-batch_cells // parts))
    if parts > most and not fits(objective, longest, longest):
        raise SharedError(
            f"training.micro_batch_tokens: auto: one pair of {longest} subwords does not fit into this device's "
            "memory: lower data.max_length, or set training.activation_checkpointing: true"
        )
    log.info("training.micro_batch_tokens: auto: %s cells", f"{cells:,}" if parts > 1 else f"{cells:,}, a whole step")
    return cells


def _worst_batch(cells: int, longest: int, where: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    sentences = max(1, cells // longest)
    source, target = (torch.ones(sentences, longest, dtype=torch.int64, device=where) for _ in range(2))
    return source, target, torch.arange(target.numel(), device=where)


def _passes(objective: Objective, cells: int, longest: int) -> None:
    loss, _ = objective(*_worst_batch(cells, longest, next(objective.parameters()).device))
    (loss * 0).backward()
    objective.zero_grad(set_to_none=True)


def _runs(objective: Objective, cells: int, longest: int) -> bool:
    """Whether the passes leave a margin on this GPU, Adam's moments (two more copies of the weights) beside them."""
    objective.train()
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


def _by_estimate(objective: Objective, longest: int, ranks_here: int) -> Callable[[Objective, int, int], bool]:
    a_cell = kept_bytes(objective, _PROBE_CELLS, longest) / max(_PROBE_CELLS, longest)
    weights = sum(weight.numel() * weight.element_size() for weight in objective.parameters())
    free = _SHARE * available_memory() / ranks_here - 3 * weights  # gradients and two moments are yet to come
    return lambda _, cells, __: cells * a_cell <= free


def kept_bytes(objective: Objective, cells: int, longest: int) -> int:
    """Bytes that the forward pass over so many cells keeps for the backward pass, the weights left out."""
    weights = {weight.untyped_storage().data_ptr() for weight in objective.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    objective.train()
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _passes(objective, cells, longest)
    return sum(kept.values())


def available_memory() -> int:
    """Bytes of memory that this machine, or the control group this process is in, has left."""
    found = []
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().split("\n")
        found.append(1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]))
    with contextlib.suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        found.append(int((group / "memory.max").read_text()) - int((group / "memory.current").read_text()))
    return min(found, default=4 << 30)
