"""Process many chunks of text, in several processes if there are many chunks. Threads would not help, because most of
this work is Python code."""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

from nmt.errors import NmtError

T = TypeVar("T")
J = TypeVar("J")
R = TypeVar("R")

_work: Callable[[Any], Any]  # in a process that was started here


def mapped(
    work: Callable[[J], R], jobs: Iterable[tuple[T, J]], processes: int, serial_first: int, task: str
) -> Iterator[tuple[T, R]]:
    """Yield the result of each job, in the order of the jobs. jobs: pairs of a label, which is returned with the
    result, and a job.

    work: a function or an object that can be pickled. It is sent to each process once. serial_first: the number of jobs
    that are done before other processes are started. At most two jobs for each process are in progress at a time. task:
    what the processes do, for messages. Raises the exceptions of the work, and NmtError if a process is killed.
    """
    jobs, waiting = iter(jobs), deque[tuple[T, Future[R]]]()
    for done, (label, job) in enumerate(jobs, start=1):
        yield label, work(job)
        if processes > 1 and done == serial_first:
            break
    else:
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (work,))
    try:
        for label, job in jobs:
            waiting.append((label, _submitted(pool, job, processes)))
            if len(waiting) > 2 * processes:
                yield waiting[0][0], waiting.popleft()[1].result()
        while waiting:
            yield waiting[0][0], waiting.popleft()[1].result()
    except BrokenProcessPool:
        raise NmtError(
            f"a process that {task} was killed, perhaps for lack of memory: run the command again, or set data.workers "
            f"to a lower number than {processes}"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _submitted(pool: ProcessPoolExecutor, job: Any, processes: int) -> Future[Any]:
    try:
        return pool.submit(_do, job)  # which may start a process
    except OSError as error:
        raise NmtError(
            f"{processes} processes cannot be started: {error.strerror}: set data.workers to a lower number"
        ) from None


def _begin(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    os.environ["OMP_NUM_THREADS"] = "1"  # for libraries that are loaded afterwards
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _do(job: Any) -> Any:
    return _work(job)


def _end_with_parent() -> None:
    """End this process when its parent process ends, even if the parent was killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
