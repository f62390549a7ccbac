"""The ranks of one job: which of them this process is, and what they do together.

A rank is a process with one device. `torchrun` starts them (or `nmt train --nproc-per-node`, which does the
same) and says to each by environment variables who it is. Alone, everything here answers at once.
Numbers and objects travel by gloo, between CPUs, whatever the devices; gradients are DDP's affair.
"""

import datetime
import hashlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous

from nmt import device as devices
from nmt.distributed.environment import launched
from nmt.errors import NmtError

T = TypeVar("T")

_CAUSE_SECONDS = 6.0  # longer than a rank with an error of its own takes to say it and end
_MEETING = datetime.timedelta(minutes=10)  # in which all ranks have started
# How long ranks wait for the one that prepares the data: as long as it takes. One that dies is noticed at once.
_PREPARING = datetime.timedelta(days=7)


@dataclass(frozen=True)
class Ranks:
    """This process among the ranks of a job; the default is a job of one.

    rank of size, over all machines; local_rank of local_size, on this one. Every method but `first` is
    collective: all ranks call it at the same point, or wait for those that have not.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this rank is the one that logs and writes."""
        return self.rank == 0

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        """The sum over the ranks, on the CPU. The order of summation does not depend on which rank asks."""
        values = values.detach().to("cpu", copy=True)
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def all_reduce_max_async(self, number: Callable[[], int]) -> Callable[[], int]:
        """Start to find the largest of the ranks' numbers; the function returned waits for it.

        What comes in between hides the time that it takes. Alone, the number is asked for at the end.
        """
        if self.size == 1:
            return number
        most = torch.tensor(number())
        work = dist.all_reduce(most, dist.ReduceOp.MAX, async_op=True)

        def wait() -> int:
            work.wait()
            return int(most)

        return wait

    def broadcast(self, value: T) -> T:
        """The first rank's value."""
        held = [value]
        if self.size > 1:
            dist.broadcast_object_list(held)
        return held[0]

    def broadcast_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The first rank's CPU tensors; what other ranks pass counts for nothing."""
        if self.size == 1:
            return dict(tensors)
        shapes = self.broadcast({name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            tensor = tensors[name].clone() if self.first else torch.empty(shape, dtype=dtype)  # files are read-only
            dist.broadcast(tensor, 0)
            received[name] = tensor
        return received

    def all_gather(self, value: T) -> list[T]:
        """Every rank's value, in the order of the ranks."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def agree(self, values: Mapping[str, str]) -> None:
        """Hold the ranks' values against each other. Raises NmtError naming the first that differs, and where."""
        everyones = self.all_gather(dict(values))
        for rank, theirs in enumerate(everyones):
            for what in values:
                if theirs[what] != everyones[0][what]:
                    raise NmtError(
                        f"the ranks do not agree on {what}: rank 0 has {everyones[0][what]}, rank {rank} has "
                        f"{theirs[what]}: start all with the same settings, files and versions"
                    )

    @contextmanager
    def local_first(self) -> Iterator[None]:
        """The first rank of each machine goes through the block before the machine's others do."""
        if self.size == 1:
            yield
            return
        group = dist.new_group(backend="gloo", timeout=_PREPARING)
        if self.local_rank:
            dist.barrier(group)
        yield
        if not self.local_rank:
            dist.barrier(group)


def from_environment(device_name: str) -> tuple[Ranks, torch.device]:
    """Which rank of the job this process was started for it is, if any, and its device; without meeting the others.

    `cuda` and `auto` stand for the GPU with the number of the local rank. Raises NmtError for a device
    that this machine lacks, or that several ranks would share.
    """
    where = devices.choose(device_name)
    if not launched() or int(os.environ["WORLD_SIZE"]) == 1:
        return Ranks(), where
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if where.index is not None or where.type == "mps":
        raise NmtError(f"--device {device_name}: {size} ranks cannot share it: choose cpu, cuda or auto")
    ranks = Ranks(rank, size, int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1)))
    if where.type == "cuda":
        where = devices.choose(f"cuda:{ranks.local_rank}")
        torch.cuda.set_device(where)
    return ranks, where


@contextmanager
def process_group(device_name: str) -> Iterator[tuple[Ranks, torch.device]]:
    """Take part in the job this process was started for, if any: its ranks, and this one's device.

    Raises as `from_environment`.
    """
    ranks, where = from_environment(device_name)
    if ranks.size == 1:
        yield ranks, where
        return
    backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
    launchers, *_ = next(rendezvous("env://", timeout=_MEETING))
    dist.init_process_group(
        backend, store=meeting(launchers, ranks.rank, ranks.size), rank=ranks.rank, world_size=ranks.size
    )
    try:
        yield ranks, where
    except NmtError:
        raise
    except Exception:
        # Most often a broken connection, for another rank has died: the launcher ends this one too, before
        # it hides the cause behind an error of its own.
        time.sleep(_CAUSE_SECONDS)
        raise
    finally:
        dist.destroy_process_group()


def meeting(store: Store, rank: int, size: int) -> Store:
    """A part of the store for the ranks of this start alone; waits until all of them have come.

    torchrun's store outlives the ranks: what those before a restart wrote there, new ones would take for each
    other's addresses. Its count of restarts is each machine's own, so the ranks call themselves by new names, and
    meet under the list of all names once each has seen that list. Raises NmtError when a rank does not come.
    """
    store.set(f"nmt/name/{rank}", uuid.uuid4().hex)
    deadline = time.monotonic() + _MEETING.total_seconds()
    while time.monotonic() < deadline:
        with suppress(dist.DistStoreError):  # a rank never came: it waited for that
            names = b" ".join(store.multi_get([f"nmt/name/{other}" for other in range(size)]))
            ours = PrefixStore(f"nmt/{hashlib.sha256(names).hexdigest()}", store)
            ours.set(f"seen by {rank}", "")
            if ours.check([f"seen by {other}" for other in range(size)]):
                return ours
            time.sleep(min(1.0, 0.01 * size))  # thousands of ranks ask the one store
    minutes = _MEETING.total_seconds() / 60
    raise NmtError(f"not all of the {size} ranks came within {minutes:.0f} minutes: look at what the others say")
