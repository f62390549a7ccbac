"""The service's pages: /translate, /languages, /health, /metrics, and / for people."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from nmt.commands.html_page import source_hash
from nmt.commands.serve import metrics as metrics_format
from nmt.commands.serve.batching import AnswerTooLarge, BatchingQueue, Found, QueueFull
from nmt.commands.serve.hosts import Hosts, OwnHostsOnly
from nmt.commands.serve.languages import name_of
from nmt.commands.serve.metrics import Metrics
from nmt.commands.serve.requests import Asked, Languages, Limits, Refused, read
from nmt.errors import NmtError

log = logging.getLogger("nmt")

_CLIENT_GONE = 499  # nobody reads it; it is for the log and the metrics
_SECONDS_FOR_A_BODY = 30.0  # in which all of it has to come


def build(
    queue: BatchingQueue,
    languages: Languages,
    limits: Limits,
    ready: Callable[[], None],
    log_requests: bool = False,
    hosts: Hosts | None = None,
) -> FastAPI:
    """The service over a queue. `ready` is called when it starts; when it stops, the queue is closed.

    hosts: by what names it may be called; None: as `localhost` and by loopback addresses.
    """
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
    app.add_middleware(OwnHostsOnly, hosts=hosts or Hosts())

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
        content_type = request.headers.get("content-type", "")
        # Whatever grows with the text is done in other threads: this one has others to answer.
        asked, found = await asyncio.to_thread(_submitted, content_type, body, queue, languages, limits)
        answer = asyncio.wrap_future(found)
        gone = asyncio.ensure_future(request.receive())  # after the body nothing comes but the end of the connection
        try:
            either: set[asyncio.Future[Any]] = {answer, gone}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if not answer.done():
            answer.cancel()
            return Response(status_code=_CLIENT_GONE)
        content = await asyncio.to_thread(asked.answer, answer.result())
        return Response(content, media_type="application/json")
    except ClientDisconnect:  # before its body was whole
        return Response(status_code=_CLIENT_GONE)
    except Refused as error:
        return JSONResponse({"error": str(error)}, error.status, {"Connection": "close"} if error.hang_up else None)
    except NmtError as error:
        return JSONResponse({"error": str(error)}, 400)
    except QueueFull as error:
        return JSONResponse({"error": str(error)}, 429, {"Retry-After": str(error.retry_after)})
    except Exception:  # whatever it is: whoever asked gets JSON, and the service goes on
        log.exception("a request failed")
        return JSONResponse({"error": "the translator failed: its log says why"}, 500)


def _submitted(
    content_type: str, body: bytes, queue: BatchingQueue, languages: Languages, limits: Limits
) -> tuple[Asked, "Future[Found]"]:
    """What a body asks for, and its translations, later. Raises Refused, and what `BatchingQueue.submit` raises."""
    asked = read(content_type, body, languages, limits, queue.translator.decoding.beam_size)
    try:
        return asked, queue.submit(asked.lines, asked.n_best, asked.alignment)
    except AnswerTooLarge as error:
        lower = [f"lower {asked.count_field}"] * (asked.n_best > 1) + ["leave out alignment"] * asked.alignment
        raise Refused(
            413, f"{error}: {', '.join([*lower, 'or send less text' if lower else 'send less text'])}"
        ) from None


async def _body(request: Request, limit: int) -> bytes:
    """The whole body. Refused as soon as it is clear that it is too long, or where it does not come."""
    too_long = Refused(413, f"more than {limit} bytes: send fewer at a time", hang_up=True)
    if int(request.headers.get("content-length", 0)) > limit:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(_SECONDS_FOR_A_BODY):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise too_long
    except TimeoutError:
        why = f"the body did not come within {_SECONDS_FOR_A_BODY:g} seconds: send it faster"
        raise Refused(408, why, hang_up=True) from None
    return bytes(body)


def _add_pages(app: FastAPI, languages: Languages, limits: Limits, queue: BatchingQueue) -> None:
    page = resources.files("nmt.commands.serve").joinpath("page.html").read_text(encoding="utf-8")
    headers = {"Content-Security-Policy": _policy(page)}

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
        if queue.alive and not queue.full:
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
