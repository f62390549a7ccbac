"""Starts the ranks of a job on this machine with PyTorch's launcher, like `torchrun`."""

import logging
import os
import signal
import sys
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
from torch.distributed.launcher.api import LaunchConfig, elastic_launch

from nmt.distributed.environment import SAVED, STARTED
from nmt.distributed.stopping import SIGNALS
from nmt.machine import usable_cores

log = logging.getLogger("nmt")


def launch(arguments: Sequence[str], ranks: int, restarts: int) -> int:
    """Run `nmt ARGUMENTS` in `ranks` processes, each of which is a rank. Returns the exit status of the job.

    If a rank is killed (by the system, or by a crash outside Python), the others end and all are restarted, at most
    `restarts` times. If a rank ends with an error, which it has logged, the job ends.
    If a signal ends the job, the status is 0 if the ranks saved before they ended (`environment.mark_saved`).
    """
    os.environ.setdefault(STARTED, str(time.time()))  # training.max_seconds counts from the first start
    # A rank that is asked to stop finishes its step or validation and saves. PyTorch's default of 30 s is too short.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3600")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // ranks)))
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # the messages below replace PyTorch's
    for restart in range(restarts + 1):
        try:
            return _run_ranks(arguments, ranks)
        except ChildFailedError as failed:
            statuses = {rank: failure.exitcode for rank, failure in failed.failures.items()}
            killed = {rank: -status for rank, status in statuses.items() if status < 0}
            # The launcher ends the other ranks by SIGTERM. SIGTERM is the cause only if all failed ranks got it.
            if any(status != -signal.SIGTERM for status in statuses.values()):
                killed = {rank: signum for rank, signum in killed.items() if signum != signal.SIGTERM}
            for rank, signum in killed.items():
                log.error("rank %d was killed by %s", rank, signal.Signals(signum).name)
            if not killed:
                return 130 if 130 in statuses.values() else 1
            if restart < restarts:
                log.warning("restarting all ranks from the last save (restart %d of %d)", restart + 1, restarts)
    return 1


def _run_ranks(arguments: Sequence[str], ranks: int) -> int:
    """Start the ranks once. Returns the exit status of the job. Raises ChildFailedError if a rank fails."""
    with tempfile.TemporaryDirectory(prefix="nmt-ranks-") as folder:
        try:
            elastic_launch(_one_machine(ranks, folder), sys.executable)("-m", "nmt", *arguments)
        except SignalException as stopped:  # the ranks got the signal too, and have ended
            ordinary = stopped.sigval in SIGNALS and stopped.sigval != signal.SIGINT
            return 0 if ordinary and any(Path(folder).rglob(SAVED)) else 128 + stopped.sigval
    return 0


def _one_machine(ranks: int, folder: str) -> LaunchConfig:
    # Signals that are ignored here (by nohup, or by a shell for background jobs) stay ignored.
    handled = [signum for signum in {*SIGNALS, signal.SIGQUIT} if signal.getsignal(signum) != signal.SIG_IGN]
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        logs_specs=DefaultLogsSpecs(log_dir=folder),  # the launcher does not delete this folder
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        max_restarts=0,  # its own restarts do not distinguish a killed rank from a wrong setting
        signals_to_handle=",".join(signum.name for signum in handled),
    )
