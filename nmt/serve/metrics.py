"""What the service has done and what waits, for Prometheus."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from nmt.serve.batching import BatchingQueue

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # upper bounds of the histogram, in seconds


class RequestMetrics:
    """Requests by path and status, and the time of those that were translated; with the counts of the queue."""

    def __init__(self, queue: BatchingQueue):
        self._registry = CollectorRegistry()
        self._registry.register(_QueueCounts(queue))
        meaning = "Requests to /translate, /detect and /translate_file, by HTTP status."
        self._requests = Counter("nmt_requests", meaning, ["path", "status"], registry=self._registry)
        meaning = "Duration of requests to /translate with status 200, including the time in the queue."
        self._seconds = Histogram("nmt_request_seconds", meaning, buckets=_BUCKETS, registry=self._registry)

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request. Only those that were translated go into the histogram."""
        self._requests.labels(path, status).inc()
        if (path, status) == ("/translate", 200):
            self._seconds.observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self._registry)


class _QueueCounts(Collector):
    def __init__(self, queue: BatchingQueue):
        self._queue = queue

    def collect(self) -> Iterator[Metric]:
        totals = self._queue.totals
        yield CounterMetricFamily("nmt_lines", "Translated lines.", totals.lines)
        yield CounterMetricFamily("nmt_subwords", "Translated source subwords.", totals.subwords)
        yield CounterMetricFamily("nmt_batches", "Translated batches.", totals.batches)
        yield CounterMetricFamily("nmt_busy_seconds", "Time spent translating.", totals.seconds)
        yield GaugeMetricFamily("nmt_waiting_lines", "Lines in the queue.", self._queue.waiting)
        yield GaugeMetricFamily("nmt_waiting_subwords", "Source subwords in the queue.", self._queue.waiting_subwords)
