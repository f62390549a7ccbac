"""The paths of the service. A request to /translate passes through these steps: its fields (requests.py), a job
(jobs.py), the queue, which translates the lines of several requests together (batching.py), the answer of the job."""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from itertools import chain
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
from nmt.serve.batching import AnswerTooLarge, EndpointFailed, QueueFull, RequestQueue
from nmt.serve.detection import detect
from nmt.serve.documents import DocumentTranslator, TranslatedFiles, received_document
from nmt.serve.hosts import SameSite
from nmt.serve.jobs import PlainText, job_from, job_warning
from nmt.serve.metrics import CountedRequests, Metrics
from nmt.serve.requests import DetectRequest, RequestLimits, as_list, checked, read_fields

log = logging.getLogger("nmt")

_CLIENT_GONE = 499  # a status only for the log and the metrics

T = TypeVar("T")


def build(
    queue: RequestQueue,
    languages: LanguagePairs,
    limits: RequestLimits,
    url: str,
    log_requests: bool,
    hosts: list[str],
) -> FastAPI:
    """The application of the service. It logs `url` when it starts, and closes the queue when it stops. hosts: as from
    `hosts.allowed_hosts`. The server must stop `state.service` before it shuts down."""
    service = Service(queue, languages, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log.info("listening on %s", url)
        logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # the client is told what is wrong
        yield
        service.files.close()
        await asyncio.to_thread(queue.close)
        log.info("stopped: %d lines translated", queue.totals.lines)

    # Without FastAPI's documentation pages, because they load scripts from other servers.
    app = FastAPI(
        lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None, dependencies=[Depends(SameSite(hosts))]
    )
    app.state.service = service
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts, www_redirect=False)
    app.add_middleware(CountedRequests, metrics=service.metrics, log_requests=log_requests)  # the last is the outermost
    for error in (
        StarletteHTTPException,
        NmtError,
        QueueFull,
        AnswerTooLarge,
        EndpointFailed,
        ClientDisconnect,
        Exception,
    ):
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
    """The answer to a failed request. uvicorn logs the error of status 500."""
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
        case EndpointFailed():
            log.warning("%s", error)
            return JSONResponse({"error": str(error)}, 502)
    return JSONResponse({"error": "the translator failed: see the log of the service"}, 500)


class Service:
    """The functions of the paths."""

    def __init__(self, queue: RequestQueue, languages: LanguagePairs, limits: RequestLimits):
        self._queue, self._languages, self._limits = queue, languages, limits
        self._documents = DocumentTranslator(queue, languages, limits)
        self.files, self.metrics = TranslatedFiles(limits), Metrics(queue)
        self._stopping = asyncio.Event()
        self._page_data = _page_data(queue, languages, limits)
        self._page = html_page("nmt.serve", "nmt", self._page_data, connects="'self'")

    def stop(self) -> None:
        """Stop the translation of documents, because their files could not be downloaded after the service stops."""
        self._stopping.set()

    async def translate(self, request: Request) -> Response:
        fields = await read_fields(request, self._limits.body)
        offer = self._queue.offer
        # Work that grows with the text runs in other threads, because this one serves all requests.
        job = await asyncio.to_thread(job_from, fields, self._languages, self._limits, offer)
        future = await asyncio.to_thread(self._queue.submit, job.lines, job.options, self._limits.answer)
        n_best = await _while_connected(request, asyncio.wrap_future(future))
        warning = await asyncio.to_thread(job_warning, job, n_best, self._languages, offer)
        answer = await asyncio.to_thread(job.answer, n_best)
        if warning:
            answer["warning"] = warning
        return Response(await asyncio.to_thread(to_json, answer), media_type="application/json")

    async def detect(self, request: Request) -> Response:
        """The likeliest language, and at most two others with a confidence above 0."""
        texts = as_list(checked(DetectRequest, await read_fields(request, self._limits.body)).q)
        self._limits.check((), texts)
        lines = list(chain.from_iterable(PlainText(text).lines for text in texts))
        codes = list(dict.fromkeys([*self._languages.sources, *self._languages.targets]))
        best, *others = await asyncio.to_thread(detect, lines, codes)
        likely = [best, *(language for language in others[:2] if language.confidence)]
        return JSONResponse([language._asdict() for language in likely])

    async def translate_file(self, request: Request) -> Response:
        if not self._limits.file:
            message = "this service translates no files: send the text, or HTML with format: html, to /translate"
            raise HTTPException(403, message)
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
        # The policy of the page, and a rule that only a header can set: other pages may not contain this page.
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
        raise HTTPException(403, "this service takes no suggestions")  # as LibreTranslate without suggestions

    async def ready(self) -> Response:
        """Whether the queue accepts a line now."""
        if self._queue.alive and not self._queue.full:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "full" if self._queue.alive else "stopped"}, 503)

    async def live(self) -> Response:
        alive = self._queue.alive
        return JSONResponse({"status": "ok" if alive else "stopped"}, 200 if alive else 503)

    async def metrics_page(self) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _page_data(queue: RequestQueue, languages: LanguagePairs, limits: RequestLimits) -> dict[str, Any]:
    """The data of the page."""
    targets: dict[str, list[str]] = {code: [] for code in [*languages.sources, *languages.targets]}
    for source, target in languages.pairs:
        targets[source].append(target)
    offer = queue.offer
    return {
        "languages": [{"code": code, "name": english_name(code), "targets": targets[code]} for code in targets],
        "limits": {
            "lines": limits.lines,
            "characters": limits.characters,
            "file": limits.file,
            "n_best": offer.n_best,
            "alignment": offer.aligns,
            "scores": offer.has_scores,
        },
        "formats": [*FILE_FORMATS] if limits.file else [],
        "low_confidence": offer.low_confidence,
    }


async def _while_connected(request: Request, work: Awaitable[T], stopping: asyncio.Event | None = None) -> T:
    """The result of `work`, for a request whose body was received. Cancels the work and raises ClientDisconnect if the
    client disconnects, or HTTPException if the service stops."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())  # after the body, only a disconnect can be received
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
        await asyncio.wait([working])  # until its cleanup is done
