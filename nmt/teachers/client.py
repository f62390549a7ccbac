"""Requests to an endpoint, by the chat interface of OpenAI. What fails is asked for again, as the service says."""

import asyncio
import json
import logging
import math
import random
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.errors import NmtError, in_one_line
from nmt.files.packages import install_command
from nmt.teachers.endpoint import Endpoint

try:
    import httpx2
except ModuleNotFoundError:
    raise NmtError(f"an endpoint needs the package httpx2: {install_command('endpoint')}") from None

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger("nmt")

_PATIENCE = 600.0  # seconds without any answer, after which a command ends
_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds after a failure: doubled after each further one
_MOST_FAILURES = 4  # of one request, while the service works otherwise
_MOST_GIVEN_UP = 10  # requests one after another
_CONNECT_SECONDS = 10.0
_SAID_SECONDS = 60.0  # at least, between two messages on failures
_NOTED = 200  # characters of what the service says
_TRY_AGAIN = (408, 409, 425, 429)
_FULL_CONTEXT = re.compile(
    r"context[_ ](length|size|window)|maximum context|max_model_len|too (long|many tokens)|exceed.{,40}(context|token)"
)
_NO_MODEL = re.compile(r"\bmodel\b.*(not (found|exist|available)|unknown|invalid)|(unknown|invalid|no such) model")


class Answer(NamedTuple):
    """An answer of the model. cut: it was longer than the service allows."""

    text: str
    cut: bool


class Reply(NamedTuple):
    """What came back for a request. The numbers of tokens are 0 if the service does not give them."""

    answers: list[Answer]
    input_tokens: int
    output_tokens: int


class NoAnswer(Exception):
    """The service answers other requests, but not this one."""


@dataclass
class _Failure(Exception):
    """A request failed in a way that can pass.

    wait: seconds until the service wants to be asked again, if it says so. is_limit: it gets too many requests.
    is_down: nothing is there. is_wrong: what came is no answer.
    """

    problem: str
    wait: float | None = None
    is_limit: bool = False
    is_down: bool = False
    is_wrong: bool = False


class Client:
    """Asks an endpoint. While the service wants no requests, all of them wait together."""

    def __init__(self, endpoint: Endpoint, key: str | None) -> None:
        self._endpoint, self._key = endpoint, key
        self._root = endpoint.endpoint.rstrip("/")
        self.address = re.sub(r"//[^/]*@", "//", self._root)  # without a password
        self._answered = self._given_up = 0
        self._last_answer = self._resume = 0.0  # by the monotonic clock
        self._wait = _FIRST_WAIT  # of all, if the service gets too many requests and does not say how long
        self._said = -math.inf
        self._says_usage = True

    @cached_property
    def _tls(self) -> "SSLContext":
        return httpx2.create_ssl_context()  # takes 0.1 s

    @cached_property
    def _chat(self) -> "httpx2.URL":
        try:
            return httpx2.URL(f"{self._root}/chat/completions")
        except httpx2.InvalidURL as error:
            raise NmtError(f"{self.address}: {in_one_line(error)}: correct `endpoint`") from None

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[None]:
        """Requests can be sent, in this event loop. At the end, open ones are cancelled."""
        self._last_answer = time.monotonic()
        headers = {} if not self._key else {"Authorization": f"Bearer {self._key}"}
        timeout = httpx2.Timeout(self._endpoint.timeout, connect=min(_CONNECT_SECONDS, self._endpoint.timeout))
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=self._endpoint.requests)
        async with httpx2.AsyncClient(headers=headers, timeout=timeout, limits=limits, verify=self._tls) as self._http:
            yield

    async def ask(self, body: Mapping[str, Any], place: str) -> Reply:
        """Send a request until it is answered. place: of its line, for messages.

        Raises NoAnswer if only this request fails, and NmtError if the service refuses it, is not there at the start,
        or answers nothing for ten minutes.
        """
        failures, wait = 0, _FIRST_WAIT
        while True:
            while (pause := self._resume - time.monotonic()) > 0:
                await asyncio.sleep(pause * random.uniform(1, 1.1))
            sent, answered = time.monotonic(), self._answered
            try:
                reply = await self._send(body, place)
            except _Failure as failure:
                failures += not (failure.is_limit or failure.is_down)
                if failures >= _MOST_FAILURES:
                    await self._give_up(failure, self._answered > answered)
                self._check_patience(failure)
                if failure.is_limit:
                    if failure.wait is not None:
                        self._resume = max(self._resume, time.monotonic() + failure.wait)
                    elif sent >= self._resume:  # otherwise it was sent before the others began to wait
                        self._resume = time.monotonic() + self._wait * random.uniform(1, 1.5)
                        self._wait = min(2 * self._wait, _LONGEST_WAIT)
                else:
                    await asyncio.sleep(failure.wait or wait * random.uniform(1, 1.5))
                    wait = min(2 * wait, _LONGEST_WAIT)
            else:
                self._answered, self._last_answer, self._wait = self._answered + 1, time.monotonic(), _FIRST_WAIT
                self._given_up = 0
                return reply

    async def _give_up(self, failure: _Failure, others_are_answered: bool) -> None:
        """Raise NoAnswer if the fault is that of one request: others are answered, or the service works otherwise and
        few requests were given up. Raise NmtError if the service is no chat."""
        if failure.is_wrong and not self._answered:
            raise NmtError(f"{self.address}: {failure.problem}: correct `endpoint`, or the service") from None
        if others_are_answered or (self._given_up < _MOST_GIVEN_UP and await self._models()):
            self._given_up += 1
            raise NoAnswer(failure.problem) from None

    def _check_patience(self, failure: _Failure) -> None:
        """Log the failure, or raise NmtError if waiting is of no use."""
        now = time.monotonic()
        if failure.is_down and not self._answered:
            raise NmtError(f"{self.address}: {failure.problem}: start the service, or correct `endpoint`")
        if now - self._last_answer + (failure.wait or 0) > _PATIENCE:
            wait = f" and wants to be asked again in {failure.wait:,.0f} s" if failure.wait else ""
            raise NmtError(
                f"{self.address}: does not answer{wait}: {failure.problem}: run the same command later to continue"
            )
        if now - self._said > _SAID_SECONDS:
            self._said = now
            log.warning("%s: %s: asking again", self.address, failure.problem)

    async def _send(self, body: Mapping[str, Any], place: str) -> Reply:
        """Send a request once. Raises _Failure, or NmtError if the service refuses it."""
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                response = await self._http.post(self._chat, json=body)
        except TimeoutError:
            raise _Failure(f"no answer in {self._endpoint.timeout:g} seconds") from None
        except httpx2.RequestError as error:
            is_down = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            problem = "cannot be reached" if is_down else "the connection broke"
            raise _Failure(f"{problem} ({self._noted(in_one_line(error))})", is_down=is_down) from None
        status = response.status_code
        if status in _TRY_AGAIN or status >= 500:
            problem = f"status {status}: {self._message(response)}"
            wait = _seconds(response.headers.get("retry-after", ""))
            raise _Failure(problem, wait, is_limit=status == 429 or wait is not None)
        if status != 200:
            raise await self._refused(response, place)
        return self._reply(response)

    def _reply(self, response: "httpx2.Response") -> Reply:
        try:
            found = response.json()
            answers = [
                Answer(_text(choice["message"].get("content")), choice.get("finish_reason") == "length")
                for choice in found["choices"]
            ]
            usage = found.get("usage") or {}
            tokens = [int(usage.get(name) or 0) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            answers = []
        if not answers:
            raise _Failure(f"what comes back is no answer of a chat: {self._message(response)}", is_wrong=True)
        if self._says_usage and not any(tokens):
            self._says_usage = False
            log.warning("%s: does not say how many tokens it used: tokens and cost are unknown", self.address)
        return Reply(answers, *tokens)

    async def _refused(self, response: "httpx2.Response", place: str) -> NmtError:
        """The error for a request that would be refused again."""
        status, message = response.status_code, self._message(response)
        if status in (401, 403):
            problem = (
                "the key is not accepted: correct `key`, or" if self._key else "wants a key: add `key: ${NAME}`, and"
            )
            return NmtError(f"{self.address}: {problem} the variable that it names")
        if _FULL_CONTEXT.search(message.lower()):
            return NmtError(f"{place}: longer than the model's context: shorten the line or the prompt: {message}")
        if status == 404 or _NO_MODEL.search(message.lower()):
            known = await self._models()
            if known and self._endpoint.model not in known:
                shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
                return NmtError(f"{self.address}: model {self._endpoint.model}: unknown: the service has {shown}")
        return NmtError(f"{self.address}: {place}: status {status}: {message}")

    async def _models(self) -> list[str]:
        """The models of the service; empty if it does not say."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                listed = (await self._http.get(f"{self._root}/models")).json()
            return [self._noted(str(model["id"])) for model in listed["data"]]
        except (TimeoutError, httpx2.HTTPError, ValueError, LookupError, TypeError):
            return []

    def _message(self, response: "httpx2.Response") -> str:
        """What the service says, in one line."""
        message: Any = response.text
        try:
            found = json.loads(message)
            for name in ("error", "message", "detail"):
                if isinstance(found, dict) and name in found:
                    found = message = found[name]
        except (ValueError, RecursionError):
            pass
        return self._noted(" ".join(str(message).split())) or response.reason_phrase

    def _noted(self, text: str) -> str:
        """A text of the service as messages show it: short, and without the key."""
        text = text.replace(self._key, "…") if self._key else text
        return text if len(text) <= _NOTED else f"{text[:_NOTED]}…"


def _text(content: Any) -> str:
    """The text of an answer, which may have parts. What no UTF-8 file can hold is replaced."""
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
