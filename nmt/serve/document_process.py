"""A process that reads and writes one document, because a process can be ended at any time and a thread cannot."""

import asyncio
import base64
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import HTTPException

from nmt.decoding.translation import Translation
from nmt.documents.process import END, decoded, encoded
from nmt.errors import NmtError

# -P: not the modules of the folder that the service was started in.
COMMAND = (sys.executable, "-P", "-m", "nmt.documents.process")
_LONGEST = 1 << 31  # most bytes of a message


@asynccontextmanager
async def document_process(seconds: float) -> AsyncIterator["DocumentProcess"]:
    """A new process, which is ended afterwards. seconds: as for DocumentProcess."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        str(2 * seconds),  # its own limit, for when the service is killed
        stdin=PIPE, stdout=PIPE, limit=_LONGEST, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        yield DocumentProcess(process, seconds)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class DocumentProcess:
    """seconds: the most for reading the document, for the tags of each part, and for writing it. The methods raise
    HTTPException where it takes longer, and NmtError for a document that cannot be read."""

    def __init__(self, process: Process, seconds: float):
        self._process, self._seconds = process, seconds

    async def read(
        self, content: bytes, name: str, languages: tuple[str, str], most_unpacked: int
    ) -> tuple[tuple[str, ...], list[tuple[str, bool]]]:
        """The document's `keep`, and its lines: the text, and whether there are tags in it. languages: the codes of the
        source, empty if unknown, and of the target."""
        message = {
            "read": name,
            "content": base64.b64encode(content).decode(),
            "languages": languages,
            "most_unpacked": most_unpacked,
        }
        answer, *lines = await self._answer([message])
        return tuple(answer["keep"]), [(text, has_tags) for text, has_tags in lines]

    async def translate(self, translations: Mapping[int, Translation], keep: tuple[str, ...]) -> None:
        """Put in the translations of lines, by their numbers. keep: as MarkedLine.translated."""
        lines = [[number, vars(translation)] for number, translation in translations.items()]
        await self._answer([{"keep": keep}, *lines])

    async def write(self, name: str) -> tuple[bytes, list[str]]:
        """The document with the translations of all lines, and what its reader should know. name: for messages."""
        [answer] = await self._answer([{"write": name}])
        return base64.b64decode(answer["content"]), answer["notes"]

    async def _answer(self, message: Iterable[Any]) -> list[Any]:
        assert self._process.stdin and self._process.stdout
        try:
            async with asyncio.timeout(self._seconds):
                # In other threads, because this one serves all requests.
                self._process.stdin.write(await asyncio.to_thread(encoded, message))
                await self._process.stdin.drain()
                received = await self._process.stdout.readuntil(END)
                first, *lines = await asyncio.to_thread(decoded, received)
        except TimeoutError:
            why = f"reading or writing the file takes more than {self._seconds:g} seconds: send a smaller one"
            raise HTTPException(413, why) from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            status = await self._process.wait()
            raise RuntimeError(f"the process of a document ended with status {status}") from error
        if "failed" in first:
            raise RuntimeError(f"in the process of a document:\n{first['failed']}")
        if "refused" in first:
            raise NmtError(first["refused"])
        return [first, *lines]
