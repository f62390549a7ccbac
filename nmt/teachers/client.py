"""Requests to an endpoint by the chat interface of OpenAI. Failed requests are repeated when the service allows it."""

import asyncio
import json
import logging
import math
import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib.util import find_spec
from typing import Any, NamedTuple

from nmt.errors import NmtError, in_one_line
from nmt.files.packages import install_command
from nmt.teachers.endpoint import Endpoint, NotAnswering

with suppress(ModuleNotFoundError):
    import httpx2

log = logging.getLogger("nmt")

PATIENCE = 600.0  # seconds without any answer, after which a job ends
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds after a failure: doubled after each further one
_MOST_FAILURES = 4  # of one request, while the service works otherwise
_MOST_GIVEN_UP = 10  # requests one after another
_CONNECT_SECONDS = 10.0
_WARNING_SECONDS = 60.0  # at least, between two warnings about failures
_LONGEST_MESSAGE = 200  # characters of what the service says
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_CUT = ("length", "content_filter")
_TRY_AGAIN = (408, 409, 425, 429)
_FULL_CONTEXT = re.compile(
    r"context[_ ](length|size|window)|maximum context|max_model_len|too (long|many tokens)|exceed.{,40}(context|token)"
)
_NO_MODEL = re.compile(r"\bmodel\b.*(not (found|exist|available)|unknown|invalid)|(unknown|invalid|no such) model")


class Answer(NamedTuple):
    """An answer of the model. cut: the service ended it, because it was too long or by a filter of contents."""

    text: str
    cut: bool


class Reply(NamedTuple):
    """The reply to a request. The numbers of tokens are 0 if the service does not give them."""

    answers: list[Answer]
    input_tokens: int
    output_tokens: int


class NoAnswer(Exception):
    """The service answers other requests, but not this one."""


@dataclass
class _Failure(Exception):
    """A request failed, and can succeed later.

    wait: seconds until the service accepts the next request, if it says so. is_busy: it gets too many requests.
    is_down: there is no connection. is_wrong: the reply is not a chat completion.
    """

    problem: str
    wait: float | None = None
    is_busy: bool = False
    is_down: bool = False
    is_wrong: bool = False


class Client:
    """Sends requests to an endpoint. While the service is busy, all requests wait together."""

    def __init__(self, endpoint: Endpoint, key: str | None, patience: float = PATIENCE) -> None:
        """patience: seconds without any answer, after which requests fail. Raises NmtError if `endpoint` is not an
        address, or if httpx2 is not installed."""
        if find_spec("httpx2") is None:
            raise NmtError(f"an endpoint needs the package httpx2: {install_command('endpoint')}")
        self._endpoint, self._key, self._patience = endpoint, key, patience
        root = endpoint.endpoint.rstrip("/")
        self.address = re.sub(r"//[^/]*@", "//", root)  # without a password
        try:
            self._chat, self._models = httpx2.URL(f"{root}/chat/completions"), httpx2.URL(f"{root}/models")
        except httpx2.InvalidURL as error:
            raise NmtError(f"{self.address}: {in_one_line(error)}: correct `endpoint`") from None
        self.answered_before = False  # in an earlier command of the job
        self._answered = self._given_up = 0
        self._last_answer = self._resume = 0.0  # by the monotonic clock
        self._busy_wait = _FIRST_WAIT  # at least, of all requests while the service is busy
        self._last_warning = -math.inf
        self._says_usage = True
        self._tls = httpx2.create_ssl_context()  # once, because it takes 0.1 s

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Requests can be sent, in this event loop. At the end, open ones are cancelled."""
        self._last_answer = time.monotonic()
        async with httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            timeout=httpx2.Timeout(self._endpoint.timeout, connect=min(_CONNECT_SECONDS, self._endpoint.timeout)),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=self._endpoint.requests),
            verify=self._tls,
            trust_env=self._chat.host not in _LOOPBACK,  # a proxy does not reach services of this machine
        ) as self._http:
            yield

    async def ask(self, body: Mapping[str, Any], line: str) -> Reply:
        """Send a request until it is answered. line: its name in messages.

        Raises NoAnswer if only this request fails. Raises NmtError if the service refuses it, and NotAnswering if the
        service cannot be reached at the start, or answers nothing for as long as the patience lasts.
        """
        failures, wait = 0, _FIRST_WAIT
        while True:
            while (pause := self._resume - time.monotonic()) > 0:
                await asyncio.sleep(pause * random.uniform(1, 1.1))
            sent, answered = time.monotonic(), self._answered
            try:
                reply = await self._send(body, line)
            except _Failure as failure:
                failures += not (failure.is_busy or failure.is_down)
                if failures >= _MOST_FAILURES:
                    await self._give_up(failure, self._answered > answered)
                self._check_patience(failure)
                if failure.is_busy:
                    pause = failure.wait or 0.0
                    if sent >= self._resume:  # otherwise it was sent before the others began to wait
                        pause = max(pause, self._busy_wait * random.uniform(1, 1.5))
                        self._busy_wait = min(2 * self._busy_wait, _LONGEST_WAIT)
                    self._resume = max(self._resume, time.monotonic() + pause)
                else:
                    await asyncio.sleep(wait * random.uniform(1, 1.5))
                    wait = min(2 * wait, _LONGEST_WAIT)
            else:
                self._answered, self._last_answer = self._answered + 1, time.monotonic()
                self._busy_wait, self._given_up = _FIRST_WAIT, 0
                return reply

    async def _give_up(self, failure: _Failure, others_are_answered: bool) -> None:
        """Raise NoAnswer if the fault is that of one request: others are answered; or others were answered before, the
        service lists its models, and few requests were given up. Raise NmtError if the service is not a chat."""
        if failure.is_wrong and not self._answered:
            raise NmtError(f"{self.address}: {failure.problem}: correct `endpoint`, or the service") from None
        has_answered = self._answered or self.answered_before
        if others_are_answered or (has_answered and self._given_up < _MOST_GIVEN_UP and await self._model_names()):
            self._given_up += 1
            raise NoAnswer("no answer") from None

    def _check_patience(self, failure: _Failure) -> None:
        """Log the failure, or raise NotAnswering if the patience has ended."""
        now = time.monotonic()
        if failure.is_down and not self._answered:
            raise NotAnswering(f"{self.address}: {failure.problem}: start the service, or correct `endpoint`")
        if now - self._last_answer + (failure.wait or 0) > self._patience:
            wait = f" and asks to retry in {failure.wait:,.0f} s" if failure.wait else ""
            raise NotAnswering(f"{self.address}: does not answer{wait}: {failure.problem}: try again later")
        if now - self._last_warning > _WARNING_SECONDS:
            self._last_warning = now
            log.warning("%s: %s: retrying", self.address, failure.problem)

    async def _send(self, body: Mapping[str, Any], line: str) -> Reply:
        """Send a request once. Raises _Failure, and as `ask` if the service refuses it."""
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                response = await self._http.post(self._chat, json=body)
        except TimeoutError:
            raise _Failure(f"no answer in {self._endpoint.timeout:g} seconds") from None
        except httpx2.RequestError as error:
            is_down = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            problem = "cannot be reached" if is_down else "the connection broke"
            raise _Failure(f"{problem} ({self._shown(in_one_line(error))})", is_down=is_down) from None
        status = response.status_code
        if status == 429 and "insufficient_quota" in response.text:
            raise NmtError(f"{self.address}: {self._message(response)}")
        if status in _TRY_AGAIN or status >= 500:
            problem = f"status {status}: {self._message(response)}"
            wait = _seconds(response.headers.get("retry-after", ""))
            raise _Failure(problem, wait, is_busy=status == 429 or wait is not None)
        if status != 200:
            raise await self._refusal(response, line)
        return self._reply(response)

    def _reply(self, response: "httpx2.Response") -> Reply:
        try:
            fields = response.json()
            answers = [
                Answer(_text(choice["message"].get("content")), choice.get("finish_reason") in _CUT)
                for choice in fields["choices"]
            ]
            usage = fields.get("usage") or {}
            tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
            answers = []
        if not answers:
            raise _Failure(f"the reply is not a chat completion: {self._message(response)}", is_wrong=True)
        if self._says_usage and not any(tokens):
            self._says_usage = False
            unknown = "tokens and cost are unknown, and a limit has no effect"
            log.warning("%s: does not say how many tokens it used: %s", self.address, unknown)
        return Reply(answers, *tokens)

    async def _refusal(self, response: "httpx2.Response", line: str) -> NmtError | NoAnswer:
        """The error for a request that would be refused again."""
        status, message = response.status_code, self._message(response)
        if status in (401, 403):
            problem = "the key is not accepted" if self._key else "needs a key: add `key: ${NAME}`"
            return NmtError(f"{self.address}: {problem}: {message}")
        is_too_long = _FULL_CONTEXT.search(message.lower()) is not None
        if is_too_long and not self._answered:  # the prompt may be too long for all lines
            return NmtError(f"{line}: longer than the model's context: shorten the line or the prompt: {message}")
        if status == 404 or _NO_MODEL.search(message.lower()):
            names = await self._model_names()
            if names and self._endpoint.model not in names:
                shown = ", ".join(names[:10]) + (", …" if len(names) > 10 else "")
                return NmtError(f"{self.address}: model {self._endpoint.model}: unknown: the service has {shown}")
        problem = f"status {status}: {message}"
        # A line that is too long, or that a filter of contents refuses.
        if status in (400, 413, 422) and self._answered and self._given_up < _MOST_GIVEN_UP:
            self._given_up += 1
            return NoAnswer("too long for the model" if is_too_long else "not accepted")
        fix = ": correct `endpoint`, which often ends in /v1" if status < 400 or status in (404, 405) else ""
        return NmtError(f"{self.address}: {line}: {problem}{fix}")

    async def _model_names(self) -> list[str]:
        """The models of the service; empty if it does not list them."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                fields = (await self._http.get(self._models)).json()
            return [self._shown(str(model["id"])) for model in fields["data"]]
        except (TimeoutError, httpx2.HTTPError, ValueError, LookupError, TypeError):
            return []

    def _message(self, response: "httpx2.Response") -> str:
        """What the service says, in one line."""
        message: Any = response.text
        try:
            fields = json.loads(message)
            for name in ("error", "message", "detail"):
                if isinstance(fields, dict) and name in fields:
                    fields = message = fields[name]
        except (ValueError, RecursionError):
            pass
        return self._shown(" ".join(str(message).split())) or response.reason_phrase

    def _shown(self, text: str) -> str:
        """A text of the service as messages show it: short, and without the key."""
        text = text.replace(self._key, "…") if self._key else text
        return text if len(text) <= _LONGEST_MESSAGE else f"{text[:_LONGEST_MESSAGE]}…"


def _text(content: Any) -> str:
    """The text of an answer, which may have parts. Characters that UTF-8 cannot encode are replaced."""
    if isinstance(content, list):
        content = "".join(str(part.get("text") or "") for part in content)
    return str(content or "").encode(errors="replace").decode()


def _seconds(retry_after: str) -> float | None:
    """The seconds that a header `Retry-After` asks to wait: a number, or a date."""
    try:
        return max(0.0, float(retry_after)) if retry_after else None
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(retry_after)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except ValueError:
        return None
