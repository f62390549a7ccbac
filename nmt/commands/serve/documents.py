"""Documents that are translated whole: requests to /translate_file of LibreTranslate, and the files that it gives."""

import asyncio
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from starlette.responses import Response

from nmt.commands.documents.formats import FORMATS, Format
from nmt.commands.documents.opened import OpenedDocument
from nmt.commands.serve.batching import AnswerTooLarge, BatchingQueue, QueueFull
from nmt.commands.serve.detection import Detected
from nmt.commands.serve.fields import Received, RequestError, read_upload
from nmt.commands.serve.requests import Limits, check_count, check_given, chosen_pair, language_of, likeliest_source
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.markup.marked_text import MarkedLine

# Those of `nmt translate`, and the lines of text that it reads without a format.
FILE_FORMATS = FORMATS | {".txt": Format("text", "plain_text")}
_AT_ONCE = 4  # documents that are in memory
_MOST_UNPACKED = 8  # times the largest file: of an archive
_MOST_KEPT = 32  # times the largest file: of all translated files
_MOST_NOTES = 20  # in an answer
_SECONDS_KEPT = 30 * 60


@dataclass(frozen=True)
class DocumentRequest:
    """{"file", "source", "target", "api_key"}. name: of the translated file."""

    document: OpenedDocument
    name: str
    detected: Detected | None  # the source language, if the request had `auto`
    languages: LanguagePair | None  # None: the model has one pair

    @property
    def lines(self) -> Sequence[MarkedLine]:
        return self.document.marked_lines

    def parts(self, limits: Limits) -> Iterator[list[int]]:
        """The lines by their places, in requests of the allowed size. Those with elements, which need an alignment,
        come after the others."""
        part, size = list[int](), 0
        for place in sorted(range(len(self.lines)), key=lambda place: bool(self.lines[place].elements)):
            length = len(self.lines[place].text)
            if len(part) == limits.lines or (part and size + length > limits.characters):
                yield part
                part, size = [], 0
            part.append(place)
            size += length
        if part:
            yield part


def parse(received: Received, languages: LanguagePairs, limits: Limits) -> DocumentRequest:
    """The request for the translation of a file. Raises RequestError if it is not valid or too large, and NmtError for
    a file that is not of its format."""
    fields, upload = read_upload(received, limits.upload)
    if upload is None or not upload.name:
        raise RequestError(400, "Invalid request: missing file parameter")
    check_given(fields, "source", "target")
    if len(upload.content) > limits.file:
        raise RequestError(413, f"the file has more than {limits.file / 2**20:g} MiB: send a smaller one")
    # Without folders, in one line, and no longer than names can be.
    path = Path(re.sub(r"[^\w .()+-]", "_", re.split(r"[/\\]", upload.name)[-1])[-100:])
    format = FILE_FORMATS.get(path.suffix.lower())
    if format is None:
        raise RequestError(400, f"{path}: this format is not supported: send {', '.join(FILE_FORMATS)}")
    target = language_of(fields, "target", languages.targets)
    source = "" if fields["source"] == "auto" else language_of(fields, "source", languages.sources)
    most = _MOST_UNPACKED * limits.file
    document = OpenedDocument.of(
        upload.content, path, format, language=source, target_language=target, most_unpacked=most
    )
    lines = [line.text for line in document.marked_lines]
    check_count(max(map(len, lines), default=0), f"characters in one text of {path}", limits.characters)
    detected = None if source else likeliest_source(lines[: limits.lines], languages, target)
    pair = chosen_pair(languages, target, detected.language if detected else source)
    return DocumentRequest(document, f"{path.stem}.{target}{path.suffix}", detected, pair)


async def translate(request: DocumentRequest, queue: BatchingQueue, limits: Limits) -> tuple[bytes, list[str]]:
    """The translated file, and what its reader should know. Other requests get their turn between the parts of a
    document. Cancel it to stop."""
    written = dict[int, str]()
    for part in request.parts(limits):
        written |= await _written(request, part, queue)
    lines = [json.dumps(written[place]) for place in range(len(request.lines))]
    content, notes = await asyncio.to_thread(request.document.translated, lines, Path(request.name))
    more = [f"and {len(notes) - _MOST_NOTES} more"] * (len(notes) > _MOST_NOTES)
    return content, [*(note for _, note in notes[:_MOST_NOTES]), *more]


async def _written(request: DocumentRequest, places: Sequence[int], queue: BatchingQueue) -> dict[int, str]:
    """What is written for these lines. Waits where the queue is full."""
    lines = [request.lines[place] for place in places]
    submit = partial(
        queue.submit,
        [line.text for line in lines],
        alignment=queue.translator.engine.aligns and any(line.elements for line in lines),
        token_scores=False,
        languages=request.languages,
        keep=request.document.keep,
    )
    while True:
        try:
            n_best = await asyncio.wrap_future(await asyncio.to_thread(submit))
            break
        except QueueFull as full:
            await asyncio.sleep(full.retry_after)
        except AnswerTooLarge as error:
            if len(places) == 1:
                raise RequestError(413, f"{error}: shorten the longest text of the file") from None
            half = len(places) // 2
            return await _written(request, places[:half], queue) | await _written(request, places[half:], queue)
    translated = zip(places, lines, n_best, strict=True)
    keep = (*queue.translator.decoding.keep, *request.document.keep, "verbatim")
    return await asyncio.to_thread(lambda: {place: line.translated(best, keep) for place, line, [best] in translated})


class TranslatedFiles:
    """Translated files in a folder of this user alone, for half an hour; the oldest are removed where they are too
    many. at_once: held for each document that is in memory."""

    def __init__(self, limits: Limits):
        self.at_once = asyncio.Semaphore(_AT_ONCE)
        self._most_bytes = _MOST_KEPT * limits.file
        self._folder = TemporaryDirectory(prefix="nmt-serve-")
        self._files: dict[str, tuple[str, int]] = {}  # the names and sizes by their addresses, the oldest first

    async def add(self, name: str, content: bytes) -> str:
        """Keep a file. Returns its address, which nobody can guess."""
        address = f"{secrets.token_urlsafe()}{Path(name).suffix}"
        self._files[address] = name, len(content)
        while sum(size for _, size in self._files.values()) > self._most_bytes:
            self._remove(next(iter(self._files)))
        asyncio.get_running_loop().call_later(_SECONDS_KEPT, self._remove, address)
        await asyncio.to_thread(self._path(address).write_bytes, content)
        return address

    async def response(self, address: str) -> Response | None:
        """The file, to be saved; None if it is not kept."""
        name, _ = self._files.get(address, ("", 0))
        try:
            content = await asyncio.to_thread(self._path(address).read_bytes) if name else None
        except FileNotFoundError:  # it has just become too old
            content = None
        if content is None:
            return None
        named = f'filename="{name}"' if name.isascii() else f"filename*=utf-8''{quote(name)}"
        headers = {"Content-Disposition": f"attachment; {named}"}
        return Response(content, headers=headers, media_type="application/octet-stream")

    def close(self) -> None:
        """Remove them all."""
        self._files.clear()
        self._folder.cleanup()

    def _path(self, address: str) -> Path:
        return Path(self._folder.name, address)

    def _remove(self, address: str) -> None:
        if self._files.pop(address, None):
            self._path(address).unlink(missing_ok=True)
