"""Starts the ranks of a job on this machine with PyTorch's launcher, as `torchrun` does."""

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
from nmt.distributed.stopping import SIGNALS as STOPPING
from nmt.machine import usable_cores

log = logging.getLogger("nmt")


def launch(arguments: Sequence[str], ranks: int, restarts: int) -> int:
    """Run `nmt ARGUMENTS` in `ranks` processes, each of them a rank; returns the exit status of the job.

    If a rank is killed, by the system or a crash below Python, the others end and all are restarted, at most
    `restarts` times. If a rank ends with an error, which it has logged, the job ends.
    If a signal ends the job, the status is 0 where the ranks have saved before they ended: `environment.mark_saved`.
    """
    os.environ.setdefault(STARTED, str(time.time()))  # training.max_seconds counts from the first start
    # A rank that is to stop finishes its step or validation and saves. PyTorch's default of 30 s is too short.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "3600")
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, usable_cores() // ranks)))
    for name in list(logging.root.manager.loggerDict):
        if name.startswith("torch.distributed.elastic"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # the messages below replace its own
    for restart in range(restarts + 1):
        try:
            return _run_ranks(arguments, ranks)
        except ChildFailedError as failed:
            ended = {rank: failure.exitcode for rank, failure in failed.failures.items()}
            # The launcher ends the other ranks by SIGTERM: then a SIGTERM is not the cause.
            by_launcher = [-signal.SIGTERM] if any(status != -signal.SIGTERM for status in ended.values()) else []
            killed = {rank: -status for rank, status in ended.items() if status < 0 and status not in by_launcher}
            for rank, number in killed.items():
                log.error("rank %d was killed by %s", rank, signal.Signals(number).name)
            if not killed:
                return 130 if 130 in ended.values() else 1
            if restart < restarts:
                log.warning("restarting all ranks from the last save (restart %d of %d)", restart + 1, restarts)
    return 1


def _run_ranks(arguments: Sequence[str], ranks: int) -> int:
    """Start the ranks once; returns the exit status of the job. Raises ChildFailedError if one of them fails."""
    with tempfile.TemporaryDirectory(prefix="nmt-ranks-") as folder:
        try:
            elastic_launch(_one_machine(ranks, folder), sys.executable)("-m", "nmt", *arguments)
        except SignalException as stopped:  # the ranks got it too, and have ended
            ordinary = stopped.sigval in STOPPING and stopped.sigval != signal.SIGINT
            return 0 if ordinary and any(Path(folder).rglob(SAVED)) else 128 + stopped.sigval
    return 0


def _one_machine(ranks: int, folder: str) -> LaunchConfig:
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=ranks,
        logs_specs=DefaultLogsSpecs(log_dir=folder),  # which the launcher does not delete
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        max_restarts=0,  # its own restarts do not distinguish a killed rank from a wrong setting
        # Signals that are ignored here (by nohup, or a shell for background jobs) stay ignored.
        signals_to_handle=",".join(
            number.name for number in {*STOPPING, signal.SIGQUIT} if signal.getsignal(number) != signal.SIG_IGN
        ),
    )
