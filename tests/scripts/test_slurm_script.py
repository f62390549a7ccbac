"""The job script of `nmt init --slurm` with stand-ins for SLURM: what it starts, when it asks to be started again."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.runs import config_text

SCRIPT = Path(__file__).parents[2] / "nmt" / "commands" / "train.slurm"


@pytest.fixture
def stand_ins(tmp_path: Path) -> Path:
    """A folder with `srun`, `scontrol` and `torchrun`; scontrol notes what it is asked for."""
    folder = tmp_path / "bin"
    folder.mkdir()
    scripts = {
        "srun": '#!/bin/sh\nexec "$@"\n',
        "scontrol": f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$1" = show ] && echo localhost\nexit 0\n',
        "torchrun": f"#!/bin/sh\necho $NMT_STARTED > {tmp_path}/started\n"
        f'exec {sys.executable} -m torch.distributed.run "$@"\n',
    }
    for name, text in scripts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def submit(stand_ins: Path, *arguments: object, max_seconds: float) -> subprocess.CompletedProcess[str]:
    job = {"SLURM_JOB_NODELIST": "localhost", "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_ID": "7"}
    environment = {
        **os.environ, **job, "RANKS_PER_NODE": "1", "MAX_SECONDS": str(max_seconds),
        "PATH": f"{stand_ins}:{os.environ['PATH']}",
    }  # fmt: skip
    command = [str(part) for part in (SCRIPT, *arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.thorough
def test_requeued_until_finished(stand_ins: Path, corpus: Path, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(config_text(corpus, tmp_path / "run"), encoding="utf-8")
    asked = tmp_path / "asked"
    before = int(time.time())
    stopped = submit(stand_ins, config, "training.validation_bleu=false", max_seconds=0.001)
    assert stopped.returncode == 0, stopped.stderr
    assert "training.max_seconds reached: saved at step 1" in stopped.stderr
    assert asked.read_text().split("\n")[-2] == "requeue 7"
    assert before <= float((tmp_path / "started").read_text()) <= time.time()
    asked.unlink()
    finished = submit(stand_ins, config, "training.validation_bleu=false", max_seconds=1000)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip() == str(tmp_path / "run" / "best.safetensors")
    assert "requeue" not in asked.read_text()
