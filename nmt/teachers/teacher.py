"""A teacher: translates lines with an endpoint, several requests at once, and checks every answer."""

import asyncio
import json
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import count, islice
from pathlib import Path
from typing import Any, NamedTuple

from nmt.config.language_pairs import LanguagePair
from nmt.config.sections import DecodingConfig
from nmt.decoding.mbr import rank_by_agreement
from nmt.errors import NmtError
from nmt.teachers.answers import AnswerRules, CheckedAnswer
from nmt.teachers.client import Client, NoAnswer, Reply
from nmt.teachers.endpoint import Endpoint
from nmt.teachers.journal import Journal
from nmt.teachers.prompts import Prompts
from nmt.teachers.usage import BYTES_PER_TOKEN, LimitReached, TeacherCounts, Tokens, Usage

log = logging.getLogger("nmt")

_OPEN_CHUNKS = 2  # so that no request slot is unused at the end of a chunk
_TOGETHER_SECONDS = 0.05
_AGAIN_TEMPERATURE = 0.3  # at least, of further requests for a line: with 0 the answer would be the same


class Rejected(NamedTuple):
    """A line without a translation, and the last answer."""

    line_number: int
    reason: str
    source: str
    answer: str


class Chunk:
    """Lines that are translated together, and the result."""

    def __init__(
        self,
        lines: Sequence[str],
        prefixes: Sequence[str] | None = None,
        first_line: int = 1,
        journal: Journal | None = None,
    ) -> None:
        """prefixes: the beginning of each translation. first_line: the number of the first line, for messages."""
        self.lines, self.first_line, self.journal = lines, first_line, journal or Journal()
        self.candidates: list[list[str]] = [[""] for _ in lines]  # of each line, best first; [""]: no translation
        self.rejected: list[Rejected] = []
        self.indices: dict[tuple[str, str], list[int]] = {}  # of each different line with its prefix
        for i, (line, prefix) in enumerate(zip(lines, prefixes or [""] * len(lines), strict=True)):
            if line.strip():
                self.indices.setdefault((line, prefix), []).append(i)
        self.counts = TeacherCounts(len(lines), empty=len(lines) - sum(map(len, self.indices.values())))
        self.remaining = len(self.indices)
        self.is_done = asyncio.Event()
        if not self.remaining:
            self.is_done.set()


class Teacher:
    """Translates lines with an endpoint. `counts` grow with each chunk."""

    def __init__(self, endpoint: Endpoint, client: Client, prompts: Prompts, decoding: DecodingConfig) -> None:
        self.pair: LanguagePair = endpoint.pair
        self.counts = TeacherCounts()
        self.rejected = Counter[str]()  # lines without a translation in this command, by reason, also of open chunks
        self.usage = Usage(endpoint)
        self.on_lines: Callable[[int], object] = lambda lines: None  # called with the number of lines answered
        self._endpoint, self._client, self._prompts, self._decoding = endpoint, client, prompts, decoding
        # New in each event loop:
        self._requests: asyncio.Semaphore
        self._to_check: asyncio.Queue[tuple[str, list[str], asyncio.Future[list[CheckedAnswer]]]]

    @cached_property
    def _rules(self) -> AnswerRules:
        return AnswerRules(self._endpoint.clean, self.pair)

    def translate(self, lines: Sequence[str], prefixes: Sequence[str] | None = None) -> list[str]:
        """The translation of each line; empty for one without a translation, unless `rejected` is `keep`. Raises as
        `translate_chunks`."""
        return [candidates[0] for candidates in self.candidates(lines, 1, prefixes)]

    def candidates(
        self, lines: Sequence[str], n_best: int = 1, prefixes: Sequence[str] | None = None, first_line: int = 1
    ) -> list[list[str]]:
        """n_best samples of each line, or fewer if the others were no translations: by agreement if decoding.consensus
        is set. [""]: no translation. Raises as `translate_chunks`."""
        chunk = Chunk(lines, prefixes, first_line)
        self.translate_chunks([chunk], n_best)
        return chunk.candidates

    def translate_chunks(
        self, chunks: Iterable[Chunk], n_best: int = 1, done: Callable[[Chunk], object] = lambda chunk: None
    ) -> None:
        """Translate chunks, at most two at once, and call `done` with each, in their order.

        Raises NmtError if the service does not answer or refuses a request, and if the limit is reached: then the
        replies to all open requests have arrived.
        """
        self.check(n_best)
        self._rules  # noqa: B018 (loads the rules before the first request)
        try:
            asyncio.run(self._run(chunks, n_best, done))
        except BaseExceptionGroup as group:
            error: BaseException = group
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise error from None

    def samples(self, n_best: int) -> int:
        """The number of samples that are requested for each line."""
        return n_best if self._decoding.consensus == "none" else max(n_best, self._decoding.candidates)

    @property
    def sampling(self) -> dict[str, object]:
        """The settings of `decoding` on which translations depend."""
        return {name: getattr(self._decoding, name) for name in ("consensus", "candidates", "seed")}

    def check(self, n_best: int = 1, with_prefixes: bool = False) -> None:
        """Raises NmtError if there are to be several samples, and all would be the same, and for prefixes if the prompt
        is not a text."""
        if self.samples(n_best) > 1 and self.body("", "", 0, 1).get("temperature") == 0:
            raise NmtError("temperature: 0: all samples would be equal: set it in the endpoint's file, such as 0.7")
        if with_prefixes:
            self._prompts.check_text("--prefixes")

    def estimate(self, lines: int, size: int, samples: int) -> Tokens:
        """About how many tokens are used for lines of so many bytes together, whose translations are as long."""
        return (lines * self._prompt_bytes + size) / BYTES_PER_TOKEN, samples * size / BYTES_PER_TOKEN

    @cached_property
    def _prompt_bytes(self) -> int:
        return len(json.dumps(self._prompts.chat(""), ensure_ascii=False).encode())

    def body(self, line: str, prefix: str, request: int, samples: int) -> dict[str, Any]:
        """The request for a line. request: how many requests for this line there were before."""
        own = {
            "model": self._endpoint.model,
            "messages": self._prompts.chat(line, prefix),
            "temperature": max(self._endpoint.temperature, _AGAIN_TEMPERATURE if request else 0.0),
            "seed": self._decoding.seed + request,
            "n": samples if samples > 1 else None,
        }
        fields = own | dict(self._endpoint.parameters or {})
        return {name: value for name, value in fields.items() if value is not None}

    def used(self, counts: TeacherCounts) -> str:
        """What was used, for messages."""
        requests = "1 request" if counts.requests == 1 else f"{counts.requests:,} requests"
        return f"{requests}, {self.usage.in_words((counts.input_tokens, counts.output_tokens))}"

    def log_used(self) -> None:
        """Log what was used until now, for a command that ends early; nothing if it was nothing."""
        if any(self.usage.tokens):
            log.info("used: %s", self.usage.in_words(self.usage.tokens))

    def log_counts(self, listed: Path | None = None) -> None:
        """Log what was used, and why lines were rejected. listed: the file that lists them."""
        log.info("used: %s", self.used(self.counts))
        if rejected := Counter(self.counts.rejected):
            numbers, reasons = f"{rejected.total():,} of {self.counts.lines:,}", in_words(rejected)
            where = f": see {listed}" if listed else ""
            log.warning("%s lines have no good translation: %s%s", numbers, reasons, where)

    async def _run(self, chunks: Iterable[Chunk], n_best: int, done: Callable[[Chunk], object]) -> None:
        lines = asyncio.Queue[tuple[Chunk, str, str] | None]()
        self._requests, self._to_check = asyncio.Semaphore(self._endpoint.requests), asyncio.Queue()
        workers = 2 * self._endpoint.requests  # some of them wait for the check of an answer
        limit_is_reached = False

        def end_workers() -> None:
            for _ in range(workers):
                lines.put_nowait(None)

        async def open_chunks() -> None:
            opened = deque[Chunk]()
            for chunk in chunks:
                opened.append(chunk)
                self.on_lines(chunk.counts.empty)
                for line, prefix in chunk.indices:
                    lines.put_nowait((chunk, line, prefix))
                if len(opened) == _OPEN_CHUNKS:
                    await close(opened.popleft())
            for chunk in opened:
                await close(chunk)
            end_workers()

        async def close(chunk: Chunk) -> None:
            await chunk.is_done.wait()
            self.counts += chunk.counts
            done(chunk)

        async def translate_lines() -> None:
            nonlocal limit_is_reached
            while (item := await lines.get()) is not None and not limit_is_reached:
                try:
                    await self._line(*item, n_best)
                except LimitReached:
                    limit_is_reached = True
                    end_workers()

        async with self._client.connected(), asyncio.TaskGroup() as group:
            group.create_task(open_chunks())
            checking = group.create_task(self._check_answers())
            await asyncio.gather(*(group.create_task(translate_lines()) for _ in range(workers)))
            if limit_is_reached:
                raise self.usage.limit_error()
            checking.cancel()

    async def _check_answers(self) -> None:
        """Check answers as they arrive. Those of 50 ms are checked together, which is several times as fast."""
        while True:
            waiting = [await self._to_check.get()]
            await asyncio.sleep(_TOGETHER_SECONDS)
            while not self._to_check.empty():
                waiting.append(self._to_check.get_nowait())
            lines = [line for line, answers, _ in waiting for _ in answers]
            checked = iter(self._rules.check(lines, [answer for _, answers, _ in waiting for answer in answers]))
            for _, answers, future in waiting:
                checked_answers = list(islice(checked, len(answers)))
                if not future.done():  # it is cancelled when the command is interrupted
                    future.set_result(checked_answers)

    async def _checked(self, line: str, answers: list[str]) -> list[CheckedAnswer]:
        future = asyncio.get_running_loop().create_future()
        self._to_check.put_nowait((line, answers, future))
        return list(await future)

    async def _line(self, chunk: Chunk, line: str, prefix: str, n_best: int) -> None:
        """Ask for the translation of a line until there are enough samples, or too many answers are no translations."""
        wanted, accepted = self.samples(n_best), list[str]()
        last, answers, most_answers = CheckedAnswer("", "no answer"), 0, wanted + self._endpoint.retries
        for request in count():
            missing = min(wanted - len(accepted), most_answers - answers)
            if not missing:
                break
            try:
                reply = await self._reply(chunk, (line, prefix), request, missing)
            except NoAnswer as error:
                last = CheckedAnswer("", str(error))
                break
            samples = reply.answers[:missing]
            answers += len(samples)
            checked = await self._checked(line, [sample.text for sample in samples])
            for sample, answer in zip(samples, checked, strict=True):
                last = CheckedAnswer(answer.text, "cut off") if sample.cut else answer
                if not last.reason:
                    accepted.append(last.text)
        if len(accepted) > 1 and self._decoding.consensus != "none":
            # In a thread: it can take a second, and the time of open requests goes on.
            ranks = await asyncio.to_thread(rank_by_agreement, accepted, self._decoding.consensus)
            accepted = [accepted[i] for i in ranks]
        indices = chunk.indices[line, prefix]
        for i in indices:
            if accepted:
                chunk.candidates[i] = accepted[:n_best]
                continue
            chunk.candidates[i] = [last.text if self._endpoint.rejected == "keep" else ""]
            chunk.rejected.append(Rejected(chunk.first_line + i, last.reason, line, last.text))
        if not accepted:
            chunk.counts.rejected[last.reason] = chunk.counts.rejected.get(last.reason, 0) + len(indices)
            self.rejected[last.reason] += len(indices)
        self.on_lines(len(indices))
        chunk.remaining -= 1
        if not chunk.remaining:
            chunk.is_done.set()

    async def _reply(self, chunk: Chunk, line: tuple[str, str], request: int, samples: int) -> Reply:
        """The reply to a request for a line with its prefix: from the journal, or from the service."""
        index = chunk.indices[line][0]
        reply = chunk.journal.replies.get((index, request))
        if reply is None:
            body = self.body(*line, request, samples)
            estimate = self.estimate(1, len(line[0].encode()), samples)
            async with self._requests:
                with self.usage.open_request(estimate):
                    reply = await self._client.ask(body, f"line {chunk.first_line + index}")
            self.usage.add((reply.input_tokens, reply.output_tokens), None if request else estimate)
            chunk.journal.add(index, request, reply)
        chunk.counts += TeacherCounts(requests=1, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
        return reply


def in_words(rejected: Counter[str]) -> str:
    """How many lines were rejected for each reason, the most frequent first."""
    return ", ".join(f"{count:,} {reason}" for reason, count in rejected.most_common())
