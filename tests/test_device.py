"""The device that a name stands for, or a message in the user's words; and the cores that a process may use."""

import os
import sys
import time
from pathlib import Path

import pytest
import torch

from nmt import device
from nmt.device import explaining_out_of_memory
from nmt.errors import NmtError
from nmt.machine import usable_cores


def machine(monkeypatch: pytest.MonkeyPatch, *, cuda: int, mps: bool) -> list[torch.device]:
    """Let PyTorch find this number of CUDA devices, and an Apple GPU or none; gives those that are made current."""
    current: list[torch.device] = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: current.append(device))
    return current


@pytest.mark.parametrize(
    ("name", "cuda", "mps", "chosen"),
    [
        ("auto", 0, False, "cpu"), ("auto", 0, True, "mps"), ("auto", 2, True, "cuda:0"), ("cuda:1", 2, True, "cuda:1"),
    ],
)  # fmt: skip
def test_what_a_name_stands_for(monkeypatch: pytest.MonkeyPatch, name: str, cuda: int, mps: bool, chosen: str) -> None:
    """A CUDA device is also made the current one, which PyTorch measures."""
    current = machine(monkeypatch, cuda=cuda, mps=mps)
    assert device.choose(name) == torch.device(chosen)
    assert current == ([torch.device(chosen)] if "cuda" in chosen else [])


@pytest.mark.parametrize(
    ("name", "cuda", "message"),
    [
        ("cuda", 0, "PyTorch finds 0 CUDA devices"), ("cuda:2", 2, "PyTorch finds 2 CUDA devices"),
        ("mps", 0, "PyTorch finds no Apple GPU"),
        *((name, 2, "choose cpu, cuda, cuda:N, mps or auto") for name in ("", "cpu:0", "cuda:²")),
    ],
)  # fmt: skip
def test_devices_that_are_not_here(monkeypatch: pytest.MonkeyPatch, name: str, cuda: int, message: str) -> None:
    machine(monkeypatch, cuda=cuda, mps=False)
    with pytest.raises(NmtError, match=f"--device {name}: {message}"):
        device.choose(name)


# --------------------------------------------------------------------------- cores


def test_cores_that_the_process_may_not_run_on_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert usable_cores() == 2
    monkeypatch.delattr(os, "sched_getaffinity")
    assert usable_cores() == 64


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), RuntimeError("std::bad_alloc")],
    ids=["cuda", "c++"],
)
def test_out_of_memory_is_explained(error: Exception) -> None:
    with pytest.raises(NmtError, match="lower the batch"), explaining_out_of_memory(lambda: "lower the batch"):
        raise error


def test_other_errors_are_left_as_they_are() -> None:
    with (
        pytest.raises(RuntimeError, match=r"^shapes do not match$"),
        explaining_out_of_memory(lambda: "lower the batch"),
    ):
        raise RuntimeError("shapes do not match")


@pytest.mark.parametrize(
    ("looks", "threads"),
    [
        ([(3.9, 3.9), (4.1, 3.9)] * 3, [4] * 6),
        ([(4.0, 1.0), *[(1.0, 1.0)] * 12], [1] * 11 + [4, 4]),
        ([(4.0, 2.9), *[(3.2, 2.0)] * 12], [3] * 13),
    ],
)
def test_threads_are_as_many_as_the_cores_that_others_leave(
    looks: list[tuple[float, float]], threads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """looks: cores that were busy since the look before, and those of this process among them, each second."""
    times = [device._CoreTimes(0, 0, 0)]
    for busy, own in looks:
        times.append(device._CoreTimes(times[-1].now + 1, times[-1].busy + busy, times[-1].own + own))
    monkeypatch.setattr(device, "usable_cores", lambda: 4)
    clock, current = iter(times), [4]
    monkeypatch.setattr(device, "_core_times", lambda: next(clock))
    monkeypatch.setattr(device, "_CHECK_INTERVAL", -float("inf"))
    monkeypatch.setattr(torch, "get_num_threads", lambda: current[-1])
    monkeypatch.setattr(torch, "set_num_threads", current.append)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores, found = device.SharedCores(torch.device("cpu"), 1, adapts=True), []
    for _ in looks:
        cores.adapt()
        found.append(current[-1])
    assert found == threads


def test_threads_stay_that_were_set_or_are_shared_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = (device._CoreTimes(float(second), 99.0 * second, 0) for second in range(9))  # all by others
    monkeypatch.setattr(device, "_core_times", lambda: next(busy))
    monkeypatch.setattr(device, "_CHECK_INTERVAL", -float("inf"))
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: pytest.fail("changed"))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    device.SharedCores(torch.device("cpu"), 2, adapts=True).adapt()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not say how long cores were busy")
def test_the_times_of_cores_are_those_that_may_be_used() -> None:
    """In the time since the system started, a core was busy at most that long; and this process is a part of it."""
    times = device._core_times()
    assert times is not None
    uptime = float(Path("/proc/uptime").read_text().split()[0])
    assert times.busy <= (os.cpu_count() or 1) * (uptime + 1) and 0 < times.own <= time.process_time()
