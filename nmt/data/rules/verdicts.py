"""What the rules say of many chunks of pairs: computed here, or by several processes where there are many."""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from itertools import compress
from multiprocessing import get_context, parent_process
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from nmt.config import schema
from nmt.data.corpus import Pair
from nmt.data.rules.examples import DropExamples
from nmt.data.rules.judge import judge, rules_of
from nmt.data.rules.near_duplicates import folded_hashes
from nmt.errors import NmtError

T = TypeVar("T")

FIRST_CHUNKS = 64  # that are done before other processes start: each of those needs seconds to load what it needs

_rules = cache(rules_of)  # in each process, as they cannot be sent to another


class Job(NamedTuple):
    """A chunk of pairs and the rules for it."""

    pairs: Sequence[Pair]
    scores: npt.NDArray[np.float32] | None  # [pairs], for the rule on scores
    clean: schema.CleaningConfig
    languages: tuple[str, str]  # of source and target


class Verdict(NamedTuple):
    """What the rules say of a chunk."""

    kept: npt.NDArray[np.bool_]  # [pairs]
    dropped: dict[str, int]  # by each rule
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept, for finding near-duplicates


def verdict(job: Job) -> Verdict:
    judgement, examples = judge(job.pairs, _rules(job.clean, job.languages), job.scores), DropExamples()
    examples.add(job.pairs, judgement)
    dropped = {rule.name: int((judgement.dropped_by == number).sum()) for number, rule in enumerate(judgement.rules)}
    kept = list(compress(job.pairs, judgement.kept.tolist()))
    return Verdict(judgement.kept, dropped, examples, folded_hashes(kept if job.clean.near_duplicates else []))


def verdicts(jobs: Iterable[tuple[T, Job]], processes: int) -> Iterator[tuple[T, Verdict]]:
    """The verdict on each job, in the order of the jobs, beside what came with the job. At most two jobs for each
    process are under way at a time. Raises NmtError if such a process is killed."""
    jobs, waiting = iter(jobs), deque[tuple[T, Future[Verdict]]]()
    for number, (with_it, job) in enumerate(jobs, start=1):
        yield with_it, verdict(job)
        if processes > 1 and number == FIRST_CHUNKS:
            break
    else:
        return
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin_process)
    try:
        for with_it, job in jobs:
            waiting.append((with_it, pool.submit(verdict, job)))
            if len(waiting) > 2 * processes:
                yield waiting[0][0], waiting.popleft()[1].result()
        while waiting:
            yield waiting[0][0], waiting.popleft()[1].result()
    except BrokenProcessPool:
        raise NmtError(
            "data.clean: a process that applies the rules was killed, perhaps for lack of memory: run the command "
            "again, or set data.workers to a lower number than "
            f"{processes}"
        ) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin_process() -> None:
    import torch

    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process as soon as the one that started it has ended, even if that was killed."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
