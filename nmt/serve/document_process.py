"""A process that reads and writes one document. It runs document_worker.py.

A process can be ended at any time, and a thread cannot. While a regular expression is matched, all other threads of a
process wait.
"""

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
from nmt.errors import NmtError
from nmt.serve.document_worker import END, decoded, encoded

# -P: do not import modules from the current folder.
COMMAND = (sys.executable, "-P", "-m", "nmt.serve.document_worker")
_LONGEST = 1 << 31  # maximum bytes of a message


@asynccontextmanager
async def document_process(seconds: float) -> AsyncIterator["DocumentProcess"]:
    """Starts a process, and ends it at the end of the `with` block. seconds: as for DocumentProcess."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        str(2 * seconds),  # ends the process if the service is killed
        stdin=PIPE, stdout=PIPE, limit=_LONGEST, env=environment, start_new_session=True,
    )  # fmt: skip
    try:
        yield DocumentProcess(process, seconds)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class DocumentProcess:
    """seconds: the maximum for each call. The methods raise HTTPException if a call takes longer, and NmtError for a
    document that cannot be read."""

    def __init__(self, process: Process, seconds: float):
        self._process, self._seconds = process, seconds

    async def read(
        self, content: bytes, name: str, languages: tuple[str, str], most_unpacked: int
    ) -> tuple[tuple[str, ...], list[tuple[str, bool]]]:
        """Returns the document's `keep` and its lines, each a text and whether it has tags. languages: the codes of the
        source (empty if unknown) and of the target."""
        message = {
            "read": name,
            "content": base64.b64encode(content).decode(),
            "languages": languages,
            "most_unpacked": most_unpacked,
        }
        answer, *lines = await self._answer([message])
        return tuple(answer["keep"]), [(text, has_tags) for text, has_tags in lines]

    async def translate(self, translations: Mapping[int, Translation], keep: tuple[str, ...]) -> None:
        """Set the translations of lines, by their indices. keep: as for MarkedLine.translated."""
        lines = [[i, vars(translation) | {"terms": None}] for i, translation in translations.items()]
        await self._answer([{"keep": keep}, *lines])

    async def write(self, name: str) -> tuple[bytes, list[str]]:
        """Returns the translated document and notes for its reader. name: for messages."""
        [answer] = await self._answer([{"write": name}])
        return base64.b64decode(answer["content"]), answer["notes"]

    async def _answer(self, message: Iterable[Any]) -> list[Any]:
        assert self._process.stdin and self._process.stdout
        try:
            async with asyncio.timeout(self._seconds):
                # JSON is written and read in other threads, because this one serves all requests.
                self._process.stdin.write(await asyncio.to_thread(encoded, message))
                await self._process.stdin.drain()
                received = await self._process.stdout.readuntil(END)
                first, *lines = await asyncio.to_thread(decoded, received)
        except TimeoutError:
            message = f"reading or writing the file takes more than {self._seconds:g} seconds: send a smaller one"
            raise HTTPException(413, message) from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            status = await self._process.wait()
            raise RuntimeError(f"the process of a document ended with status {status}") from error
        if "failed" in first:
            raise RuntimeError(f"in the process of a document:\n{first['failed']}")
        if "refused" in first:
            raise NmtError(first["refused"])
        return [first, *lines]
