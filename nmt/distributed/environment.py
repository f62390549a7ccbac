"""The environment variables of launchers: the rank of this process in its job, and the start of the job.

This module does not import PyTorch, so that a command can read the variables before it loads PyTorch.
"""

import ctypes
import hashlib
import math
import os
import re
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from nmt.errors import NmtError

STARTED = "NMT_STARTED"  # seconds since 1970, set by a launcher that restarts ranks
SAVED = "saved"  # the name of the file that `mark_saved` creates
LAUNCHER = "NMT_LAUNCHER"  # the process ID of a program that starts nmt; nmt ends when that program ends
FILE_JOB = "NMT_FILE_JOB"  # set for ranks that translate a file together: the name of their job
_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_VARIABLES = (*_NEEDED, "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# Variables with the number of processes that a program has started together. SLURM_NTASKS is not one of them, because
# it is also set in a batch script, which runs once.
_COUNTS = {
    "SLURM_STEP_NUM_TASKS": "srun",
    "OMPI_COMM_WORLD_SIZE": "mpirun",
    "MV2_COMM_WORLD_SIZE": "mpirun",
    "PMI_SIZE": "mpirun",
}
# The first of SLURM's reserved step IDs (slurm.h), such as that of the shell that salloc opens.
_FIRST_RESERVED_STEP = 0xFFFFFFF0


def is_launched() -> bool:
    """Whether a launcher started this process."""
    return all(name in os.environ for name in _NEEDED)


def rank() -> int:
    """The rank of this process in its job, from 0; 0 without a launcher."""
    return int(os.environ["RANK"]) if is_launched() and _is_number("RANK") else 0


def ignore_launcher() -> None:
    """Remove the launcher's variables, which some schedulers set for every process, unless nmt itself set them."""
    if FILE_JOB not in os.environ:
        for name in list(os.environ):
            if name in _VARIABLES or name.startswith("TORCHELASTIC_"):
                del os.environ[name]


def check_variables() -> None:
    """Raises NmtError if the launcher's variables are invalid."""
    if not is_launched():
        return
    remedy = "a launcher sets these; to train in one process, unset RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"):
        if name in os.environ and not _is_number(name):
            raise NmtError(f"{name}={os.environ[name]}: not a whole number: {remedy}")
    for name, count_name in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        value, count = os.environ.get(name, "0"), os.environ.get(count_name, "1")
        if int(value) >= int(count):
            raise NmtError(f"{name}={value} with {count_name}={count}: {name} must be less than {count_name}: {remedy}")


def check_launch() -> None:
    """Raises NmtError if this process is one of several that were started together but cannot find each other, as with
    `srun -n 2` and `mpirun`: each would train its own model. For commands that train one model."""
    if is_launched():
        return
    for name, single in {"WORLD_SIZE": "1", "RANK": "0"}.items():
        if (os.environ.get(name) or single) != single:
            missing = " and ".join(needed for needed in _NEEDED if needed not in os.environ)
            raise NmtError(
                f"{name}={os.environ[name]} without {missing}: the ranks cannot find each other, and each would train "
                f"its own model: set {missing} too, or start them with nmt train --nproc-per-node or torchrun; to "
                "train in one process, unset RANK and WORLD_SIZE"
            )
    for name, program in _COUNTS.items():
        count = int(os.environ[name]) if _is_number(name) else 1
        shell = name.startswith("SLURM") and _step() >= _FIRST_RESERVED_STEP
        if count > 1 and not shell:
            raise NmtError(
                f"{name}={count}: {program} has started {count} processes that cannot find each other, and each would "
                f"train its own model: start one process with nmt train --nproc-per-node {count}, or one torchrun on "
                "each machine, as in the script that nmt init --slurm writes; to train separate models, "
                f"unset {name}"
            )


def _is_number(name: str) -> bool:
    return re.fullmatch("[0-9]{1,9}", os.environ.get(name, "")) is not None


def _step() -> int:
    """The ID of the SLURM step that this process belongs to; 0 without a step."""
    text = os.environ.get("SLURM_STEP_ID", "")
    return int(text) if re.fullmatch("[0-9]{1,10}", text) else 0


def logged_by_another_rank(message: str) -> bool:
    """Whether another rank on this machine has logged this message: False for the first rank that calls this function,
    and without PyTorch's launcher."""
    folder = _shared_folder()
    if folder is None:
        return False
    try:
        (folder / f"logged-{hashlib.sha256(message.encode()).hexdigest()}").touch(exist_ok=False)
    except OSError as error:  # on any other error the message may be logged twice, which is better than never
        return isinstance(error, FileExistsError)
    return False


def mark_saved() -> None:
    """Tell the launcher that everything is saved, even if a signal ended training. Only the first rank, which saves,
    tells it."""
    if not rank() and (folder := _shared_folder()):
        with suppress(OSError):  # the launcher then reports the signal
            (folder / SAVED).touch()


def _shared_folder() -> Path | None:
    """The folder that PyTorch's launcher creates for the ranks of a machine; None without this launcher."""
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    return Path(error_file).parent.parent if error_file else None


def seconds_since_launch() -> float:
    """The running time of the job, restarts included; 0 if NMT_STARTED is not set. Raises NmtError if it is not a
    number."""
    if STARTED not in os.environ:
        return 0.0
    try:
        started = float(os.environ[STARTED])
    except ValueError:
        started = math.nan
    if not math.isfinite(started):
        raise NmtError(f"{STARTED}={os.environ[STARTED]}: not a time in seconds since 1970: set it by $(date +%s)")
    return max(0.0, time.time() - started)


def terminate_with_launcher() -> None:
    """Ask Linux to send this process SIGTERM when its launcher ends, even if it was killed. Training then saves and
    ends.

    Call it early, because a launcher that has already ended is not noticed. The launcher is PyTorch's, or the program
    that has put its process ID into NMT_LAUNCHER. Otherwise nothing is done: if a scheduler starts the ranks, the
    parent may be a shell.
    """
    launched = "TORCHELASTIC_RUN_ID" in os.environ or os.environ.get(LAUNCHER) == str(os.getppid())
    if sys.platform == "linux" and launched:
        pr_set_pdeathsig = 1  # sys/prctl.h
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
