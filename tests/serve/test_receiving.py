"""How fast a body must come."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from helpers.event_loops import NoWaiting

from nmt.serve.fields import RequestError
from nmt.serve.receiving import receive


class Sent:
    """A request whose body comes in parts: the size of each, and the seconds before it."""

    def __init__(self, parts: list[tuple[int, float]]):
        self.scope, self.headers, self.parts = {"query_string": b""}, dict[str, str](), parts

    async def stream(self) -> AsyncIterator[bytes]:
        for size, seconds in self.parts:
            await asyncio.sleep(seconds)
            yield b"a" * size


SLOW = "fewer than 10,000 bytes of the body came within 10 seconds: send it faster"


@pytest.mark.parametrize(
    ("parts", "refused_after", "words"),
    [
        ([(1, 1)] * 1000, 10, SLOW),
        ([(5_000, 6)] * 1000, 10, SLOW),
        ([(500_000, 1)] + [(1, 1)] * 1000, 11, SLOW),
        ([(11_000, 9)] * 1000, 120, "the body took longer than 120 seconds: send it faster"),
        ([(11_000, 9)] * 13, None, ""),  # more than ten times as long
        ([(1_000, 0.9)] * 130, None, ""),
        ([(9_000, 9)], None, ""),  # complete in time
    ],
)
def test_a_body_must_come_at_a_lowest_rate(
    parts: list[tuple[int, float]], refused_after: float | None, words: str
) -> None:
    loop, request = NoWaiting(), Sent(parts)

    async def received() -> tuple[Any, float]:
        try:
            return len((await receive(request, 4 << 20)).body), loop.time()  # type: ignore[arg-type]
        except RequestError as error:
            return (error.status, str(error), error.headers), loop.time()

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        found, when = runner.run(received())
    if refused_after is None:
        assert found == sum(size for size, _ in parts)
    else:
        assert (found, when) == ((408, words, {"Connection": "close"}), refused_after)
