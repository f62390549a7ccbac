"""What training runs on, as its speed and its numbers depend on it: models and versions, never the machine's name.

And the folder in which it was started, to which relative paths refer.
"""

import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from nmt import __version__
from nmt.device import usable_cores
from nmt.distributed.ranks import Ranks
from nmt.errors import current_folder

_PACKAGES = ("torch", "sentencepiece", "sacrebleu")


def environment(device: torch.device, ranks: Ranks) -> dict[str, Any]:
    """Versions and hardware, as JSON values; GPU and cores of this rank."""
    versions = {package: metadata.version(package) for package in _PACKAGES}
    facts: dict[str, Any] = {"nmt": __version__, "python": platform.python_version(), **versions}
    facts |= {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "device": device.type,
        "ranks": ranks.size,
        "folder": current_folder(),
    }
    if memory := _memory():
        facts["memory_gib"] = memory
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {
            "gpu": properties.name,
            "gpu_memory_gib": _gib(properties.total_memory),
            "cuda": torch.version.cuda or "",
        }
    return facts


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the processor, from Linux; elsewhere what Python knows about it."""
    lines = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n") if cpuinfo.is_file() else []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(filter(None, [*named, platform.processor(), platform.machine()]), "unknown")


def _memory() -> float | None:
    """Memory of this machine in GiB; None where the system does not report it."""
    names = getattr(os, "sysconf_names", {})
    if "SC_PAGE_SIZE" not in names or "SC_PHYS_PAGES" not in names:
        return None
    return _gib(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))


def _gib(size: int) -> float:
    return round(size / 2**30, 1)
