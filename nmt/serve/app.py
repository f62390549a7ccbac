"""The service's addresses. A request to /translate passes: its fields (requests.py), a job (jobs.py), the queue
(batching.py), which translates the lines of several requests together, and the answer of the job."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic_core import to_json
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect

from nmt.config.language_codes import english_name
from nmt.config.language_pairs import LanguagePairs
from nmt.documents.file_formats import FILE_FORMATS
from nmt.errors import NmtError
from nmt.pages.html_page import html_page
from nmt.serve.batching import AnswerTooLarge, BatchingQueue, QueueFull
from nmt.serve.detection import detect
from nmt.serve.documents import DocumentTranslator, TranslatedFiles, received_document
from nmt.serve.hosts import SameSite
from nmt.serve.jobs import PlainText, job_from, warning_of
from nmt.serve.metrics import CountedRequests, Metrics
from nmt.serve.requests import DetectRequest, RequestLimits, as_list, checked, read_fields

log = logging.getLogger("nmt")

_CLIENT_GONE = 499  # a status for the log and the metrics only

T = TypeVar("T")


def build(
    queue: BatchingQueue,
    languages: LanguagePairs,
    limits: RequestLimits,
    url: str,
    log_requests: bool,
    hosts: list[str],
) -> FastAPI:
    """The service for a queue. It logs its `url` when it starts, and closes the queue when it stops. hosts: as
    `hosts.allowed_hosts`. Its `state.service` is to be stopped first."""
    service = Service(queue, languages, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log.info("listening on %s", url)
        yield
        service.files.close()
        await asyncio.to_thread(queue.close)
        log.info("stopped: %d lines translated", queue.totals.lines)

    # Without FastAPI's pages of documentation, which load scripts from other servers.
    app = FastAPI(
        lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, dependencies=[Depends(SameSite(hosts))]
    )
    app.state.service = service
    app.add_middleware(CountedRequests, metrics=service.metrics, log_requests=log_requests)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    for error in (StarletteHTTPException, NmtError, QueueFull, AnswerTooLarge, ClientDisconnect, Exception):
        app.add_exception_handler(error, _error_response)
    for path, endpoint, methods in (
        ("/translate", service.translate, ["GET", "POST"]),
        ("/detect", service.detect, ["GET", "POST"]),
        ("/translate_file", service.translate_file, ["POST"]),
        ("/download_file/{address}", service.download_file, ["GET"]),
        ("/", service.page, ["GET"]),
        ("/languages", service.languages, ["GET", "POST"]),  # argostranslate sends POST
        ("/limits", service.limits, ["GET"]),
        ("/frontend/settings", service.settings, ["GET"]),
        ("/suggest", service.suggest, ["POST"]),
        ("/health", service.ready, ["GET"]),
        ("/health/ready", service.ready, ["GET"]),
        ("/health/live", service.live, ["GET"]),
        ("/metrics", service.metrics_page, ["GET"]),
    ):
        app.add_api_route(path, endpoint, methods=methods, response_model=None)
    return app


async def _error_response(_: Request, error: Exception) -> Response:
    """The answer to a request that failed. uvicorn logs the error behind status 500."""
    match error:
        case ClientDisconnect():
            return Response(status_code=_CLIENT_GONE)
        case StarletteHTTPException():
            return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)
        case NmtError():
            return JSONResponse({"error": str(error)}, 400)
        case AnswerTooLarge():
            return JSONResponse({"error": str(error)}, 413)
        case QueueFull():
            return JSONResponse({"error": str(error)}, 429, {"Retry-After": str(error.retry_after)})
    return JSONResponse({"error": "the translator failed: see the log of the service"}, 500)


class Service:
    """The functions behind the addresses."""

    def __init__(self, queue: BatchingQueue, languages: LanguagePairs, limits: RequestLimits):
        self._queue, self._languages, self._limits = queue, languages, limits
        self._documents = DocumentTranslator(queue, languages, limits)
        self.files, self.metrics = TranslatedFiles(limits), Metrics(queue)
        self._stopping = asyncio.Event()
        self._page_data = _page_data(queue, languages, limits)
        self._page = html_page("nmt.serve", "nmt", self._page_data, connects="'self'")

    def stop(self) -> None:
        """End the translation of documents: the service stops, and nobody could fetch their files."""
        self._stopping.set()

    async def translate(self, request: Request) -> Response:
        fields = await read_fields(request, self._limits.body)
        translator = self._queue.translator
        # Work that grows with the text is done in other threads, because this one serves all requests.
        job = await asyncio.to_thread(
            job_from, fields, self._languages, self._limits, translator.decoding.beam_size, translator.engine.aligns
        )
        future = await asyncio.to_thread(self._queue.submit, job.lines, job.options, self._limits.answer)
        n_best = await _while_connected(request, asyncio.wrap_future(future))
        warning = await asyncio.to_thread(warning_of, job, n_best, self._languages, translator.decoding.keep)
        answer = await asyncio.to_thread(job.answer, n_best)
        if warning:
            answer["warning"] = warning
        return Response(await asyncio.to_thread(to_json, answer), media_type="application/json")

    async def detect(self, request: Request) -> Response:
        """At most three languages, and the first in any case."""
        texts = as_list(checked(DetectRequest, await read_fields(request, self._limits.body)).q)
        self._limits.check((), texts)
        lines = [line for text in texts for line in PlainText(text).lines]
        codes = list(dict.fromkeys([*self._languages.sources, *self._languages.targets]))
        best, *others = await asyncio.to_thread(detect, lines, codes)
        return JSONResponse([each._asdict() for each in (best, *others[:2]) if each is best or each.confidence])

    async def translate_file(self, request: Request) -> Response:
        if not self._limits.file:
            why = "this service translates no files: send their text, or their HTML with format: html, to /translate"
            raise HTTPException(403, why)
        with self._documents.request():
            fields = await read_fields(request, self._limits.upload)
            document = await received_document(fields, self._languages, self._limits)
            translated = await _while_connected(request, self._documents.translated(document), self._stopping)
        address = await self.files.add(translated.name, translated.content)
        answer: dict[str, Any] = {"translatedFileUrl": str(request.url_for("download_file", address=address))}
        if translated.detected:
            answer["detectedLanguage"] = translated.detected._asdict()
        if translated.warning:
            answer["warning"] = translated.warning
        if translated.notes:
            answer["notes"] = translated.notes
        return JSONResponse(answer)

    async def download_file(self, address: str) -> FileResponse:
        return self.files.response(address)

    async def page(self) -> HTMLResponse:
        # The page's own policy, and what only a header can say: that the page may not be a part of another one.
        [policy] = re.findall('Content-Security-Policy" content="([^"]*)"', self._page)
        return HTMLResponse(self._page, headers={"Content-Security-Policy": f"{policy}; frame-ancestors 'none'"})

    async def languages(self) -> Response:
        return JSONResponse(self._page_data["languages"])

    async def limits(self) -> Response:
        return JSONResponse(self._page_data["limits"])

    async def settings(self) -> Response:
        """LibreTranslate's settings."""
        source, target = self._languages.pairs[0]
        return JSONResponse(
            {
                "charLimit": self._limits.characters,
                "frontendTimeout": 500,
                "apiKeys": False,
                "keyRequired": False,
                "suggestions": False,
                "filesTranslation": self._limits.file > 0,
                "supportedFilesFormat": self._page_data["formats"],
                "language": {
                    "source": {"code": source, "name": english_name(source)},
                    "target": {"code": target, "name": english_name(target)},
                },
            }
        )

    async def suggest(self) -> Response:
        raise HTTPException(403, "this service takes no suggestions")  # as LibreTranslate where they are switched off

    async def ready(self) -> Response:
        """Whether the queue would take a line now."""
        if self._queue.alive and not self._queue.full:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "full" if self._queue.alive else "stopped"}, 503)

    async def live(self) -> Response:
        alive = self._queue.alive
        return JSONResponse({"status": "ok" if alive else "stopped"}, 200 if alive else 503)

    async def metrics_page(self) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _page_data(queue: BatchingQueue, languages: LanguagePairs, limits: RequestLimits) -> dict[str, Any]:
    """What the page needs to know."""
    targets: dict[str, list[str]] = {code: [] for code in [*languages.sources, *languages.targets]}
    for source, target in languages.pairs:
        targets[source].append(target)
    translator = queue.translator
    return {
        "languages": [{"code": code, "name": english_name(code), "targets": targets[code]} for code in targets],
        "limits": {
            "lines": limits.lines,
            "characters": limits.characters,
            "file": limits.file,
            "n_best": translator.decoding.beam_size,
            "alignment": translator.engine.aligns,
        },
        "formats": [*FILE_FORMATS] if limits.file else [],
    }


async def _while_connected(request: Request, work: Awaitable[T], stopping: asyncio.Event | None = None) -> T:
    """The result of work for a request of which the body was received. Cancels the work and raises ClientDisconnect
    when the client has gone, and HTTPException when the service stops."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())  # after the body, only the end of the connection is received
    stopped = asyncio.ensure_future((stopping or asyncio.Event()).wait())
    try:
        await asyncio.wait([working, gone, stopped], return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if gone.done():
            raise ClientDisconnect
        raise HTTPException(503, "the service is stopped before the answer is ready")
    finally:
        for task in (working, gone, stopped):
            task.cancel()
        await asyncio.wait([working])  # for what it does at its end
