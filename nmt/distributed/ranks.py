"""The ranks of a job, and their collective operations.

A rank is a process with one device. `torchrun` or `nmt train --nproc-per-node` starts the ranks, and tells each process
its rank by environment variables. With one rank every operation returns immediately. This module exchanges numbers and
objects between CPUs with gloo; DDP or FSDP exchange the gradients.
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
from nmt.distributed.environment import is_launched
from nmt.errors import NmtError

T = TypeVar("T")

_CAUSE_SECONDS = 6.0  # longer than a rank takes to log its error and end
_START_TIMEOUT = datetime.timedelta(minutes=10)  # for the start of all ranks
# NCCL's default is to wait half an hour for a rank that has died. Because of this shorter timeout, ranks must wait in
# `Ranks.barrier` before the next gradient if one rank has additional work, such as saving.
_NCCL_TIMEOUT = datetime.timedelta(seconds=100)
# For the rank that prepares the data, which may take long. The others notice immediately if it dies.
_PREPARATION_TIMEOUT = datetime.timedelta(days=7)


@dataclass(frozen=True)
class Ranks:
    """The rank of this process and the number of ranks of its job; by default a job of one rank.

    rank, size: over all machines; local_rank, local_size: on this machine. Every method is collective: each rank must
    call it at the same point, and waits there for the others.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1

    @property
    def first(self) -> bool:
        """Whether this is the rank that logs and writes files."""
        return self.rank == 0

    def all_reduce_sum(self, values: Tensor) -> Tensor:
        """The sum over the ranks, on the CPU, bit for bit the same on all ranks."""
        values = values.detach().to("cpu", copy=True)
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def all_reduce_max_async(self, get_number: Callable[[], int]) -> Callable[[], int]:
        """Start to compute the maximum of the ranks' numbers. The returned function waits for the result.

        With one rank, `get_number` is called only by the returned function.
        """
        if self.size == 1:
            return get_number
        maximum = torch.tensor(get_number())
        work = dist.all_reduce(maximum, dist.ReduceOp.MAX, async_op=True)

        def wait() -> int:
            work.wait()
            return int(maximum)

        return wait

    def broadcast(self, value: T) -> T:
        """The first rank's value."""
        values = [value]
        if self.size > 1:
            dist.broadcast_object_list(values)
        return values[0]

    def broadcast_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The first rank's CPU tensors; the tensors of other ranks are ignored."""
        if self.size == 1:
            return dict(tensors)
        shapes = self.broadcast({name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            tensor = tensors[name].clone() if self.first else torch.empty(shape, dtype=dtype)  # may be a read-only file
            dist.broadcast(tensor, 0)
            received[name] = tensor
        return received

    def all_gather(self, value: T) -> list[T]:
        """Every rank's value, in the order of the ranks."""
        values = [value] * self.size
        if self.size > 1:
            dist.all_gather_object(values, value)
        return values

    def barrier(self) -> None:
        """Wait until every rank has called this, at most gloo's half hour. A rank that dies is noticed immediately."""
        self.all_reduce_max_async(lambda: 0)()

    def agree(self, values: Mapping[str, str]) -> None:
        """Raises NmtError on all ranks if their values differ; it names the first different rank."""
        first, *others = self.all_gather(dict(values))
        for rank, other in enumerate(others, start=1):
            for name, expected in first.items():
                if other[name] != expected:
                    raise NmtError(
                        f"the ranks do not agree on {name}: rank 0 has {expected}, rank {rank} has {other[name]}: "
                        "start all with the same settings, files and versions"
                    )

    @contextmanager
    def local_first(self) -> Iterator[None]:
        """On each machine, the first rank runs the block before the others do."""
        if self.size == 1:
            yield
            return
        group = dist.new_group(backend="gloo", timeout=_PREPARATION_TIMEOUT)
        if self.local_rank:
            dist.barrier(group)
        yield
        if not self.local_rank:
            dist.barrier(group)


def from_environment(device_name: str) -> tuple[Ranks, torch.device]:
    """This process's rank and device, from the launcher's variables, without connecting to the other ranks.

    `cuda` and `auto` mean the GPU whose index is the local rank. Raises NmtError for a device that this machine does
    not have, or that several ranks would share.
    """
    size = int(os.environ["WORLD_SIZE"]) if is_launched() else 1
    if size == 1:
        return Ranks(), devices.choose(device_name)
    local = int(os.environ.get("LOCAL_RANK", 0)), int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    ranks = Ranks(int(os.environ["RANK"]), size, *local)
    on_gpu = device_name == "cuda" or (device_name == "auto" and torch.cuda.is_available())
    where = devices.choose(f"cuda:{ranks.local_rank}" if on_gpu else device_name)
    if ":" in device_name or where.type == "mps":
        raise NmtError(f"--device {device_name}: {size} ranks cannot share it: choose cpu, cuda or auto")
    return ranks, where


@contextmanager
def process_group(device_name: str) -> Iterator[tuple[Ranks, torch.device]]:
    """Like `from_environment`, but connected to the other ranks. Also raises NmtError if a rank does not start."""
    ranks, where = from_environment(device_name)
    if ranks.size == 1:
        yield ranks, where
        return
    backend = "cpu:gloo,cuda:nccl" if where.type == "cuda" else "gloo"
    launchers, *_ = next(rendezvous("env://", timeout=_START_TIMEOUT))
    store = store_of_this_start(launchers, ranks.rank, ranks.size)
    dist.init_process_group(backend, store=store, rank=ranks.rank, world_size=ranks.size)
    if where.type == "cuda":
        limit_waiting(where)
    try:
        yield ranks, where
    except BaseException as error:
        if where.type == "cuda":  # NCCL would wait for a rank that has died
            with suppress(RuntimeError):
                dist.distributed_c10d._get_default_group()._get_backend(where).abort()
        # The most frequent cause is a connection that broke because another rank has died. The launcher then ends this
        # rank too. Waiting for this prevents this error from hiding the cause.
        if isinstance(error, Exception) and not isinstance(error, NmtError):
            time.sleep(_CAUSE_SECONDS)
        raise
    finally:
        dist.destroy_process_group()


def limit_waiting(where: torch.device) -> None:
    """End this process if an operation of this device's backend takes longer than `_NCCL_TIMEOUT`.
    `init_process_group` has one timeout for all backends, and gloo's must be long."""
    dist.distributed_c10d._get_default_group()._get_backend(where)._set_default_timeout(_NCCL_TIMEOUT)


def store_of_this_start(store: Store, rank: int, size: int) -> Store:
    """A part of the store that only the ranks of this start use. Waits until all of them have joined.

    torchrun's store survives a restart, so that new ranks would read the addresses that old ranks wrote. Its count of
    restarts differs between machines. Therefore every rank writes a new random name, and the part of the store is
    named after the list of all names, once each rank has seen the same list. Raises NmtError if a rank does not join.
    """
    store.set(f"nmt/name/{rank}", uuid.uuid4().hex)
    deadline = time.monotonic() + _START_TIMEOUT.total_seconds()
    while time.monotonic() < deadline:
        with suppress(dist.DistStoreError):  # a timeout: a rank has not joined yet
            names = b" ".join(store.multi_get([f"nmt/name/{other}" for other in range(size)]))
            part = PrefixStore(f"nmt/{hashlib.sha256(names).hexdigest()}", store)
            part.set(f"seen by {rank}", "")
            if part.check([f"seen by {other}" for other in range(size)]):
                return part
            time.sleep(min(1.0, 0.01 * size))  # there may be thousands of ranks
    minutes = _START_TIMEOUT.total_seconds() / 60
    raise NmtError(f"not all {size} ranks started within {minutes:.0f} minutes: see the messages of the other ranks")
