"""What the launcher that started this process, as one rank of a job, has said to it: by environment variables.

Known without PyTorch, before that is loaded.
"""

import ctypes
import hashlib
import os
import signal
import sys
import time
from pathlib import Path

STARTED = "NMT_STARTED"  # seconds since 1970, set by a launcher that starts ranks again


def launched() -> bool:
    """Whether a launcher has started this process."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def rank() -> int:
    """Which process of a job with several this is; 0 if it is the first, or alone."""
    return int(os.environ["RANK"]) if launched() else 0


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
    """How long the job has been running before this process, its restarts included; 0 where nobody says."""
    return max(0.0, time.time() - float(os.environ.get(STARTED, time.time())))


def end_with_the_launcher() -> None:
    """Have Linux send this process SIGTERM when its launcher is gone, however that came; training saves and ends then.

    The earlier the better: one that is gone already goes unnoticed. Without PyTorch's launcher, as where a scheduler
    starts the ranks, it does nothing: the parent may be a shell.
    """
    if sys.platform == "linux" and "TORCHELASTIC_RUN_ID" in os.environ:
        pr_set_pdeathsig = 1  # sys/prctl.h
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)
