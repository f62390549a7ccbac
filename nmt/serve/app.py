"""The service's addresses: /translate, /detect, /translate_file, /languages, /limits, /health, /metrics, and / with the
web page."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from typing import TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from nmt.config.language_codes import english_name
from nmt.config.language_pairs import LanguagePairs
from nmt.documents.process import FILE_FORMATS
from nmt.errors import NmtError
from nmt.pages.html_page import html_page
from nmt.serve import documents
from nmt.serve.batching import AnswerTooLarge, BatchingQueue, NBest, QueueFull
from nmt.serve.documents import DocumentRequest, ServedDocuments
from nmt.serve.fields import Received, RequestError
from nmt.serve.hosts import AllowedHosts, HostCheck
from nmt.serve.metrics import RequestMetrics
from nmt.serve.receiving import receive
from nmt.serve.requests import Limits, NmtRequest, TranslationRequest, parse, parse_detection, warning_of

log = logging.getLogger("nmt")

_CLIENT_GONE = 499  # a status for the log and the metrics only

T = TypeVar("T")


def build(
    queue: BatchingQueue, languages: LanguagePairs, limits: Limits, url: str, log_requests: bool, hosts: AllowedHosts
) -> FastAPI:
    """The service for a queue. It logs its `url` when it starts, and closes the queue when it stops. Its
    `state.documents` are to be stopped first."""
    metrics = RequestMetrics(queue)
    served = ServedDocuments(limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        log.info("listening on %s", url)
        yield
        await served.close()
        await asyncio.to_thread(queue.close)
        log.info("stopped: %d lines translated", queue.totals.lines)

    # Without FastAPI's pages of documentation, which load scripts from other servers.
    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)
    app.add_middleware(HostCheck, hosts=hosts)
    app.state.documents = served

    async def counted(request: Request, response: Awaitable[Response]) -> Response:
        path, started = request.url.path, time.perf_counter()
        try:
            answer = await response
        except asyncio.CancelledError:  # by the server, which stops
            answer = JSONResponse({"error": "the service is stopped before the answer is ready"}, 503)
        status = answer.status_code
        seconds = time.perf_counter() - started
        metrics.add(path, status, seconds)
        if log_requests:
            client = request.client.host if request.client else "-"
            log.info("%s %s %s %d %.3f s", client, request.method, path, status, seconds)
        return answer

    @app.get("/translate")
    @app.post("/translate")
    async def translate(request: Request) -> Response:
        return await counted(request, _translate(request, queue, languages, limits))

    @app.get("/detect")
    @app.post("/detect")
    async def detect(request: Request) -> Response:
        return await counted(request, _detect(request, languages, limits))

    if limits.file:

        @app.post("/translate_file")
        async def translate_file(request: Request) -> Response:
            return await counted(request, _translate_file(request, queue, languages, limits, served))

        @app.get("/download_file/{address}", name="download_file")
        async def download_file(address: str) -> Response:
            return await served.files.response(address) or JSONResponse(
                {"error": "no such file: translate it again"}, 404
            )

    _add_pages(app, languages, limits, queue)
    _add_libretranslate(app, languages, limits)
    _add_probes(app, queue, metrics)

    @app.exception_handler(HTTPException)
    async def as_json(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    return app


async def _translate(request: Request, queue: BatchingQueue, languages: LanguagePairs, limits: Limits) -> Response:
    """The response to a request, also for any error."""
    try:
        received = await receive(request, limits.body)
        # Work that grows with the text is done in other threads, because this one serves all requests.
        parsed, future = await asyncio.to_thread(_submit, received, queue, languages, limits)
        n_best = await _while_connected(request, asyncio.wrap_future(future))
        keep = queue.translator.decoding.keep
        warning = await asyncio.to_thread(warning_of, parsed, n_best, languages, keep)
        content = await asyncio.to_thread(parsed.answer, n_best, warning)
        return Response(content, media_type="application/json")
    except Exception as error:
        return _refusal(request, error)


async def _translate_file(
    request: Request, queue: BatchingQueue, languages: LanguagePairs, limits: Limits, served: ServedDocuments
) -> Response:
    """The response to a request, also for any error."""
    try:
        with served.request():
            with served.memory.request() as count:
                parsed = await _received_document(request, count, languages, limits, served)
                translated = await _while_connected(request, served.translated(parsed, queue, languages, limits))
            address = await served.files.add(translated.name, translated.content)
        answer: dict[str, object] = {"translatedFileUrl": str(request.url_for("download_file", address=address))}
        if translated.detected:
            answer["detectedLanguage"] = translated.detected._asdict()
        if translated.warning:
            answer["warning"] = translated.warning
        if translated.notes:
            answer["notes"] = translated.notes
        return JSONResponse(answer)
    except Exception as error:
        return _refusal(request, error)


async def _received_document(
    request: Request, count: Callable[[int], None], languages: LanguagePairs, limits: Limits, served: ServedDocuments
) -> DocumentRequest:
    """The document of a request. count: as for `receive`; of a compressed body, what is kept of it counts."""
    received = await receive(request, limits.upload, count)
    async with served.parsing:
        parsed = await asyncio.to_thread(documents.parse, received, languages, limits)
        count(len(parsed.content) - len(received.body))
    return parsed


async def _while_connected(request: Request, work: Awaitable[T]) -> T:
    """The result of work for a request of which the body was received. Raises ClientDisconnect, and cancels the work,
    when the client has gone."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(request.receive())  # after the body, only the end of the connection is received
    try:
        await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        gone.cancel()
        working.cancel()


async def _detect(request: Request, languages: LanguagePairs, limits: Limits) -> Response:
    """The response to a request, also for any error."""
    try:
        received = await receive(request, limits.body)
        found = await asyncio.to_thread(parse_detection, received, languages, limits)
        return JSONResponse([one._asdict() for one in found])
    except Exception as error:
        return _refusal(request, error)


def _refusal(request: Request, error: Exception) -> Response:
    """The response to a request that failed with this error."""
    match error:
        case ClientDisconnect():
            return Response(status_code=_CLIENT_GONE)
        case RequestError():
            return JSONResponse({"error": str(error)}, error.status, error.headers)
        case NmtError():
            return JSONResponse({"error": str(error)}, 400)
        case QueueFull():
            return JSONResponse({"error": str(error)}, 429, {"Retry-After": str(error.retry_after)})
    # Of any type: the client gets JSON, and the service continues.
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return JSONResponse({"error": "the translator failed: see the log of the service"}, 500)


def _submit(
    received: Received, queue: BatchingQueue, languages: LanguagePairs, limits: Limits
) -> tuple[TranslationRequest, "Future[NBest]"]:
    """The request, and its future translations. Raises RequestError, and as `BatchingQueue.submit` does."""
    request = parse(received, languages, limits, queue.translator.decoding.beam_size)
    try:
        # A folder of CTranslate2 gives no alignment: tags then go where they are in the source.
        aligned = request.alignment and (queue.translator.engine.aligns or isinstance(request, NmtRequest))
        details = aligned, request.token_scores, request.languages
        return request, queue.submit(request.lines, request.n_best, *details)
    except AnswerTooLarge as error:
        fixes = [f"lower {request.count_field}"] * (request.n_best > 1)
        fixes += [request.without_alignment] * request.alignment
        fixes.append("or send less text" if fixes else "send less text")
        raise RequestError(413, f"{error}: {', '.join(fixes)}") from None


def _add_pages(app: FastAPI, languages: LanguagePairs, limits: Limits, queue: BatchingQueue) -> None:
    targets: dict[str, list[str]] = {code: [] for code in [*languages.sources, *languages.targets]}
    for source, target in languages.pairs:
        targets[source].append(target)
    offered = [{"code": code, "name": english_name(code), "targets": of} for code, of in targets.items()]
    translator = queue.translator
    options = {"n_best": translator.decoding.beam_size, "alignment": translator.engine.aligns}
    allowed = {"lines": limits.lines, "characters": limits.characters, "file": limits.file, **options}
    data = {"languages": offered, "limits": allowed, "formats": [*FILE_FORMATS] if limits.file else []}
    page = html_page("nmt.serve", "nmt", data, connects="'self'")
    headers = {"Content-Security-Policy": _policy(page)}

    @app.get("/")
    async def page_() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)

    @app.get("/languages")
    @app.post("/languages")  # as argostranslate asks for them
    async def languages_() -> JSONResponse:
        return JSONResponse(offered)

    @app.get("/limits")
    async def limits_() -> JSONResponse:
        return JSONResponse(allowed)


def _add_libretranslate(app: FastAPI, languages: LanguagePairs, limits: Limits) -> None:
    """What else LibreTranslate's clients ask for: its settings, and what this service does not do."""

    @app.get("/frontend/settings")
    async def settings() -> JSONResponse:
        source, target = languages.pairs[0]
        return JSONResponse(
            {
                "charLimit": limits.characters,
                "frontendTimeout": 500,
                "apiKeys": False,
                "keyRequired": False,
                "suggestions": False,
                "filesTranslation": limits.file > 0,
                "supportedFilesFormat": [*FILE_FORMATS] if limits.file else [],
                "language": {
                    "source": {"code": source, "name": english_name(source)},
                    "target": {"code": target, "name": english_name(target)},
                },
            }
        )

    # With the status that LibreTranslate has where these are switched off.
    if not limits.file:

        @app.post("/translate_file")
        async def translate_file() -> JSONResponse:
            why = "this service translates no files: send their text, or their HTML with format: html, to /translate"
            return JSONResponse({"error": why}, 403)

    @app.post("/suggest")
    async def suggest() -> JSONResponse:
        return JSONResponse({"error": "this service takes no suggestions"}, 403)


def _add_probes(app: FastAPI, queue: BatchingQueue, metrics: RequestMetrics) -> None:
    @app.get("/health")
    @app.get("/health/ready")
    async def ready() -> JSONResponse:
        """Whether the queue would take a line now."""
        if queue.alive and not queue.full:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "full" if queue.alive else "stopped"}, 503)

    @app.get("/health/live")
    async def live() -> JSONResponse:
        return JSONResponse({"status": "ok" if queue.alive else "stopped"}, 200 if queue.alive else 503)

    @app.get("/metrics")
    async def metrics_() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _policy(page: str) -> str:
    """The policy in the page, and what only a header can say: that the page may not be a part of another one."""
    [policy] = re.findall('Content-Security-Policy" content="([^"]*)"', page)
    return f"{policy}; frame-ancestors 'none'"
