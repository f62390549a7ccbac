"""Receives requests: not too large, not too slowly, and not too many large ones at a time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import Request

from nmt.serve.fields import Received, RequestError

_BODY_SECONDS = 30.0  # maximum time to receive a body, or each MiB of a larger one
_LEAST, _LEAST_SECONDS = 10_000, 10.0  # bytes of a body that must arrive in this time
_RETRY_AFTER = 10  # seconds


class UploadMemory:
    """The bytes of all bodies that are received, and of all files in them, unpacked. Documents that wait are bounded
    by it."""

    def __init__(self, most: int):
        self._most, self._used = most, 0

    @contextmanager
    def request(self) -> Iterator[Callable[[int], None]]:
        """A function that counts bytes of a request until its end; those that are no longer kept are negative. It
        raises RequestError for too many."""
        counted = 0

        def count(more: int) -> None:
            nonlocal counted
            if self._used + more > self._most:
                why = f"too many files are waiting: try again in {_RETRY_AFTER} s"
                raise RequestError(429, why, close=True, retry_after=_RETRY_AFTER)
            self._used += more
            counted += more

        try:
            yield count
        finally:
            self._used -= counted


async def receive(request: Request, limit: int, count: Callable[[int], None] = lambda more: None) -> Received:
    """A request with its complete body. count: called with the number of bytes of each part of the body. Raises
    RequestError as soon as the body is too long, or if it comes too slowly; and what `count` raises."""
    query, header = request.scope["query_string"], request.headers.get
    if len(query) > limit:
        raise RequestError(414, f"the query has more than {limit} bytes: send the text in the body", close=True)
    body = await _body(request, limit, count)
    return Received(body, header("content-type", ""), header("content-encoding", ""), query)


async def _body(request: Request, limit: int, count: Callable[[int], None]) -> bytes:
    too_long = RequestError(413, f"the body has more than {limit} bytes: send less in one request", close=True)
    if int(request.headers.get("content-length", 0)) > limit:
        raise too_long
    body, enough, clock = bytearray(), _LEAST, asyncio.get_running_loop().time
    seconds = _BODY_SECONDS * max(1.0, limit / 2**20)
    end = clock() + seconds
    try:
        async with asyncio.timeout(min(seconds, _LEAST_SECONDS)) as waiting:
            async for chunk in request.stream():
                count(len(chunk))
                body += chunk
                if len(body) > limit:
                    raise too_long
                if len(body) >= enough:
                    enough = len(body) + _LEAST
                    waiting.reschedule(min(end, clock() + _LEAST_SECONDS))
    except TimeoutError:
        why = f"the body took longer than {seconds:g} seconds"
        if clock() < end:
            why = f"fewer than {_LEAST:,} bytes of the body came within {_LEAST_SECONDS:g} seconds"
        raise RequestError(408, f"{why}: send it faster", close=True) from None
    return bytes(body)
