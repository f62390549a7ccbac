"""Real processes that are the ranks of one job, started once and then given one function after another."""

import datetime
import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from nmt.distributed.ranks import Ranks

SECONDS = 120  # after which what has not answered hangs


class RankProcesses:
    """Call it with a function of a module and its arguments: every rank runs `function(ranks, *arguments)`.

    Returns what the ranks returned, in their order. A rank that raises, dies or hangs fails the test, and the
    next call finds new processes.
    """

    def __init__(self, size: int, folder: Path) -> None:
        self._size, self._folder, self._jobs = size, folder, 0
        self._processes: list[multiprocessing.process.BaseProcess] = []
        self._pipes: list[Connection] = []

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        if not self._processes:
            self._start()
        for pipe in self._pipes:
            pipe.send((function, arguments))
        try:
            return self._answers()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        self._processes, self._pipes = [], []

    def _start(self) -> None:
        self._jobs += 1
        context = multiprocessing.get_context("spawn")
        for rank in range(self._size):
            ours, theirs = context.Pipe()
            meeting = f"file://{self._folder}/meeting-{self._size}-{self._jobs}"
            process = context.Process(target=_serve, args=(rank, self._size, meeting, theirs), daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)

    def _answers(self) -> list[Any]:
        answers: dict[int, Any] = {}
        while len(answers) < self._size:
            waiting = [self._pipes[rank] for rank in range(self._size) if rank not in answers]
            ready = wait(waiting, SECONDS)
            assert ready, f"of {self._size} ranks only {sorted(answers)} have answered"
            for pipe in ready:  # the first that raises is the cause: others then wait for it
                rank = self._pipes.index(pipe)
                try:
                    answers[rank], raised = pipe.recv()
                except EOFError:
                    raise AssertionError(f"rank {rank} died") from None
                assert raised is None, f"rank {rank}: {raised}"
        return [answers[rank] for rank in range(self._size)]


def _serve(rank: int, size: int, meeting: str, pipe: Connection) -> None:
    torch.set_num_threads(1)
    timeout = datetime.timedelta(seconds=SECONDS / 2)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size, timeout=timeout)
    while True:
        try:
            function, arguments = pipe.recv()
        except EOFError:
            return
        try:
            answer = function(Ranks(rank, size, rank, size), *arguments), None
        except BaseException:  # such as what pytest.fail raises: the test is told of it, whatever it is
            answer = None, traceback.format_exc()
        pipe.send(answer)
