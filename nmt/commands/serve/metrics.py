"""What is counted of a service, in Prometheus' text format."""

from collections import Counter

from nmt.commands.serve.batching import BatchingQueue

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # upper ends of the histogram's buckets


class Metrics:
    """Requests by status and by the time that they took. For one thread, the event loop's."""

    def __init__(self, queue: BatchingQueue):
        self.queue = queue
        self.statuses: Counter[int] = Counter()
        self._within: Counter[float] = Counter()
        self._seconds = 0.0
        self._answered = 0

    def add(self, status: int, seconds: float) -> None:
        """One more request that came to its end. Only those with a translation go into the histogram."""
        self.statuses[status] += 1
        if status == 200:
            self._answered += 1
            self._seconds += seconds
            self._within.update(end for end in _SECONDS if seconds <= end)

    def text(self) -> str:
        """All of it, as Prometheus reads it."""
        tally = self.queue.tally
        requests = "nmt_requests_total"
        seconds = "nmt_request_seconds"
        lines = [
            f"# HELP {requests} Requests to /translate, by HTTP status.",
            f"# TYPE {requests} counter",
            *(f'{requests}{{status="{status}"}} {count}' for status, count in sorted(self.statuses.items())),
            f"# HELP {seconds} Time that requests with status 200 took, waiting included.",
            f"# TYPE {seconds} histogram",
            *(f'{seconds}_bucket{{le="{end:g}"}} {self._within[end]}' for end in _SECONDS),
            f'{seconds}_bucket{{le="+Inf"}} {self._answered}',
            f"{seconds}_sum {self._seconds:.6f}",
            f"{seconds}_count {self._answered}",
        ]
        for name, kind, value, meaning in (
            ("nmt_lines_total", "counter", tally.lines, "Lines translated."),
            ("nmt_subwords_total", "counter", tally.subwords, "Source subwords translated."),
            ("nmt_batches_total", "counter", tally.batches, "Batches that the lines were translated in."),
            ("nmt_busy_seconds_total", "counter", f"{tally.busy:.6f}", "Time spent translating."),
            ("nmt_waiting_lines", "gauge", self.queue.waiting, "Lines that wait for the translator."),
            ("nmt_waiting_subwords", "gauge", self.queue.waiting_subwords, "Their source subwords."),
        ):
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {kind}", f"{name} {value}"]
        return "\n".join(lines) + "\n"
