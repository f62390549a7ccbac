"""What the launcher that started this process, as one rank of a job, has said to it: by environment variables.

Known without PyTorch, before that is loaded.
"""

import ctypes
import hashlib
import math
import os
import re
import signal
import sys
import time
from pathlib import Path

from nmt.errors import NmtError

STARTED = "NMT_STARTED"  # seconds since 1970, set by a launcher that starts ranks again
FILE_JOB = "NMT_FILE_JOB"  # set for ranks that translate a file together: which one
_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launched() -> bool:
    """Whether a launcher has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def rank() -> int:
    """Which process of a job with several this is; 0 if it is the first, or alone."""
    return _whole("RANK") or 0 if launched() else 0


def forget_launcher() -> None:
    """Take no part in a job, whatever some schedulers tell every process that they start.

    The ranks that nmt has started itself, to translate a file, stay what they are.
    """
    if FILE_JOB not in os.environ:
        for name in [name for name in os.environ if name in _LAUNCHERS or name.startswith("TORCHELASTIC_")]:
            del os.environ[name]


def check_launched() -> None:
    """Raises NmtError where what a launcher has said cannot be."""
    if not launched():
        return
    remedy = "a launcher sets these variables; unset RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT to train alone"
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"):
        if name in os.environ and _whole(name) is None:
            raise NmtError(f"{name}={os.environ[name]}: not a whole number: {remedy}")
    for one, of in (("RANK", "WORLD_SIZE"), ("LOCAL_RANK", "LOCAL_WORLD_SIZE")):
        if (_whole(one) or 0) >= (1 if _whole(of) is None else _whole(of) or 0):
            raise NmtError(
                f"{one}={os.environ.get(one)} with {of}={os.environ.get(of)}: ranks count from 0 and "
                f"end below {of}: {remedy}"
            )


def _whole(name: str) -> int | None:
    """The whole number that a variable holds, if it holds one."""
    value = os.environ.get(name, "")
    return int(value) if re.fullmatch("[0-9]{1,9}", value) else None


def said_by_another(message: str) -> bool:
    """Whether another rank on this machine has said this; if not, it counts as said by this one from now on.

    PyTorch's launcher gives each rank a folder, in one that they share; without it, nobody knows: False.
    """
    error_file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not error_file:
        return False
    shared = Path(error_file).parent.parent
    try:
        (shared / f"said-{hashlib.sha256(message.encode()).hexdigest()}").touch(exist_ok=False)
    except FileExistsError:
        return True
    except OSError:
        pass  # better said twice than never
    return False


def seconds_gone() -> float:
    """How long the job has been running before this process, its restarts included; 0 where nobody says.

    Raises NmtError where the variable that says it is not a number.
    """
    if STARTED not in os.environ:
        return 0.0
    try:
        started = float(os.environ[STARTED])
    except ValueError:
        started = math.nan
    if not math.isfinite(started):
        raise NmtError(f"{STARTED}={os.environ[STARTED]}: not a time in seconds since 1970: set it by $(date +%s)")
    return max(0.0, time.time() - started)


def end_with_the_launcher() -> None:
    """Have Linux send this process SIGTERM when its launcher is gone, however that came; training saves and ends then.

    The earlier the better: one that is gone already goes unnoticed. Without PyTorch's launcher, as where a scheduler
    starts the ranks, it does nothing: the parent may be a shell.
    """
    if sys.platform == "linux" and "TORCHELASTIC_RUN_ID" in os.environ:
        pr_set_pdeathsig = 1  # sys/prctl.h
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
