"""The queue between requests and the translator: what waits together is translated together."""

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError

Found = list[list[Translation]]  # of each line the n best, best first


class QueueFull(Exception):
    """Too many lines wait already; `retry_after` is in how many whole seconds there should be room."""

    def __init__(self, retry_after: int):
        super().__init__(f"too many lines are waiting: try again in {retry_after} s")
        self.retry_after = retry_after


@dataclass
class Tally:
    """What the queue has done; `busy` are the seconds that it took."""

    batches: int = 0
    lines: int = 0
    subwords: int = 0
    busy: float = 0.0


@dataclass(frozen=True)
class _Request:
    lines: list[str]
    kind: tuple[int, bool]  # n_best, alignment: one call of the translator has one of each
    subwords: int
    answer: "Future[Found]" = field(default_factory=Future)


class BatchingQueue:
    """Requests wait here while the translator is busy; then as many as one search holds go in together.

    None waits for others to come: alone, a request is translated at once, and the more wait, the larger the batches.
    What a line's translation is does not depend on its company, but for rounding in the last digits of its scores.
    """

    def __init__(self, translator: Translator, most_waiting: int):
        """At most `most_waiting` lines wait, those being translated not counted."""
        self.translator, self.most_waiting = translator, most_waiting
        self.tally = Tally()
        self._waiting: list[_Request] = []
        self._closed = False
        self._changed = threading.Condition()
        self._worker = threading.Thread(target=self._work, name="translating", daemon=True)
        self._worker.start()

    @property
    def waiting(self) -> int:
        """Lines that wait."""
        with self._changed:
            return sum(len(request.lines) for request in self._waiting)

    @property
    def alive(self) -> bool:
        return self._worker.is_alive()

    def submit(self, lines: Sequence[str], n_best: int = 1, alignment: bool = False) -> "Future[Found]":
        """What `Translator.hypotheses` gives for these lines, later. Cancelled while it waits, it is not translated.

        Raises NmtError at once for more than the beam holds and for a line that the model cannot take whole,
        QueueFull where there is no room, and RuntimeError when closed.
        """
        subwords = self._check(list(lines), n_best)
        request = _Request(list(lines), (n_best, alignment), subwords)
        with self._changed:
            if self._closed:
                raise RuntimeError("the queue is closed")
            waiting = sum(len(other.lines) for other in self._waiting)
            if waiting + len(lines) > self.most_waiting:
                raise QueueFull(self._seconds(waiting + len(lines) - self.most_waiting))
            self._waiting.append(request)
            self._changed.notify()
        return request.answer

    def close(self) -> None:
        """Take no more, and return when all that waits is translated."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join()

    def _check(self, lines: list[str], n_best: int) -> int:
        """The subwords of all lines. NmtError for what the translator would refuse or, worse, cut."""
        decoding, limit = self.translator.decoding, self.translator.longest_source
        if n_best > decoding.beam_size:
            raise NmtError(f"{n_best} best translations asked for: at most {decoding.beam_size}, the beam's size")
        lengths = [len(ids) for ids in self.translator.vocabulary.source.encode(lines)]
        if decoding.long_input in ("cut", "skip", "error"):
            for number, length in enumerate(lengths, start=1):
                if limit is not None and length > limit:
                    raise NmtError(f"line {number}: {length} subwords, more than {limit}: shorten or split it")
        return sum(lengths)

    def _seconds(self, lines: int) -> int:
        """In how many seconds so many lines should be done, by the pace so far; at least one."""
        pace = self.tally.lines / self.tally.busy if self.tally.busy else math.inf
        return max(1, math.ceil(lines / pace))

    def _work(self) -> None:
        while batch := self._next_batch():
            started = time.perf_counter()
            self._translate(batch)
            self.tally.batches += 1
            self.tally.lines += sum(len(request.lines) for request in batch)
            self.tally.subwords += sum(request.subwords for request in batch)
            self.tally.busy += time.perf_counter() - started

    def _next_batch(self) -> list[_Request]:
        """The request that came first and those of its kind that fit into one search with it; none: closed."""
        room = self.translator.decoding.batch_tokens // self.translator.decoding.beam_size
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                batch: list[_Request] = []
                left: list[_Request] = []
                for request in self._waiting:
                    fits = not batch or (request.kind == batch[0].kind and request.subwords <= room)
                    if not fits:
                        left.append(request)
                    elif request.answer.set_running_or_notify_cancel():
                        batch.append(request)
                        room -= request.subwords
                self._waiting = left
                if batch or self._closed:
                    return batch

    def _translate(self, batch: list[_Request]) -> None:
        lines = [line for request in batch for line in request.lines]
        n_best, alignment = batch[0].kind
        try:
            found = self.translator.hypotheses(lines, n_best, alignment=alignment)
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
                return
            for request in batch:  # only whose fault it is shall hear of it
                self._translate([request])
            return
        for request in batch:
            request.answer.set_result(found[: len(request.lines)])
            del found[: len(request.lines)]
