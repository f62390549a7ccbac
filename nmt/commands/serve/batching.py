"""The queue between requests and the translator: what waits together is translated together."""

import math
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from nmt.commands.serve.answer_size import AnswerSize
from nmt.decoding import long_input
from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError

Found = list[list[Translation]]  # of each line the n best, best first

MOST_ANSWER = 32 * 2**20  # bytes
_SUBWORDS_A_LINE = 100  # for each line that may wait: so many subwords may wait; several times an ordinary line


class QueueFull(Exception):
    """Too much waits already; `retry_after` is in how many whole seconds there should be room."""

    def __init__(self, retry_after: int):
        super().__init__(f"too many lines are waiting: try again in {retry_after} s")
        self.retry_after = retry_after


class AnswerTooLarge(Exception):
    """The answer to a request could be larger than is allowed."""

    def __init__(self, size: int, most: int):
        super().__init__(f"the answer could have {size / 2**20:,.1f} MiB, more than {most / 2**20:,.1f}")


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

    def __init__(self, translator: Translator, most_waiting: int, most_answer: int = MOST_ANSWER):
        """At most `most_waiting` lines wait, of 100 subwords each on average, those being translated not counted.
        An answer has at most `most_answer` bytes."""
        self.translator, self.most_waiting, self.most_answer = translator, most_waiting, most_answer
        self.most_subwords = _SUBWORDS_A_LINE * most_waiting
        self.tally = Tally()
        self._size = AnswerSize(translator)
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
    def waiting_subwords(self) -> int:
        """Source subwords of these lines."""
        with self._changed:
            return sum(request.subwords for request in self._waiting)

    @property
    def full(self) -> bool:
        """Whether not even one more line would be taken."""
        return self.waiting >= self.most_waiting or self.waiting_subwords >= self.most_subwords

    @property
    def alive(self) -> bool:
        return self._worker.is_alive()

    def submit(self, lines: Sequence[str], n_best: int = 1, alignment: bool = False) -> "Future[Found]":
        """What `Translator.hypotheses` gives for these lines, later. Cancelled while it waits, it is not translated.

        Raises NmtError at once for more than the beam holds and for a line that the model cannot take whole,
        AnswerTooLarge, QueueFull where there is no room, and RuntimeError when closed. What waits alone may have any
        number of subwords: it would have no room later either.
        """
        parts = self._parts(list(lines), n_best)
        size = self._size.most(parts, n_best, alignment)
        if size > self.most_answer:
            raise AnswerTooLarge(size, self.most_answer)
        request = _Request(list(lines), (n_best, alignment), sum(parts))
        with self._changed:
            if self._closed:
                raise RuntimeError("the queue is closed")
            more_lines = sum(len(other.lines) for other in self._waiting) + len(lines) - self.most_waiting
            before = sum(other.subwords for other in self._waiting)
            more_subwords = before + request.subwords - self.most_subwords if before else 0
            if more_lines > 0 or more_subwords > 0:
                raise QueueFull(self._seconds(more_lines, more_subwords))
            self._waiting.append(request)
            self._changed.notify()
        return request.answer

    def close(self) -> None:
        """Take no more, and return when all that waits is translated."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join()

    def _parts(self, lines: list[str], n_best: int) -> list[int]:
        """The subwords of each part that the lines are translated in: the whole line, most often.

        NmtError for what the translator would refuse or, worse, cut.
        """
        decoding, limit = self.translator.decoding, self.translator.longest_source
        if n_best > decoding.beam_size:
            raise NmtError(f"{n_best} best translations asked for: at most {decoding.beam_size}, the beam's size")
        encode = self.translator.vocabulary.source.encode
        parts: list[int] = []
        for number, (line, ids) in enumerate(zip(lines, encode(lines), strict=True), start=1):
            if limit is None or len(ids) <= limit:
                parts.append(len(ids))
            elif decoding.long_input == "split":
                parts += [len(part.ids) for part in long_input.split(line, limit, encode)]
            else:
                raise NmtError(f"line {number}: {len(ids)} subwords, more than {limit}: shorten or split it")
        return parts

    def _seconds(self, lines: int, subwords: int = 0) -> int:
        """In how many seconds this many should be done, by the pace so far; at least one."""
        tally = self.tally
        paces = [(lines, tally.lines), (subwords, tally.subwords)]
        return max([1, *(math.ceil(more * tally.busy / done) for more, done in paces if done)])

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
