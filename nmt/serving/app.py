"""The service's pages: /translate, /languages, /health, /metrics, and / for people."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from nmt.errors import NmtError
from nmt.html_page import source_hash
from nmt.serving import metrics as metrics_format
from nmt.serving.batching import BatchingQueue, QueueFull
from nmt.serving.languages import name_of
from nmt.serving.metrics import Metrics
from nmt.serving.requests import Languages, Limits, Refused, read

log = logging.getLogger("nmt")

_CLIENT_GONE = 499  # nobody reads it; it is for the log and the metrics


def build(
    queue: BatchingQueue, languages: Languages, limits: Limits, ready: Callable[[], None], log_requests: bool = False
) -> FastAPI:
    """The service over a queue. `ready` is called when it starts; when it stops, the queue is closed."""
    metrics = Metrics(queue)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        ready()
        yield
        await asyncio.to_thread(queue.close)
        total, answered = metrics.statuses.total(), metrics.statuses[200]
        log.info("stopped: %d requests, %d of them answered with %d lines", total, answered, queue.tally.lines)

    # No pages of documentation: FastAPI's load their scripts from elsewhere.
    app = FastAPI(lifespan=lifespan, openapi_url=None, docs_url=None, redoc_url=None)

    @app.post("/translate")
    async def translate(request: Request) -> Response:
        started = time.perf_counter()
        response = await _translate(request, queue, languages, limits)
        seconds = time.perf_counter() - started
        metrics.add(response.status_code, seconds)
        if log_requests:
            client = request.client.host if request.client else "-"
            log.info("%s POST /translate %d %.3f s", client, response.status_code, seconds)
        return response

    _add_pages(app, languages, limits, queue)
    _add_probes(app, queue, metrics)

    @app.exception_handler(HTTPException)
    async def in_our_shape(_: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    return app


async def _translate(request: Request, queue: BatchingQueue, languages: Languages, limits: Limits) -> Response:
    """The answer to a request, whatever it is."""
    try:
        body = await _body(request, limits.body)
        beam_size = queue.translator.decoding.beam_size
        asked = read(request.headers.get("content-type", ""), body, languages, limits, beam_size)
        answer = asyncio.wrap_future(queue.submit(asked.lines, asked.n_best, asked.alignment))
        gone = asyncio.ensure_future(request.receive())  # after the body nothing comes but the end of the connection
        try:
            either: set[asyncio.Future[Any]] = {answer, gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if not answer.done():
            answer.cancel()
            return Response(status_code=_CLIENT_GONE)
        return JSONResponse(asked.answer(answer.result()))
    except ClientDisconnect:  # before its body was whole
        return Response(status_code=_CLIENT_GONE)
    except Refused as error:
        return JSONResponse({"error": str(error)}, error.status)
    except NmtError as error:
        return JSONResponse({"error": str(error)}, 400)
    except QueueFull as error:
        return JSONResponse({"error": str(error)}, 429, {"Retry-After": str(error.retry_after)})
    except Exception:  # whatever it is: whoever asked gets JSON, and the service goes on
        log.exception("a request failed")
        return JSONResponse({"error": "the translator failed: its log says why"}, 500)


async def _body(request: Request, limit: int) -> bytes:
    """The whole body. Refused as soon as it is clear that it is too long."""
    chunks, size = [], 0
    async for chunk in request.stream():
        size += len(chunk)
        if max(size, int(request.headers.get("content-length", 0))) > limit:
            raise Refused(413, f"more than {limit} bytes: send fewer at a time")
        chunks.append(chunk)
    return b"".join(chunks)


def _add_pages(app: FastAPI, languages: Languages, limits: Limits, queue: BatchingQueue) -> None:
    page = resources.files("nmt.serving").joinpath("page.html").read_text(encoding="utf-8")
    headers = {"Content-Security-Policy": _policy(page), "X-Content-Type-Options": "nosniff"}

    @app.get("/")
    async def for_people() -> HTMLResponse:
        return HTMLResponse(page, headers=headers)

    @app.get("/languages")
    async def languages_() -> JSONResponse:
        known = [(languages.source, [languages.target]), (languages.target, [])]
        return JSONResponse([{"code": code, "name": name_of(code), "targets": targets} for code, targets in known])

    @app.get("/limits")
    async def limits_() -> JSONResponse:
        translator = queue.translator
        can = {"n_best": translator.decoding.beam_size, "alignment": translator.engine.aligns}
        return JSONResponse({"lines": limits.lines, "characters": limits.characters, **can})


def _add_probes(app: FastAPI, queue: BatchingQueue, metrics: Metrics) -> None:
    @app.get("/health")
    @app.get("/health/ready")
    async def ready() -> JSONResponse:
        """Whether a line would be taken now."""
        if queue.alive and queue.waiting < queue.most_waiting:
            return JSONResponse({"status": "ok"})
        return JSONResponse({"status": "full" if queue.alive else "stopped"}, 503)

    @app.get("/health/live")
    async def live() -> JSONResponse:
        return JSONResponse({"status": "ok" if queue.alive else "stopped"}, 200 if queue.alive else 503)

    @app.get("/metrics")
    async def metrics_() -> PlainTextResponse:
        return PlainTextResponse(metrics.text(), media_type=metrics_format.CONTENT_TYPE)


def _policy(page: str) -> str:
    """The page may run its own script, use its own style and ask its own server; nothing else."""

    def source(tag: str) -> str:
        found = re.search(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert found, f"the page has no <{tag}>"
        return source_hash(found[1])

    return (
        f"default-src 'none'; script-src {source('script')}; style-src {source('style')}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
