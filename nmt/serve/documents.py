"""Documents that are translated whole: requests to /translate_file of LibreTranslate, and the files that it gives."""

import asyncio
import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar
from urllib.parse import quote

from starlette.responses import Response

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.documents.process import FILE_FORMATS
from nmt.serve.batching import AnswerTooLarge, BatchingQueue, QueueFull
from nmt.serve.detection import Detected
from nmt.serve.document_process import DocumentPlaces, ServedDocument
from nmt.serve.fields import Received, RequestError, read_upload
from nmt.serve.receiving import UploadMemory
from nmt.serve.requests import (
    Limits,
    check_count,
    check_given,
    chosen_pair,
    count_not_kept,
    language_of,
    likeliest_source,
    not_kept,
)

log = logging.getLogger("nmt")

_MOST_RECEIVED = 32  # times the largest upload: of all that are in memory
_MOST_UNPACKED = 8  # times the largest file: of an archive
_MOST_KEPT = 32  # times the largest file: of all translated files
_MOST_NOTES = 20  # in an answer
_SECONDS_KEPT = 30 * 60

T = TypeVar("T")


@dataclass(frozen=True)
class DocumentRequest:
    """{"file", "source", "target", "api_key"}. path: the name of the file; source: empty for `auto`."""

    content: bytes
    path: Path
    source: str
    target: str


@dataclass(frozen=True)
class TranslatedDocument:
    """notes: what its reader should know; warning: of its languages; detected: the source language, if the request had
    `auto`."""

    name: str
    content: bytes
    notes: list[str]
    warning: str
    detected: Detected | None


def parse(received: Received, languages: LanguagePairs, limits: Limits) -> DocumentRequest:
    """The request for the translation of a file, which is not read yet. Raises RequestError if it is not valid or too
    large."""
    fields, upload = read_upload(received, limits.upload)
    if upload is None or not upload.name:
        raise RequestError(400, "Invalid request: missing file parameter")
    check_given(fields, "source", "target")
    if len(upload.content) > limits.file:
        raise RequestError(413, f"the file has more than {limits.file / 2**20:g} MiB: send a smaller one")
    # Without folders, in one line, and no longer than names can be.
    path = Path(re.sub(r"[^\w .()+-]", "_", re.split(r"[/\\]", upload.name)[-1])[-100:])
    if path.suffix.lower() not in FILE_FORMATS:
        raise RequestError(400, f"{path}: this format is not supported: send {', '.join(FILE_FORMATS)}")
    target = language_of(fields, "target", languages.targets)
    source = "" if fields["source"] == "auto" else language_of(fields, "source", languages.sources)
    return DocumentRequest(upload.content, path, source, target)


class ServedDocuments:
    """What all requests for documents share."""

    def __init__(self, limits: Limits):
        self.memory = UploadMemory(_MOST_RECEIVED * limits.upload)
        self.parsing = asyncio.Lock()  # one request at a time, as this needs several times the memory of its file
        self.places = DocumentPlaces(limits.document_seconds)
        self.files = TranslatedFiles(limits)
        self._requests = set[asyncio.Task[Any]]()

    @contextmanager
    def request(self) -> Iterator[None]:
        """A request, in whose task this is called. `stop` cancels it."""
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            yield
        finally:
            self._requests.discard(task)

    def stop(self) -> None:
        """Cancel all requests: the service stops, and nobody could fetch their files."""
        for task in self._requests:
            task.cancel()

    async def translated(
        self, request: DocumentRequest, queue: BatchingQueue, languages: LanguagePairs, limits: Limits
    ) -> TranslatedDocument:
        """As `translate`, when there is a place for the document."""
        async with self.places.document() as document:
            return await translate(request, document, queue, languages, limits)

    async def close(self) -> None:
        """End what is under way, and remove the translated files."""
        await self.places.close()
        self.files.close()


async def translate(
    request: DocumentRequest, document: ServedDocument, queue: BatchingQueue, languages: LanguagePairs, limits: Limits
) -> TranslatedDocument:
    """The translated file. Other requests get their turn between the parts of a document. Cancel it to stop. Raises
    RequestError if it is too large or takes too long to read, and NmtError for a file that is not of its format."""
    path, most = request.path, _MOST_UNPACKED * limits.file
    keep, lines = await document.read(request.content, str(path), (request.source, request.target), most)
    texts = [text for text, _ in lines]
    fix = "split the text into several, or start the service with a larger --max-characters"
    check_count(max(map(len, texts), default=0), f"characters in one text of {path}", limits.characters, fix)
    detected = None
    if not request.source:
        detected = await asyncio.to_thread(likeliest_source, texts[: limits.lines], languages, request.target)
    pair = chosen_pair(languages, request.target, detected.language if detected else request.source)
    name, lost = f"{path.stem}.{request.target}{path.suffix}", 0
    for part in await asyncio.to_thread(lambda: list(_parts(lines, limits))):
        lost += await _translate_lines(document, {number: lines[number] for number in part}, queue, pair, keep)
    content, notes = await document.written(name)
    notes += [f"{name}: {not_kept(lost, len(lines))}"] * (lost > 0)
    more = [f"and {len(notes) - _MOST_NOTES} more"] * (len(notes) > _MOST_NOTES)
    warning = languages.warning(pair) if pair else ""
    return TranslatedDocument(name, content, [*notes[:_MOST_NOTES], *more], warning, detected)


def _parts(lines: Sequence[tuple[str, bool]], limits: Limits) -> Iterator[list[int]]:
    """The lines by their numbers, in requests of the allowed size. Those with elements, which need an alignment, come
    after the others."""
    part, size = list[int](), 0
    for number in sorted(range(len(lines)), key=lambda number: lines[number][1]):
        length = len(lines[number][0])
        if len(part) == limits.lines or (part and size + length > limits.characters):
            yield part
            part, size = [], 0
        part.append(number)
        size += length
    if part:
        yield part


async def _translate_lines(
    document: ServedDocument,
    lines: Mapping[int, tuple[str, bool]],
    queue: BatchingQueue,
    languages: LanguagePair | None,
    keep: tuple[str, ...],
) -> int:
    """Translate lines of a document, by their numbers. Waits where the queue is full. Returns in how many lines not all
    was kept that decoding.keep names, beside `keep`, of which the document itself takes care."""
    texts, own = [text for text, _ in lines.values()], queue.translator.decoding.keep
    submit = partial(
        queue.submit,
        texts,
        alignment=queue.translator.engine.aligns and any(has_elements for _, has_elements in lines.values()),
        token_scores=False,
        languages=languages,
        keep=keep,
    )
    while True:
        try:
            n_best = await asyncio.wrap_future(await asyncio.to_thread(submit))
            break
        except QueueFull as full:
            await asyncio.sleep(full.retry_after)
        except AnswerTooLarge as error:
            if len(lines) == 1:
                raise RequestError(413, f"{error}: shorten the longest text of the file") from None
            halves = _halves(lines)
            return sum([await _translate_lines(document, half, queue, languages, keep) for half in halves])
    await document.translated(
        {number: best for number, [best] in zip(lines, n_best, strict=True)}, (*own, *keep, "verbatim")
    )
    others = tuple(pattern for pattern in own if pattern not in keep)
    return await asyncio.to_thread(count_not_kept, texts, n_best, others)


def _halves(lines: Mapping[int, T]) -> Iterator[dict[int, T]]:
    items = list(lines.items())
    yield dict(items[: len(items) // 2])
    yield dict(items[len(items) // 2 :])


class TranslatedFiles:
    """Translated files in a folder of this user alone, for half an hour; the oldest are removed where they are too
    many."""

    def __init__(self, limits: Limits):
        self._most_bytes = _MOST_KEPT * limits.file
        self._folder = TemporaryDirectory(prefix="nmt-serve-")
        self._files: dict[str, tuple[str, int]] = {}  # the names and sizes by their addresses, the oldest first

    async def add(self, name: str, content: bytes) -> str:
        """Keep a file. Returns its address, which nobody can guess. Raises RequestError where there is no room for
        it; the other files then stay."""
        if len(content) > self._most_bytes:
            most = f"{self._most_bytes / 2**20:g} MiB, which is for all translated files"
            raise RequestError(507, f"{name}: the translated file is larger than {most}: send a smaller file")
        address = f"{secrets.token_urlsafe()}{Path(name).suffix}"
        try:
            await asyncio.to_thread(_write, self._path(address), content)
        except OSError as error:
            why = os.strerror(error.errno or 0)
            log.error("%s: a translated file cannot be written: %s", self._folder.name, why)
            raise RequestError(507, f"{name}: the translated file cannot be stored: {why}: try again later") from None
        self._files[address] = name, len(content)
        while sum(size for _, size in self._files.values()) > self._most_bytes:
            self._remove(next(iter(self._files)))
        asyncio.get_running_loop().call_later(_SECONDS_KEPT, self._remove, address)
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


def _write(path: Path, content: bytes) -> None:
    """Write a new file, whole or not at all."""
    try:
        path.write_bytes(content)
    except OSError:
        path.unlink(missing_ok=True)
        raise
