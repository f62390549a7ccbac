"""The service's metrics in Prometheus' text format."""

from collections import Counter

from nmt.commands.serve.batching import BatchingQueue

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # upper bounds of the histogram, in seconds


class RequestMetrics:
    """Requests by status and by the time that they took. Used by one thread only, that of the event loop."""

    def __init__(self, queue: BatchingQueue):
        self.queue = queue
        self.statuses: Counter[int] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0
        self._answered = 0

    def add(self, status: int, seconds: float) -> None:
        """Count a request. Only those that were translated (status 200) go into the histogram."""
        self.statuses[status] += 1
        if status == 200:
            self._answered += 1
            self._seconds += seconds
            self._within.update(bound for bound in _BUCKETS if seconds <= bound)

    def text(self) -> str:
        totals = self.queue.totals
        requests = "nmt_requests_total"
        seconds = "nmt_request_seconds"
        lines = [
            f"# HELP {requests} Requests to /translate, by HTTP status.",
            f"# TYPE {requests} counter",
            *(f'{requests}{{status="{status}"}} {count}' for status, count in sorted(self.statuses.items())),
            f"# HELP {seconds} Duration of requests with status 200, including the time in the queue.",
            f"# TYPE {seconds} histogram",
            *(f'{seconds}_bucket{{le="{bound:g}"}} {self._within[bound]}' for bound in _BUCKETS),
            f'{seconds}_bucket{{le="+Inf"}} {self._answered}',
            f"{seconds}_sum {self._seconds:.6f}",
            f"{seconds}_count {self._answered}",
        ]
        for name, kind, value, meaning in (
            ("nmt_lines_total", "counter", totals.lines, "Translated lines."),
            ("nmt_subwords_total", "counter", totals.subwords, "Translated source subwords."),
            ("nmt_batches_total", "counter", totals.batches, "Translated batches."),
            ("nmt_busy_seconds_total", "counter", f"{totals.seconds:.6f}", "Time spent translating."),
            ("nmt_waiting_lines", "gauge", self.queue.waiting, "Lines in the queue."),
            ("nmt_waiting_subwords", "gauge", self.queue.waiting_subwords, "Source subwords in the queue."),
        ):
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join(lines) + "\n"
