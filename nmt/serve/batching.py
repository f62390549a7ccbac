"""The queue between requests and the translator. Waiting requests are translated together."""

import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain

from nmt.config.language_pairs import LanguagePair
from nmt.config.special_subwords import TERM_TAGS
from nmt.decoding import unwritable
from nmt.decoding.translator import Translation, Translator
from nmt.errors import NmtError
from nmt.files.notes import counted
from nmt.serve.glossaries import GlossaryFile
from nmt.terms.glossary import Glossary

log = logging.getLogger("nmt")

NBest = list[list[Translation]]  # the translations of each line, best first

_SUBWORDS_PER_LINE = 100  # maximum mean length of waiting lines: several times the length of an ordinary line
# Bytes in an answer.
_SUBWORD = 64  # of a subword: in the text, in the list of subwords, and its score
_WEIGHT = 9  # of a number in an alignment: `0.123456,`
_TRANSLATION = 270  # of the names of the fields, score, log-probability, lengths and confidence
_TERM = 150  # of a glossary term


class QueueFull(Exception):
    """The queue is full. retry_after: the expected number of seconds until it has room."""

    def __init__(self, retry_after: int):
        super().__init__(f"too many lines are waiting: try again in {retry_after} s")
        self.retry_after = retry_after


class AnswerTooLarge(Exception):
    """The answer to a request could be larger than the limit."""


class EndpointFailed(Exception):
    """The endpoint did not translate. The message has one line. for_all: it would not translate other lines either."""

    def __init__(self, message: str, for_all: bool):
        super().__init__(message)
        self.for_all = for_all


@dataclass
class Totals:
    """Counts of what was translated since the start, and the time spent translating."""

    batches: int = 0
    lines: int = 0
    subwords: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class BatchOptions:
    """Options that are equal for all lines of a batch."""

    n_best: int = 1
    alignment: bool = False
    token_scores: bool = True
    pair: LanguagePair | None = None  # None: the model has only one
    keep: tuple[str, ...] = ()  # patterns besides those of decoding.keep
    terms: tuple[tuple[str, str], ...] = ()  # entries of a Glossary, in place of that of the service


@dataclass(frozen=True)
class _Waiting:
    lines: list[str]
    options: BatchOptions
    subwords: int
    answer: "Future[NBest]" = field(default_factory=Future)


@dataclass(frozen=True)
class Offer:
    """What a queue gives for a line. n_best: most translations; aligns: alignments; has_scores: scores of translations,
    and their subwords; keep: patterns of protected text; uses_terms: whether it can use glossaries; low_confidence: a
    lower confidence is called low, None: translations have none."""

    n_best: int
    aligns: bool
    has_scores: bool
    keep: tuple[str, ...]
    uses_terms: bool = True
    low_confidence: float | None = None


class RequestQueue(ABC):
    """A queue of requests. As many requests as fit into one batch are translated together, in one thread.

    A request is translated immediately if the translator is free. The more requests wait, the larger the batches.
    """

    offer: Offer
    close_seconds: float | None = None  # to wait for the last batch; None: until it is translated

    def __init__(self, max_waiting: int, glossary: GlossaryFile | None = None):
        """max_waiting: maximum number of waiting lines, with 100 subwords each on average. Lines that are being
        translated do not count. Raises NmtError for a glossary if it cannot use one."""
        self._file = glossary
        if glossary and not self.offer.uses_terms:
            raise NmtError("--glossary: this model cannot use a glossary: leave it out")
        if glossary:
            self._report(glossary)
        self.max_waiting = max_waiting
        self.max_subwords = _SUBWORDS_PER_LINE * max_waiting
        self.totals = Totals()
        self._waiting: list[_Waiting] = []
        self._closed = False
        self._changed = threading.Condition()
        self._worker = threading.Thread(target=self._work, name="translating", daemon=True)
        self._worker.start()

    @abstractmethod
    def _lengths(self, lines: list[str], options: BatchOptions) -> list[int]:
        """The number of subwords of each line. Raises NmtError for lines and options that cannot be translated."""

    def _answer_bytes(self, lengths: Sequence[int], options: BatchOptions) -> int:
        """The estimated maximum size in bytes of an answer in JSON; 0: unknown. lengths: of the lines, in subwords."""
        return 0

    @abstractmethod
    def _room(self) -> int:
        """The most subwords of several requests that are translated together."""

    @abstractmethod
    def _translations(self, lines: list[str], options: BatchOptions) -> NBest:
        """The translations of each line, best first."""

    def _report(self, file: GlossaryFile) -> None:
        """Log what a user should know about a glossary that was read."""
        log.info("glossary: %s: %s", file.path, counted(len(file.glossary.terms), "term", "terms"))

    def _glossary(self, options: BatchOptions) -> Glossary | None:
        """The terms of a request, or else those of the service."""
        if options.terms:
            return Glossary(options.terms)
        return None if self._file is None else self._file.glossary

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
        self, lines: Sequence[str], options: BatchOptions | None = None, max_answer: int | None = None
    ) -> "Future[NBest]":
        """Adds lines to the queue. Returns a future with the translations of each line, best first. Cancel the future
        to leave the queue. max_answer: maximum estimated bytes of an answer with all fields of the translations.

        Raises immediately: NmtError for options and lines that cannot be translated, AnswerTooLarge, QueueFull, and
        RuntimeError if the queue is closed. An empty queue accepts any number of subwords, because a long request would
        not get more room later.
        """
        options = options or BatchOptions()
        lengths = self._lengths(list(lines), options)
        size = self._answer_bytes(lengths, options)
        if max_answer is not None and size > max_answer:
            fix = "send less text, ask for fewer translations, or leave out the alignment"
            raise AnswerTooLarge(
                f"the answer could have {size / 2**20:,.1f} MiB, more than {max_answer / 2**20:,.1f}: {fix}"
            )
        request = _Waiting(list(lines), options, sum(lengths))
        with self._changed:
            if self._closed:
                raise RuntimeError("the queue is closed")
            subwords = self.waiting_subwords
            too_many_subwords = subwords > 0 and subwords + request.subwords > self.max_subwords
            if self.waiting + len(lines) > self.max_waiting or too_many_subwords:
                raise QueueFull(self._seconds(subwords))
            self._waiting.append(request)
            self._changed.notify()
        return request.answer

    def close(self) -> None:
        """Refuse new requests, and wait until all waiting requests are translated, at most `close_seconds`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._worker.join(self.close_seconds)

    def _seconds(self, subwords: int) -> int:
        """The expected time to translate this many subwords, at the mean speed so far; at least 1 second."""
        totals = self.totals
        return max(1, math.ceil(subwords * totals.seconds / totals.subwords)) if totals.subwords else 1

    def _work(self) -> None:
        while batch := self._next_batch():
            started = time.perf_counter()
            if self._file and self._file.read_again():
                self._report(self._file)
            self._translate(batch)
            self.totals.batches += 1
            self.totals.lines += sum(len(request.lines) for request in batch)
            self.totals.subwords += sum(request.subwords for request in batch)
            self.totals.seconds += time.perf_counter() - started

    def _next_batch(self) -> list[_Waiting]:
        """The first request, and others with the same options that fit into one search with it. Empty if the queue is
        closed."""
        room = self._room()
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                batch: list[_Waiting] = []
                later: list[_Waiting] = []
                for request in self._waiting:
                    fits = not batch or (request.options == batch[0].options and request.subwords <= room)
                    if not fits:
                        later.append(request)
                    elif request.answer.set_running_or_notify_cancel():
                        batch.append(request)
                        room -= request.subwords
                self._waiting = later
                if batch or self._closed:
                    return batch

    def _translate(self, batch: list[_Waiting]) -> None:
        lines = list(chain.from_iterable(request.lines for request in batch))
        try:
            translations = self._translations(lines, batch[0].options)
        except Exception as error:
            for_all = len(batch) == 1 or (isinstance(error, EndpointFailed) and error.for_all)
            for request in batch:
                if for_all:
                    request.answer.set_exception(error)
                else:  # so that only the request that fails gets the error
                    self._translate([request])
            return
        for request in batch:
            request.answer.set_result(translations[: len(request.lines)])
            del translations[: len(request.lines)]


class BatchingQueue(RequestQueue):
    """A queue of requests to a model. The translation of a line does not depend on the other lines, except for rounding
    in the last digits of its scores, and with CTranslate2 for an output that reaches the length limit."""

    def __init__(self, translator: Translator, max_waiting: int, glossary: GlossaryFile | None = None):
        decoding, aligns = translator.decoding, translator.engine.aligns
        self.translator = translator
        uses_terms = aligns or translator.vocabulary.source.tag(TERM_TAGS[0]) is not None
        low = None if translator.calibration is None else translator.calibration.low
        self.offer = Offer(decoding.beam_size, aligns, True, decoding.keep, uses_terms, low)
        super().__init__(max_waiting, glossary)

    def _report(self, file: GlossaryFile) -> None:
        super()._report(file)
        unwritable.warn(f"{file.path}: target terms", file.glossary.targets, self.translator.vocabulary.target)

    def _lengths(self, lines: list[str], options: BatchOptions) -> list[int]:
        decoding, longest = self.translator.decoding, self.translator.longest_source
        if options.n_best > decoding.beam_size:
            raise NmtError(f"n_best: {options.n_best} is more than the beam size, {decoding.beam_size}")
        pair = options.pair or self.translator.languages.choose()
        encoded = self.translator.vocabulary.source.encode(self.translator.as_read(lines, pair))
        lengths = [len(ids) for ids in encoded]
        for line_number, length in enumerate(lengths, start=1):
            if decoding.long_input != "split" and longest is not None and length > longest:
                raise NmtError(f"line {line_number} has {length} subwords, more than {longest}: shorten or split it")
        return lengths

    def _answer_bytes(self, lengths: Sequence[int], options: BatchOptions) -> int:
        has_glossary = bool(options.terms or self._file)
        terms = has_glossary * sum(lengths) * options.n_best  # at most: a term has at least one subword
        return answer_bytes(self.translator, lengths, options) + _TERM * terms

    def _room(self) -> int:
        return self.translator.batch_tokens // self.translator.decoding.beam_size

    def _translations(self, lines: list[str], options: BatchOptions) -> NBest:
        source, target = options.pair or (None, None)
        return self.translator.hypotheses(
            lines,
            options.n_best,
            alignment=options.alignment,
            token_scores=options.token_scores,
            keep=options.keep,
            glossary=self._glossary(options),
            to=target,
            from_=source or None,
        )


def answer_bytes(translator: Translator, lengths: Sequence[int], options: BatchOptions) -> int:
    """The estimated maximum size in bytes of an answer in JSON. lengths: of the lines, in subwords. The same answer
    takes about four times as much memory before it is JSON."""
    total = 0
    for length in lengths:
        part = min(length, translator.longest_part or length)  # longer lines are translated in parts
        parts = math.ceil(length / part) if part else 1
        subword = _SUBWORD + (_WEIGHT * (part + 1) if options.alignment else 0)
        total += parts * (_TRANSLATION + subword * (translator.longest_output(part) + 1))
    return total * options.n_best
