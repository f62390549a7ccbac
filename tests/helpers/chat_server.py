"""A service with the chat interface of OpenAI, whose translations are the words of a line spelled backwards.

It also runs as a process: `python chat_server.py SECONDS` prints its port, and answers after so many seconds.
"""

import asyncio
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request: its JSON, the last line of its last message, and how many requests with it there were before."""

    body: dict[str, Any]
    line: str
    before: int
    headers: str


@dataclass(frozen=True)
class Said:
    """What the service does: an answer, after a while, and after so many requests were open at once.

    cut: only half of it arrives; content: instead of the answer's JSON; most: samples of a request.
    """

    text: str = ""
    seconds: float = 0.0
    at_once: int = 0
    status: int = 200
    headers: str = ""
    content: str | None = None
    cut: bool = False
    reason: str = "stop"
    most: int = 1000


def backwards(line: str) -> str:
    """The words with letters alone spelled backwards."""
    return re.sub(r"[^\W\d_]+", lambda word: word[0][::-1].lower(), line)


def good(asked: Asked) -> Said:
    return Said(backwards(asked.line))


@dataclass
class ChatServer:
    """behave: what it does with a request."""

    behave: Callable[[Asked], Said] = good
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    answered: Counter[str] = field(default_factory=Counter)  # how often each line was answered
    times: Counter[str] = field(default_factory=Counter)
    most_at_once: int = 0
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _open: int = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, started: Callable[[], object]) -> None:
        server = await asyncio.start_server(self._connection, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        started()
        await self.stopped.wait()
        server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                length = re.search(r"(?i)content-length: (\d+)", head)
                content = await reader.readexactly(int(length[1])) if length else b""
                self._open += 1
                self.most_at_once = max(self.most_at_once, self._open)
                try:
                    status, headers, answer, part = await self._answer(head, content)
                finally:
                    self._open -= 1
                first = f"HTTP/1.1 {status} OK\r\nContent-Type: application/json\r\nContent-Length: {len(answer)}\r\n"
                writer.write(f"{first}{headers}\r\n".encode() + answer[:part])
                await writer.drain()
                if part < len(answer):
                    break
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()

    async def _answer(self, head: str, content: bytes) -> tuple[int, str, bytes, int]:
        if head.startswith("GET"):
            models = json.dumps({"data": [{"id": "large"}]}).encode()
            return 200, "", models, len(models)
        body = json.loads(content)
        line = body["messages"][-1]["content"].split("\n")[-1]
        asked = Asked(body, line, self.times[line], head)
        self.times[line] += 1
        self.asked.append(asked)
        said = self.behave(asked)
        await asyncio.sleep(said.seconds)
        while self.most_at_once < said.at_once:
            await asyncio.sleep(0.01)
        if said.content is None:
            choice = {"message": {"role": "assistant", "content": said.text}, "finish_reason": said.reason}
            choices = [choice] * min(body.get("n", 1), said.most)
            tokens = len(said.text.split())
            usage = {"prompt_tokens": len(content) // 4, "completion_tokens": tokens * len(choices)}
            answer = json.dumps({"choices": choices, "usage": usage}, ensure_ascii=False).encode()
        else:
            answer = said.content.encode()
        if said.status == 200 and not said.cut:
            self.answered[line] += 1
        return said.status, said.headers, answer, len(answer) // 2 if said.cut else len(answer)


@contextmanager
def serving(behave: Callable[[Asked], Said] = good) -> Iterator[ChatServer]:
    """A service in a thread of this process."""
    server, started = ChatServer(behave), threading.Event()
    loops = list[asyncio.AbstractEventLoop]()

    def started_in_loop() -> None:
        loops.append(asyncio.get_running_loop())
        started.set()

    thread = threading.Thread(target=lambda: asyncio.run(server.serve(started_in_loop)), daemon=True)
    thread.start()
    assert started.wait(30)
    try:
        yield server
    finally:
        loops[0].call_soon_threadsafe(server.stopped.set)
        thread.join(30)


if __name__ == "__main__":
    own = ChatServer(lambda asked: Said(backwards(asked.line), seconds=float(sys.argv[1])))
    asyncio.run(own.serve(lambda: print(own.port, flush=True)))
