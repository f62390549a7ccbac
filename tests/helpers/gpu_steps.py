"""Starts the programs that count on a pretended GPU: helpers.pretended_gpu."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

NEEDS_COMPILER = pytest.mark.skipif(
    torch.version.cuda is not None or shutil.which("g++") is None,
    reason="a GPU is pretended with g++ and a PyTorch that has no CUDA itself",
)


def counted(program: str, *arguments: str) -> list[dict[str, Any]]:
    """For each step of helpers.PROGRAM its kernels, and what it waits for."""
    command = [sys.executable, "-m", f"helpers.{program}", *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found
