"""The metrics of the service, in Prometheus' text format."""

import pytest
from helpers.services import Gated

from nmt.serve.batching import BatchingQueue
from nmt.serve.metrics import RequestMetrics

pytestmark = pytest.mark.usefixtures("time_limit")


def test_counts_and_times() -> None:
    queue = BatchingQueue(Gated(), 10)
    metrics = RequestMetrics(queue)
    for status, seconds in ((200, 0.01), (200, 0.5), (429, 0.001), (200, 99.0)):
        metrics.add("/translate", status, seconds)
    metrics.add("/detect", 200, 0.01)
    queue.submit(["one", "two"]).result(30)
    queue.close()
    text = metrics.text().decode()
    samples = (line.rsplit(" ", 1) for line in text.split("\n") if line and not line.startswith("#"))
    values = {name: float(value) for name, value in samples}
    assert values.items() >= {
        'nmt_requests_total{path="/translate",status="200"}': 3,
        'nmt_requests_total{path="/translate",status="429"}': 1,
        'nmt_requests_total{path="/detect",status="200"}': 1, 'nmt_request_seconds_bucket{le="0.05"}': 1,
        'nmt_request_seconds_bucket{le="0.25"}': 1, 'nmt_request_seconds_bucket{le="+Inf"}': 3,
        'nmt_request_seconds_bucket{le="0.5"}': 2,  # its end counted
        "nmt_request_seconds_count": 3, "nmt_request_seconds_sum": 99.51, "nmt_lines_total": 2, "nmt_batches_total": 1,
        "nmt_waiting_lines": 0, "nmt_waiting_subwords": 0,
    }.items()  # fmt: skip
    assert values["nmt_busy_seconds_total"] > 0
