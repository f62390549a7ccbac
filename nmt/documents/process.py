"""Reads and writes documents in a process of its own, which can be ended at any time. A thread cannot be ended, and
while a regular expression is matched, all other threads of its process wait.

    python -m nmt.documents.process SECONDS

It takes messages from standard input and answers each on standard output, until standard input ends. A message is one
JSON value a line, and then an empty line. The first value says what is wanted, the others are lines of the document:

    {"read": name, "content": Base64, "languages", "most_unpacked"}   →  {"keep"}, [text, whether it has elements], …
    {"keep"}, [number of a line, fields of its Translation], …       →  {}
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
from nmt.documents.file_formats import FORMATS, DocumentFormat
from nmt.documents.opened import OpenedDocument
from nmt.errors import NmtError

# Those of `nmt translate`, and the lines of text that it reads without a format.
FILE_FORMATS = FORMATS | {".txt": DocumentFormat("text", "plain_text")}
END = b"\n\n"  # of a message: JSON has no line breaks of its own


def encoded(values: Iterable[Any]) -> bytes:
    """The values as a message. Each is encoded by itself: one long call would block the other threads."""
    return b"".join([*(json.dumps(value).encode() + b"\n" for value in values), b"\n"])


def decoded(message: bytes) -> list[Any]:
    """The values of a message."""
    return [json.loads(line) for line in message.removesuffix(END).split(b"\n")]


class _Worker:
    """Works on one document after the other."""

    document: OpenedDocument
    written: dict[int, str]  # what is written for each line, by its number

    def answer(self, wanted: dict[str, Any], lines: list[Any]) -> list[Any]:
        """The values that answer a message. Raises NmtError for a document that cannot be read."""
        if "read" in wanted:
            return self._read(Path(wanted["read"]), wanted)
        if "write" in wanted:
            return self._write(Path(wanted["write"]))
        for number, fields in lines:
            line = self.document.marked_lines[number]
            self.written[number] = line.translated(Translation(**fields), tuple(wanted["keep"]))
        return [{}]

    def _read(self, path: Path, wanted: dict[str, Any]) -> list[Any]:
        source, target = wanted["languages"]
        self.document, self.written = (
            OpenedDocument.of(
                base64.b64decode(wanted["content"]),
                path,
                FILE_FORMATS[path.suffix.lower()],
                language=source,
                target_language=target,
                most_unpacked=wanted["most_unpacked"],
            ),
            {},
        )
        lines = ([line.text, bool(line.elements)] for line in self.document.marked_lines)
        return [{"keep": self.document.keep}, *lines]

    def _write(self, path: Path) -> list[Any]:
        lines = [self.written[number] for number in range(len(self.written))]
        content, notes = self.document.translated(lines, path)
        return [{"content": base64.b64encode(content).decode(), "notes": [note for _, note in notes]}]


def main() -> None:
    """Answer messages until standard input ends. One that takes more than SECONDS ends the process."""
    for stop in (signal.SIGINT, signal.SIGTERM):  # for the process that started this one, which may still need it
        signal.signal(stop, signal.SIG_IGN)
    logging.disable()  # messages and warnings may quote texts; what a reader should know is in the notes
    warnings.simplefilter("ignore")
    seconds, worker = float(sys.argv[1]), _Worker()
    message = list[bytes]()
    for line in sys.stdin.buffer:
        if line != b"\n":
            message.append(line)
            continue
        wanted, *lines = map(json.loads, message)
        message.clear()
        signal.setitimer(signal.ITIMER_REAL, seconds)  # for when the process that started this one was killed
        try:
            answer = worker.answer(wanted, lines)
        except NmtError as error:
            answer = [{"refused": str(error)}]
        except Exception:
            answer = [{"failed": traceback.format_exc()}]
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdout.buffer.write(encoded(answer))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
