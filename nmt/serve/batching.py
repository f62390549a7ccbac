"""The queue between requests and the translator, which translates waiting requests together."""

import json
import math
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from nmt.config.language_pairs import LanguagePair
from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError

NBest = list[list[Translation]]  # the translations of each line, best first

MAX_ANSWER = 32 * 2**20  # bytes
DECIMALS = 6  # of a number in an alignment
_BYTES_PER_WEIGHT = DECIMALS + 3  # a number in an alignment: `0.123456,`
_BYTES_PER_SCORE = 25  # a token's score: `-0.00012345678871497512,`
_BYTES_PER_TRANSLATION = 200  # names of the fields, score and log-probability
_SUBWORDS_PER_LINE = 100  # that may wait, on average: several times the length of an ordinary line


class QueueFull(Exception):
    """The queue has no room; retry_after: the expected number of seconds until it has."""

    def __init__(self, retry_after: int):
        super().__init__(f"too many lines are waiting: try again in {retry_after} s")
        self.retry_after = retry_after


class AnswerTooLarge(Exception):
    """The answer to a request could be larger than allowed."""

    def __init__(self, size: int, limit: int):
        super().__init__(f"the answer could have {size / 2**20:,.1f} MiB, more than {limit / 2**20:,.1f}")


@dataclass
class Totals:
    """What was translated since the start, and the seconds that this took."""

    batches: int = 0
    lines: int = 0
    subwords: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class _Request:
    lines: list[str]
    # n_best, alignment, token_scores, languages, keep; the same for all requests of a batch
    options: tuple[int, bool, bool, LanguagePair | None, tuple[str, ...]]
    subwords: int
    answer: "Future[NBest]" = field(default_factory=Future)


class BatchingQueue:
    """Requests wait here while the translator is busy; then as many as fit into one search are translated together.

    A request is translated at once if the translator is free. The more requests wait, the larger the batches. The
    translation of a line does not depend on the other lines, except for rounding in the last digits of its scores.
    """

    def __init__(self, translator: Translator, max_waiting: int, max_answer: int = MAX_ANSWER):
        """max_waiting: most lines that wait, with 100 subwords each on average; lines in translation do not count.
        max_answer: most bytes of an answer."""
        self.translator, self.max_waiting, self.max_answer = translator, max_waiting, max_answer
        self.max_subwords = _SUBWORDS_PER_LINE * max_waiting
        self.totals = Totals()
        self._size = AnswerSize(translator)
        self._waiting: list[_Request] = []
        self._closed = False
        self._changed = threading.Condition()
        self._worker = threading.Thread(target=self._work, name="translating", daemon=True)
        self._worker.start()

    @property
    def waiting(self) -> int:
        """Lines in the queue."""
        with self._changed:
            return sum(len(request.lines) for request in self._waiting)

    @property
    def waiting_subwords(self) -> int:
        """Source subwords in the queue."""
        with self._changed:
            return sum(request.subwords for request in self._waiting)

    @property
    def full(self) -> bool:
        """Whether one more line would be refused."""
        return self.waiting >= self.max_waiting or self.waiting_subwords >= self.max_subwords

    @property
    def alive(self) -> bool:
        return self._worker.is_alive()

    def submit(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        alignment: bool = False,
        token_scores: bool = True,
        languages: LanguagePair | None = None,
        keep: tuple[str, ...] = (),
    ) -> "Future[NBest]":
        """The future result of `Translator.hypotheses` for these lines. Cancel it to leave the queue. languages: None
        where the model has only one pair. keep: patterns besides those of decoding.keep.

        Raises at once: NmtError if n_best is more than the beam size or a line is too long for the model,
        AnswerTooLarge, QueueFull, and RuntimeError if the queue is closed. An empty queue takes any number of subwords,
        because a long request would not get more room later.
        """
        parts = self._parts(list(lines), n_best, languages)
        size = self._size.upper_bound(parts, n_best, alignment)
        if size > self.max_answer:
            raise AnswerTooLarge(size, self.max_answer)
        request = _Request(list(lines), (n_best, alignment, token_scores, languages, keep), sum(parts))
        with self._changed:
            if self._closed:
                raise RuntimeError("the queue is closed")
            more_lines = self.waiting + len(lines) - self.max_waiting
            before = self.waiting_subwords
            more_subwords = before + request.subwords - self.max_subwords if before else 0
            if more_lines > 0 or more_subwords > 0:
                raise QueueFull(self._seconds(more_lines, more_subwords))
            self._waiting.append(request)
            self._changed.notify()
        return request.answer

    def close(self) -> None:
        """Refuse new requests, and return when all waiting ones are translated."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join()

    def _parts(self, lines: list[str], n_best: int, languages: LanguagePair | None = None) -> list[int]:
        """Subwords of each part; usually a line is one. Raises NmtError for lines that would be refused or cut."""
        decoding, limit = self.translator.decoding, self.translator.longest_source
        pair = languages or self.translator.languages.choose()
        splitter = self.translator.splitter(pair.source)
        if n_best > decoding.beam_size:
            raise NmtError(f"n_best: {n_best} is more than the beam size, {decoding.beam_size}")
        encode = self.translator.vocabulary.source.encode
        lines = self.translator.as_read(lines, pair)
        parts: list[int] = []
        for number, (line, ids) in enumerate(zip(lines, encode(lines), strict=True), start=1):
            if decoding.long_input == "split":
                in_one = splitter.fits(line, ids)
                parts += [len(ids)] if in_one else [len(part.ids) for part in splitter.split(line, ids)]
            elif limit is None or len(ids) <= limit:
                parts.append(len(ids))
            else:
                raise NmtError(f"line {number} has {len(ids)} subwords, more than {limit}: shorten or split it")
        return parts

    def _seconds(self, lines: int, subwords: int = 0) -> int:
        """The expected seconds for this many, at the speed so far; at least 1."""
        totals = self.totals
        speeds = [(lines, totals.lines), (subwords, totals.subwords)]
        return max([1, *(math.ceil(more * totals.seconds / done) for more, done in speeds if done)])

    def _work(self) -> None:
        while batch := self._next_batch():
            started = time.perf_counter()
            self._translate(batch)
            self.totals.batches += 1
            self.totals.lines += sum(len(request.lines) for request in batch)
            self.totals.subwords += sum(request.subwords for request in batch)
            self.totals.seconds += time.perf_counter() - started

    def _next_batch(self) -> list[_Request]:
        """The first request and those with the same options that fit into one search with it; empty if closed."""
        room = self.translator.batch_tokens // self.translator.decoding.beam_size
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                batch: list[_Request] = []
                left: list[_Request] = []
                for request in self._waiting:
                    fits = not batch or (request.options == batch[0].options and request.subwords <= room)
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
        n_best, alignment, token_scores, pair, keep = batch[0].options
        to, from_ = (None, None) if pair is None else (pair.target, pair.source or None)
        try:
            translations = self.translator.hypotheses(
                lines, n_best, alignment=alignment, token_scores=token_scores, keep=keep, to=to, from_=from_
            )
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
                return
            for request in batch:  # so that only the one that fails gets the error
                self._translate([request])
            return
        for request in batch:
            request.answer.set_result(translations[: len(request.lines)])
            del translations[: len(request.lines)]


class AnswerSize:
    """The largest JSON answer of a translator. Before it is JSON, it takes about four times as much memory."""

    def __init__(self, translator: Translator):
        self.translator = translator
        vocabulary = translator.vocabulary
        self._source_subword = _longest(vocabulary.source.every_piece())
        self._target_subword = _longest(vocabulary.target.every_piece())
        self._tags = translator.languages.tag_count()

    def upper_bound(self, parts: Iterable[int], n_best: int, alignment: bool) -> int:
        """Bytes for lines that are translated in parts of these lengths in subwords, each with n_best translations.

        Each subword of a translation is in the answer twice, in the text and alone with its score; the end of each part
        once. With the alignment it has a number for each source subword of its part.
        """
        total = 0
        for source in parts:
            per_subword = 2 * self._target_subword + _BYTES_PER_SCORE
            if alignment:
                per_subword += _BYTES_PER_WEIGHT * (self._tags + source + 1) + 2
                total += self._source_subword * (self._tags + source + 1)
            total += per_subword * (self.translator.longest_output(source) + 1) + _BYTES_PER_TRANSLATION
        return total * n_best


def _longest(subwords: Iterable[str]) -> int:
    """Bytes of the longest one as JSON, with a comma."""
    return max(len(json.dumps(subword, ensure_ascii=False).encode()) for subword in subwords) + 1
