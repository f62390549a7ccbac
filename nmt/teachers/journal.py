"""The replies of an endpoint for lines that are not all translated yet: kept in a file, because they are paid for."""

import json
from contextlib import ExitStack, suppress
from pathlib import Path

from nmt.files.json_lines import JsonLines
from nmt.files.text import reading
from nmt.teachers.client import Answer, Reply

Replies = dict[tuple[int, int], Reply]  # by line and by request for this line, both from 0


class Journal(ExitStack):
    """Appends replies to a file as soon as they arrive. path None: keeps nothing."""

    def __init__(self, path: Path | None = None) -> None:
        """Reads what is there, and cuts off a last line that was not written completely. Raises NmtError if the file
        cannot be read or written."""
        super().__init__()
        self.replies, size = (Replies(), 0) if path is None else read(path)
        self._rows = self.enter_context(JsonLines(path, size, "--output"))

    def add(self, line: int, request: int, reply: Reply) -> None:
        """Write a reply at once."""
        answers, input_tokens, output_tokens = reply
        self._rows.write(
            {"line": line, "request": request, "answers": answers, "tokens": [input_tokens, output_tokens]}
        )


def read(path: Path) -> tuple[Replies, int]:
    """The replies in a file, and its size up to the end of its last complete line. A missing file has none."""
    content, replies = b"", Replies()
    with reading(path), suppress(FileNotFoundError):
        content = path.read_bytes()
    complete = content[: content.rfind(b"\n") + 1]
    for line in complete.split(b"\n"):
        with suppress(ValueError, LookupError, TypeError):  # of another program
            row = json.loads(line)
            replies[row["line"], row["request"]] = Reply([Answer(*answer) for answer in row["answers"]], *row["tokens"])
    return replies, len(complete)
