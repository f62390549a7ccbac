"""The program that document_process.py runs to read and write documents. It does not load PyTorch.

    python -m nmt.serve.document_worker SECONDS

It reads messages from standard input until the end, and answers each on standard output. A message is several lines,
each a JSON value, and then an empty line. The first value is the request, the others are lines of the document:

    {"read": name, "content": Base64, "languages", "most_unpacked"}   →  {"keep"}, [text, whether it has elements], …
    {"keep"}, [index of a line, fields of its Translation], …        →  {}
    {"write": name}                                                  →  {"content", "notes"}

An answer can also be {"refused": what is wrong with the document} or {"failed": a traceback}.
"""

import base64
import json
import logging
import signal
import sys
import traceback
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nmt.decoding.translation import Translation
from nmt.documents.file_formats import FILE_FORMATS
from nmt.documents.opened import OpenedDocument
from nmt.errors import NmtError

END = b"\n\n"  # ends a message; JSON values on one line contain no line breaks


def encoded(values: Iterable[Any]) -> bytes:
    """The values as a message. Each value is encoded separately, because one long call would block other threads."""
    return b"".join([*(json.dumps(value).encode() + b"\n" for value in values), b"\n"])


def decoded(message: bytes) -> list[Any]:
    """The values of a message."""
    return [json.loads(line) for line in message.removesuffix(END).split(b"\n")]


class _Worker:
    """Reads, translates and writes one document at a time."""

    document: OpenedDocument
    translations: dict[int, str]  # by the index of the line

    def answer(self, request: dict[str, Any], lines: list[Any]) -> list[Any]:
        """The values of the answer to a message. Raises NmtError for a document that cannot be read."""
        if "read" in request:
            return self._read(Path(request["read"]), request)
        if "write" in request:
            return self._write(Path(request["write"]))
        for i, fields in lines:
            line = self.document.marked_lines[i]
            self.translations[i] = line.translated(Translation(**fields), tuple(request["keep"]))
        return [{}]

    def _read(self, path: Path, request: dict[str, Any]) -> list[Any]:
        source, target = request["languages"]
        self.translations = {}
        self.document = OpenedDocument.from_bytes(
            base64.b64decode(request["content"]),
            path,
            FILE_FORMATS[path.suffix.lower()],
            language=source,
            target_language=target,
            most_unpacked=request["most_unpacked"],
        )
        lines = ([line.text, bool(line.elements)] for line in self.document.marked_lines)
        return [{"keep": self.document.keep}, *lines]

    def _write(self, path: Path) -> list[Any]:
        lines = [(self.translations[i], None) for i in range(len(self.translations))]
        content, notes = self.document.translated(lines, path)
        return [{"content": base64.b64encode(content).decode(), "notes": [note for _, note in notes]}]


def main() -> None:
    """Answer messages until standard input ends. A message that takes more than SECONDS ends the process."""
    for stop in (signal.SIGINT, signal.SIGTERM):  # these are meant for the service, which may still need this process
        signal.signal(stop, signal.SIG_IGN)
    logging.disable()  # messages and warnings may quote texts; the notes tell the user what to know
    warnings.simplefilter("ignore")
    seconds, worker = float(sys.argv[1]), _Worker()
    message = list[bytes]()
    for line in sys.stdin.buffer:
        if line != b"\n":
            message.append(line)
            continue
        request, *lines = map(json.loads, message)
        message.clear()
        signal.setitimer(signal.ITIMER_REAL, seconds)  # needed if the service was killed
        try:
            answer = worker.answer(request, lines)
        except NmtError as error:
            answer = [{"refused": str(error)}]
        except Exception:
            answer = [{"failed": traceback.format_exc()}]
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(encoded(answer))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
