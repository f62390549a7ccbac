"""Metrics of the service for Prometheus, and the log of requests."""

import asyncio
import logging
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nmt.serve.batching import RequestQueue

log = logging.getLogger("nmt")

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # upper bounds of the histogram, in seconds
_COUNTED = ("/translate", "/detect", "/translate_file")


class Metrics:
    """The number of requests by path and status, the duration of translated requests, and the counts of the queue."""

    def __init__(self, queue: RequestQueue):
        self._registry = CollectorRegistry()
        self._registry.register(_QueueCounts(queue))
        meaning = "Requests to /translate, /detect and /translate_file, by HTTP status."
        self._requests = Counter("nmt_requests", meaning, ["path", "status"], registry=self._registry)
        meaning = "Duration of requests to /translate with status 200, including the time in the queue."
        self._seconds = Histogram("nmt_request_seconds", meaning, buckets=_BUCKETS, registry=self._registry)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request. The histogram has only translated requests."""
        self._requests.labels(path, status).inc()
        if (path, status) == ("/translate", 200):
            self._seconds.observe(seconds)

    def text(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _QueueCounts(Collector):
    def __init__(self, queue: RequestQueue):
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        totals = self._queue.totals
        yield CounterMetricFamily("nmt_lines", "Translated lines.", totals.lines)
        yield CounterMetricFamily("nmt_subwords", "Translated source subwords.", totals.subwords)
        yield CounterMetricFamily("nmt_batches", "Translated batches.", totals.batches)
        yield CounterMetricFamily("nmt_busy_seconds", "Time spent translating.", totals.seconds)
        yield GaugeMetricFamily("nmt_waiting_lines", "Lines in the queue.", self._queue.waiting)
        yield GaugeMetricFamily("nmt_waiting_subwords", "Source subwords in the queue.", self._queue.waiting_subwords)


class CountedRequests:
    """ASGI middleware that adds requests to the metrics, and to the log if `log_requests` is true."""

    def __init__(self, app: ASGIApp, metrics: Metrics, log_requests: bool):
        self._app, self._metrics, self._log_requests = app, metrics, log_requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] not in _COUNTED:
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500

        async def send_noting_status(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, send_noting_status)
        except asyncio.CancelledError:  # the server stops
            stopped = JSONResponse({"error": "the service is stopped before the answer is ready"}, 503)
            await stopped(scope, receive, send_noting_status)
        finally:
            seconds = time.perf_counter() - started
            self._metrics.add(scope["path"], status, seconds)
            if self._log_requests:
                client = scope["client"][0] if scope.get("client") else "-"
                log.info("%s %s %s %d %.3f s", client, scope["method"], scope["path"], status, seconds)
