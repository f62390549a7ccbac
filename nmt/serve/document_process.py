"""The processes that read and write documents for the service, and how many there are."""

import asyncio
import base64
import math
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from nmt.decoding.translation import Translation
from nmt.documents.process import END, decoded, encoded
from nmt.errors import NmtError
from nmt.serve.fields import RequestError

# -P: not the modules of the folder that the service was started in.
COMMAND = (sys.executable, "-P", "-m", "nmt.documents.process")
OTHERS_TURN = 2.0  # seconds
_PLACES, _MOST_SLOW = 4, 4
_LARGE = 1 << 20  # bytes to and from a process, whose memory may then be large: it is not used again
_LONGEST = 1 << 31  # most bytes of a message


class DocumentPlaces:
    """At most four documents are worked on at a time; more wait. A document whose reading or writing takes longer than
    OTHERS_TURN seconds leaves its place to others and goes on without one. At most eight have a process, whether they
    have a place, go on without one or wait to have one again."""

    def __init__(self, seconds: float):
        """seconds: most time for reading a document, for the tags of each part, and for writing it."""
        self.seconds = seconds
        self.begun, self.places = asyncio.Semaphore(_PLACES + _MOST_SLOW), asyncio.Semaphore(_PLACES)
        self.slow = 0  # how many are read or written without a place
        self._processes = set[Process]()
        self._idle: list[Process] = []  # at most one: a process takes 0.3 s to start

    @asynccontextmanager
    async def document(self) -> AsyncIterator["ServedDocument"]:
        """A place for a document. Waits for it. What is still done for the document at the end is ended."""
        document = ServedDocument(self)
        async with self.begun:
            try:
                await document.enter()
                document.process = await self._process()
                yield document
            finally:
                try:
                    if document.process:
                        await self._put_back(document.process, document.is_reusable)
                finally:
                    document.leave()

    async def close(self) -> None:
        """End all processes."""
        await asyncio.gather(*map(self._end, [*self._processes]))

    async def _process(self) -> Process:
        while self._idle:
            if (process := self._idle.pop()).returncode is None:
                return process
            self._processes.discard(process)  # somebody has ended it
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
        process = await asyncio.create_subprocess_exec(
            # Its own limit is only for when this process is killed.
            *(*COMMAND, str(2 * self.seconds)),
            stdin=PIPE, stdout=PIPE, limit=_LONGEST, env=environment, start_new_session=True,
        )  # fmt: skip
        self._processes.add(process)
        return process

    async def _put_back(self, process: Process, is_reusable: bool) -> None:
        if is_reusable and not self._idle:
            self._idle.append(process)
        else:
            await self._end(process)

    async def _end(self, process: Process) -> None:
        if process.returncode is None:
            process.kill()
        await process.wait()
        self._processes.discard(process)


class ServedDocument:
    """A document that has a place, and the process that works on it. Its methods raise RequestError where they take too
    long, or others do, and NmtError for a document that cannot be read."""

    process: Process | None = None

    def __init__(self, places: DocumentPlaces):
        self._places = places
        self._has_place = False
        self._bytes, self._is_working = 0, False

    @property
    def is_reusable(self) -> bool:
        """Whether another document can have its process: it waits, nothing failed in it, and its memory is small."""
        return not self._is_working and self._bytes < _LARGE

    async def enter(self) -> None:
        """Take a place, if it has none. Waits for it."""
        if not self._has_place:
            await self._places.places.acquire()
            self._has_place = True

    def leave(self) -> None:
        """Leave its place to others, if it has one."""
        if self._has_place:
            self._places.places.release()
            self._has_place = False

    async def read(
        self, content: bytes, name: str, languages: tuple[str, str], most_unpacked: int
    ) -> tuple[tuple[str, ...], list[tuple[str, bool]]]:
        """Its `keep`, and its lines: the text, and whether there are elements in it. As OpenedDocument.of; languages:
        the codes of the source, empty if unknown, and of the target."""
        text = base64.b64encode(content).decode()
        wanted = {"read": name, "content": text, "languages": languages, "most_unpacked": most_unpacked}
        found, *lines = await self._asked([wanted], may_be_refused=True)
        await self.enter()
        return tuple(found["keep"]), [(text, has_elements) for text, has_elements in lines]

    async def translated(self, translations: Mapping[int, Translation], keep: tuple[str, ...]) -> None:
        """Translate lines, by their numbers. keep: as MarkedLine.translated."""
        lines = ([number, vars(translation)] for number, translation in translations.items())
        await self._asked(value for values in ([{"keep": keep}], lines) for value in values)
        await self.enter()

    async def written(self, name: str) -> tuple[bytes, list[str]]:
        """The document with the translations of all lines, and what its reader should know. name: for messages."""
        [found] = await self._asked([{"write": name}])
        return base64.b64decode(found["content"]), found["notes"]

    async def _asked(self, message: Iterable[Any], may_be_refused: bool = False) -> list[Any]:
        """The answer to a message; where it takes long, the document then has no place. may_be_refused: whether others
        that take long are a reason to end it, as nothing was translated for it yet."""
        places, working = self._places, asyncio.ensure_future(self._answer(message))
        try:
            await asyncio.wait([working], timeout=OTHERS_TURN)
            if working.done():
                return working.result()
            if may_be_refused and places.slow >= _MOST_SLOW:
                seconds = math.ceil(places.seconds)
                why = f"too many files that take long to read are being read: try again in {seconds} s"
                raise RequestError(429, why, retry_after=seconds)
            self.leave()
            places.slow += 1
            try:
                return await working
            finally:
                places.slow -= 1
        finally:
            working.cancel()

    async def _answer(self, message: Iterable[Any]) -> list[Any]:
        assert self.process and self.process.stdin and self.process.stdout
        self._is_working = True
        try:
            async with asyncio.timeout(self._places.seconds):
                # In other threads, because this one serves all requests.
                sent = await asyncio.to_thread(lambda: encoded(message))
                self.process.stdin.write(sent)
                await self.process.stdin.drain()
                received = await self.process.stdout.readuntil(END)
                first, *lines = await asyncio.to_thread(decoded, received)
        except TimeoutError:
            why = f"reading or writing the file takes more than {self._places.seconds:g} seconds: send a smaller one"
            raise RequestError(413, why) from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            status = await self.process.wait()
            raise RuntimeError(f"the process of a document ended with status {status}") from error
        if "failed" in first:
            raise RuntimeError(f"in the process of a document:\n{first['failed']}")
        self._bytes += len(sent) + len(received)
        self._is_working = False
        if "refused" in first:
            raise NmtError(first["refused"])
        return [first, *lines]
