"""Translation of whole documents: requests to /translate_file, as in LibreTranslate, and the files to download."""

import asyncio
import logging
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi import HTTPException
from starlette.datastructures import UploadFile
from starlette.responses import FileResponse

from nmt.config.language_pairs import LanguagePairs
from nmt.documents.file_formats import FILE_FORMATS
from nmt.serve.batching import BatchOptions, NBest, QueueFull, RequestQueue
from nmt.serve.detection import DetectedLanguage
from nmt.serve.document_process import DocumentProcess, document_process
from nmt.serve.jobs import checked_terms, count_lost, placeholder_warning, term_warning, used_terms
from nmt.serve.requests import FileRequest, RequestLimits, checked, chosen_pair, likeliest_source, source_and_target
from nmt.terms.used_term import UsedTerm

log = logging.getLogger("nmt")

_MOST_REQUESTS = 32  # maximum number of requests that are received, wait or are translated
_MOST_AT_ONCE = 4  # maximum number of documents that are translated at the same time
_MOST_UNPACKED = 8  # maximum size of an unpacked archive, as a multiple of the maximum file size
_MOST_KEPT = 32  # maximum size of all translated files, as a multiple of the maximum file size
_MOST_NOTES = 20  # maximum number of notes in an answer
_SECONDS_KEPT = 30 * 60  # a translated file is removed after this time
_RETRY_AFTER = 10  # seconds


@dataclass(frozen=True)
class ReceivedDocument:
    """A file and its languages."""

    content: bytes
    path: Path  # the name of the file
    source: str | None  # None: to be detected
    target: str
    terms: dict[str, str]  # of the request's glossary
    ignored: Sequence[str]  # names of unknown fields


@dataclass(frozen=True)
class TranslatedDocument:
    """A translated file."""

    name: str
    content: bytes
    notes: list[str]  # messages to its reader
    warning: str  # on its languages; empty if there is none
    detected: DetectedLanguage | None  # the source language, if the request had `auto`


async def received_document(
    fields: dict[str, Any], languages: LanguagePairs, limits: RequestLimits
) -> ReceivedDocument:
    """The document of a request. Raises HTTPException if it is not valid or too large."""
    upload = fields.pop("file", None)
    if not isinstance(upload, UploadFile) or not upload.filename:
        raise HTTPException(400, "Invalid request: missing file parameter")
    request = checked(FileRequest, fields)
    content = await upload.read()
    await upload.close()
    if len(content) > limits.file:
        raise HTTPException(413, f"the file has more than {limits.file / 2**20:g} MiB: send a smaller one")
    # Without folders and line breaks, and not longer than file names can be.
    path = Path(re.sub(r"[^\w .()+-]", "_", re.split(r"[/\\]", upload.filename)[-1])[-100:])
    if path.suffix.lower() not in FILE_FORMATS:
        raise HTTPException(400, f"{path}: this format is not supported: send {', '.join(FILE_FORMATS)}")
    ignored = [name[:40] for name in fields if name not in FileRequest.model_fields and name != "api_key"]
    return ReceivedDocument(content, path, *source_and_target(request, languages), request.glossary, ignored)


class DocumentTranslator:
    """Translates documents through the queue, a few at a time."""

    def __init__(self, queue: RequestQueue, languages: LanguagePairs, limits: RequestLimits):
        self.queue, self.languages, self.limits = queue, languages, limits
        self._at_once = asyncio.Semaphore(_MOST_AT_ONCE)
        self._requests = 0

    @contextmanager
    def request(self) -> Iterator[None]:
        """Counts a request during the `with` block. Raises HTTPException if there are too many requests, because their
        files are in memory."""
        if self._requests >= _MOST_REQUESTS:
            message = f"too many files are waiting: try again in {_RETRY_AFTER} s"
            raise HTTPException(429, message, {"Retry-After": str(_RETRY_AFTER), "Connection": "close"})
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    async def translated(self, document: ReceivedDocument) -> TranslatedDocument:
        """The translated file. Other requests are translated between the parts of a document. Cancel the task to stop.
        Raises HTTPException if the file is too large or takes too long to read, and NmtError if it is not of its
        format."""
        async with self._at_once, document_process(self.limits.document_seconds) as process:
            return await self._translated(document, process)

    async def _translated(self, document: ReceivedDocument, process: DocumentProcess) -> TranslatedDocument:
        path, limits, offer = document.path, self.limits, self.queue.offer
        terms = checked_terms(document.terms, offer)
        languages = document.source or "", document.target
        keep, lines = await process.read(document.content, str(path), languages, _MOST_UNPACKED * limits.file)
        texts = [text for text, _ in lines]
        longest = max(map(len, texts), default=0)
        if longest > limits.characters:
            fix = "split the text into several, or start the service with a larger --max-characters"
            most = limits.characters
            raise HTTPException(413, f"{longest} characters in one text of {path}, more than {most}: {fix}")
        detected = None
        if document.source is None:
            sample = texts[: limits.lines]
            detected = await asyncio.to_thread(likeliest_source, sample, self.languages, document.target)
        pair = chosen_pair(self.languages, document.target, detected.language if detected else document.source)
        name, lost, used = f"{path.stem}.{document.target}{path.suffix}", 0, list[UsedTerm]()
        others = tuple(pattern for pattern in offer.keep if pattern not in keep)
        for part in await asyncio.to_thread(split_lines, lines, limits):
            has_tags = any(lines[i][1] for i in part)
            aligned = has_tags and offer.aligns
            options = BatchOptions(alignment=aligned, token_scores=False, pair=pair, keep=keep, terms=terms)
            n_best = await self._translate_part(process, {i: texts[i] for i in part}, options)
            lost += await asyncio.to_thread(count_lost, [texts[i] for i in part], n_best, others)
            used += used_terms(n_best)
        content, notes = await process.write(name)
        notes[:0] = [f"{name}: unknown field, which is ignored" for name in document.ignored]
        warnings = placeholder_warning(lost, len(lines)), term_warning(used)
        notes += [f"{name}: {warning}" for warning in warnings if warning]
        if len(notes) > _MOST_NOTES:
            notes[_MOST_NOTES:] = [f"and {len(notes) - _MOST_NOTES} more"]
        warning = self.languages.warning(pair) if pair else ""
        return TranslatedDocument(name, content, notes, warning, detected)

    async def _translate_part(self, process: DocumentProcess, lines: Mapping[int, str], options: BatchOptions) -> NBest:
        """Translates lines of a document, by their indices. Waits if the queue is full."""
        texts, model_keep = [*lines.values()], self.queue.offer.keep
        while True:
            try:
                n_best = await asyncio.wrap_future(await asyncio.to_thread(self.queue.submit, texts, options))
                break
            except QueueFull as full:
                await asyncio.sleep(full.retry_after)
        best = [translations[0] for translations in n_best]
        await process.translate(dict(zip(lines, best, strict=True)), (*model_keep, *options.keep, "verbatim"))
        return n_best


def split_lines(lines: Sequence[tuple[str, bool]], limits: RequestLimits) -> list[list[int]]:
    """Splits a document into parts of the size of an allowed request. Returns the indices of the lines of each part.
    Lines with tags, which need an alignment, come last."""
    parts: list[list[int]] = [[]]
    size = 0
    for i in sorted(range(len(lines)), key=lambda i: lines[i][1]):
        length = len(lines[i][0])
        if len(parts[-1]) == limits.lines or (parts[-1] and size + length > limits.characters):
            parts.append([])
            size = 0
        parts[-1].append(i)
        size += length
    return [part for part in parts if part]


class TranslatedFiles:
    """Translated files in a folder that only this user can read. A file is removed after half an hour, or earlier if
    the files are too large together; the oldest are removed first."""

    def __init__(self, limits: RequestLimits):
        self._most_bytes = _MOST_KEPT * limits.file
        self._folder = TemporaryDirectory(prefix="nmt-serve-")
        self._files: dict[str, tuple[str, int]] = {}  # name and size of each file by its address, oldest first

    async def add(self, name: str, content: bytes) -> str:
        """Stores a file. Returns its unguessable URL. Raises HTTPException if the file is too large or
        cannot be written; the other files stay."""
        if len(content) > self._most_bytes:
            limit = f"{self._most_bytes / 2**20:g} MiB, the limit for all translated files"
            raise HTTPException(507, f"{name}: the translated file is larger than {limit}: send a smaller file")
        address = f"{secrets.token_urlsafe()}{Path(name).suffix}"
        try:
            await asyncio.to_thread(self._path(address).write_bytes, content)
        except OSError as error:
            self._path(address).unlink(missing_ok=True)
            reason = os.strerror(error.errno or 0)
            log.error("%s: a translated file cannot be written: %s", self._folder.name, reason)
            message = f"{name}: the translated file cannot be stored: {reason}: try again later"
            raise HTTPException(507, message) from None
        self._files[address] = name, len(content)
        while sum(size for _, size in self._files.values()) > self._most_bytes:
            self._remove(next(iter(self._files)))
        asyncio.get_running_loop().call_later(_SECONDS_KEPT, self._remove, address)
        return address

    def response(self, address: str) -> FileResponse:
        """The answer to a download. Raises HTTPException if there is no such file."""
        if address not in self._files:
            raise HTTPException(404, "no such file: translate it again")
        name, _ = self._files[address]
        headers = {"X-Content-Type-Options": "nosniff"}
        return FileResponse(self._path(address), 200, headers, "application/octet-stream", filename=name)

    def close(self) -> None:
        """Remove all files."""
        self._files.clear()
        self._folder.cleanup()

    def _path(self, address: str) -> Path:
        return Path(self._folder.name, address)

    def _remove(self, address: str) -> None:
        if self._files.pop(address, None):
            self._path(address).unlink(missing_ok=True)
