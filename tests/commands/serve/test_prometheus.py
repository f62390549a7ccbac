"""Prometheus' text format."""

import re

import pytest
from helpers.services import Gated

from nmt.commands.serve.app import RequestMetrics
from nmt.commands.serve.batching import BatchingQueue

pytestmark = pytest.mark.usefixtures("time_limit")


def test_counts_and_times() -> None:
    queue = BatchingQueue(Gated(), 10)
    metrics = RequestMetrics(queue)
    for status, seconds in ((200, 0.01), (200, 0.5), (429, 0.001), (200, 99.0)):
        metrics.add("/translate", status, seconds)
    metrics.add("/detect", 200, 0.01)
    queue.submit(["one", "two"]).result(30)
    queue.close()
    text = metrics.text()
    values = dict(line.rsplit(" ", 1) for line in text.split("\n") if line and not line.startswith("#"))
    assert values['nmt_requests_total{path="/translate",status="200"}'] == "3"
    assert values['nmt_requests_total{path="/translate",status="429"}'] == "1"
    assert values['nmt_requests_total{path="/detect",status="200"}'] == "1"
    buckets = {name: int(value) for name, value in values.items() if "bucket" in name}
    assert list(buckets.values()) == sorted(buckets.values())
    assert buckets['nmt_request_seconds_bucket{le="0.05"}'] == 1
    assert buckets['nmt_request_seconds_bucket{le="0.25"}'] == 1
    assert buckets['nmt_request_seconds_bucket{le="0.5"}'] == 2  # its end counted
    assert buckets['nmt_request_seconds_bucket{le="+Inf"}'] == 3
    assert values["nmt_request_seconds_count"] == "3"
    assert float(values["nmt_request_seconds_sum"]) == 99.51
    assert (values["nmt_lines_total"], values["nmt_batches_total"], values["nmt_waiting_lines"]) == ("2", "1", "0")
    assert values["nmt_waiting_subwords"] == "0"
    assert float(values["nmt_busy_seconds_total"]) > 0


def test_the_format() -> None:
    """Each line a comment or a sample; help and type once, before the samples of their name; a line feed at the end."""
    queue = BatchingQueue(Gated(), 10)
    queue.close()
    metrics = RequestMetrics(queue)
    metrics.add("/translate", 200, 0.1)
    typed = set()
    for line in metrics.text().removesuffix("\n").split("\n"):
        if comment := re.fullmatch(r"# (HELP|TYPE) ([a-z_]+) .+", line):
            if comment[1] == "TYPE":
                assert comment[2] not in typed
                typed.add(comment[2])
        else:
            sample = re.fullmatch(
                r'([a-z_]+?)(_bucket|_sum|_count)?(\{[a-z]+="[^"]+"(?:,[a-z]+="[^"]+")*\})? [0-9.]+', line
            )
            assert sample and sample[1] in typed, line
