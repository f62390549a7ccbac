"""What a launcher says by environment variables: heeded by ranks, checked, and forgotten by everybody else."""

import os
import re
import subprocess
import sys

import pytest
from helpers.commands import OF_A_LAUNCHER

from nmt.cli import terminal
from nmt.distributed.environment import (
    FILE_JOB,
    LAUNCHER,
    STARTED,
    check_launch,
    check_variables,
    is_launched,
    rank,
)
from nmt.errors import NmtError

RANK_3 = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a",
          "MASTER_PORT": "29500"}  # fmt: skip


@pytest.fixture(autouse=True)
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*OF_A_LAUNCHER, FILE_JOB, STARTED, "TORCHELASTIC_RUN_ID", "TORCHELASTIC_ERROR_FILE"):
        monkeypatch.setenv(name, "to be forgotten after the test")
        monkeypatch.delenv(name)


def launch(monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    for name, value in (RANK_3 | more).items():
        monkeypatch.setenv(name, value)


def test_a_rank_knows_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_launched() and rank() == 0
    check_variables()
    launch(monkeypatch)
    check_variables()
    assert is_launched() and rank() == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RANK", "4"), ("MASTER_PORT", "http"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    launch(monkeypatch, **{name: value})
    with pytest.raises(NmtError, match=rf"{name}={value}.*unset RANK, WORLD_SIZE"):
        check_variables()
    assert rank() in (0, 3, 4)  # the error itself is said with it


SLURM_JOB = {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_NPROCS": "2", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
ONE_TASK, TWO_TASKS = ({"SLURM_STEP_NUM_TASKS": count, "SLURM_STEP_ID": "0"} for count in "12")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"RANK": "1", "WORLD_SIZE": "2"}, "WORLD_SIZE=2 without MASTER_ADDR and MASTER_PORT: "),
        (SLURM_JOB | TWO_TASKS, "SLURM_STEP_NUM_TASKS=2: srun has started 2 processes"),
        (SLURM_JOB | TWO_TASKS | RANK_3, None),
        (SLURM_JOB | ONE_TASK, None),
        (SLURM_JOB | TWO_TASKS | {"SLURM_STEP_ID": "4294967290"}, None),
    ],
)
def test_processes_that_do_not_know_of_each_other_train_nothing(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str | None
) -> None:
    for name in ("SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if words is None:
        check_launch()
        return
    with pytest.raises(NmtError, match=f"^{words}.*--nproc-per-node.*torchrun.*unset") as refused:
        check_launch()
    for name in re.findall("[A-Z_]+", str(refused.value).rpartition("unset ")[2]):
        monkeypatch.delenv(name, raising=False)
    check_launch()


def test_a_command_says_whether_it_takes_part(monkeypatch: pytest.MonkeyPatch) -> None:
    launch(monkeypatch, TORCHELASTIC_RUN_ID="x")
    with terminal.reporting(rank_of_a_job=True):
        known = any(name in os.environ for name in (*OF_A_LAUNCHER, "TORCHELASTIC_RUN_ID"))
        assert is_launched() and known


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can be asked for this")
@pytest.mark.parametrize(("launcher", "number"), [("its parent", 15), ("another process", 0)])
def test_a_process_ends_with_the_program_that_says_it_has_started_it(launcher: str | None, number: int) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TORCHELASTIC_RUN_ID"}
    if launcher is not None:
        environment[LAUNCHER] = str(os.getpid() if launcher == "its parent" else 1)
    program = (
        "import ctypes\nfrom nmt.distributed import environment\nenvironment.terminate_with_launcher()\n"
        "found = ctypes.c_int()\nctypes.CDLL(None).prctl(2, ctypes.byref(found))  # PR_GET_PDEATHSIG\n"
        "print(found.value)"
    )
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == number
