"""A service that is slow, busy, broken, of another kind, or not there: what can pass is waited for."""

import re
import socket
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from helpers import endpoints
from helpers.chat_server import Asked, Said, backwards, good, serving

from nmt.errors import NmtError
from nmt.teachers import client
from nmt.teachers.opened_endpoint import OpenedEndpoint
from nmt.teachers.teacher import Teacher

KEY = "sk-planted-9d41"
LINES = [f"the house number {number} is very old" for number in range(40)]


def teacher(folder: Path, address: str, more: str = "requests: 8", patience: float = 600) -> Teacher:
    path = endpoints.write(folder, address, f"key: {KEY}\n{more}")
    return OpenedEndpoint.open(path, patience=patience).teacher()


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_FIRST_WAIT", 0.01)
    monkeypatch.setattr(client, "_LONGEST_WAIT", 0.05)


def test_failures_that_pass_are_waited_for(tmp_path: Path) -> None:
    """Each of the first requests of some lines fails in another way; every line is answered once."""
    failures = [
        Said(status=500, content="oops"),
        Said(status=503, content='{"error": "loading"}', headers="Retry-After: 0\r\n"),
        Said(status=429, content="{}"),
        Said("half of it", cut=True),
        Said(content="<html>busy</html>"),
        Said(content='{"choices": []}'),
        Said("never", seconds=60),
        Said(status=408, content=""),
    ]

    def behave(asked: Asked) -> Said:
        number = int(re.findall(r"\d+", asked.line)[0])
        if number < len(failures) and not asked.before:
            return failures[number]
        return Said(backwards(asked.line), seconds=0.01 * (number % 3), at_once=8)

    with serving(behave) as server:
        teaching = teacher(tmp_path, server.address, "requests: 8\ntimeout: 1")
        assert teaching.translate(LINES) == list(map(backwards, LINES))
        assert server.most_at_once == 8
    assert sum(teaching.counts.rejected.values()) == 0 and teaching.counts.requests == len(LINES)


def test_all_requests_wait_as_long_as_the_service_says(tmp_path: Path) -> None:
    """While the first line waits, the answer to the second arrives, and the third is not asked for."""
    times = dict[tuple[str, int], float]()

    def behave(asked: Asked) -> Said:
        times[asked.line, asked.before] = time.monotonic()
        if asked.line == "first line" and not asked.before:
            return Said(status=429, content="", headers="Retry-After: 2\r\n")
        return Said(backwards(asked.line), seconds=0.5 * (asked.line == "second line"))

    with serving(behave) as server:
        teacher(tmp_path, server.address, "requests: 2").translate(["first line", "second line", "third line"])
    begun = times["first line", 0]
    assert min(times["first line", 1], times["third line", 0]) >= begun + 2


def test_a_date_to_wait_for() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 95 < (client._seconds(date) or 0) <= 100
    assert [client._seconds(text) for text in ("7", "", "soon", "-1")] == [7, None, None, 0]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        (Said(status=401, content=f"wrong key {KEY}"), r"v1: the key is not accepted: wrong key …$"),
        (Said(status=404, content="no"), r"v1: model tiny: unknown: the service has large$"),
        (Said(status=400, content='{"error": {"message": "invalid model"}}'), r"model tiny: unknown"),
        (
            Said(status=400, content='{"error": {"message": "This model\'s maximum context length is 10 tokens"}}'),
            r"^line \d+: longer than the model's context: shorten the line or the prompt: This model's maximum",
        ),
        (Said(status=422, content='{"detail": "seed: no"}'), r"v1: line \d+: status 422: seed: no$"),
        (Said(status=400, content=f"{KEY} " + "long " * 200), r"status 400: … (long ){10,60}.{,4}…$"),
        (Said(status=302, content="moved"), r"status 302: moved: correct `endpoint`, which often ends in /v1$"),
        (Said(content="<html>hello</html>"), r"v1: the reply is not a chat completion: <html>hello"),
        (Said(content="[" * 100_000), r"is not a chat completion"),
        (Said(status=429, content="quota", headers="Retry-After: 7200\r\n"), r"retry in 7,200 s: status 429: quota"),
        (Said("never", seconds=60), r"does not answer: no answer in 0.1 seconds: try again later"),
    ],
)  # fmt: skip
def test_what_cannot_pass_is_said_in_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: Said, message: str
) -> None:
    timeout, patience = (0.1, 0.5) if said.seconds else (60, 600)
    caplog.set_level("INFO")
    with serving(lambda _: said) as server, pytest.raises(NmtError, match=message) as raised:
        teacher(tmp_path, server.address, f"timeout: {timeout}", patience).translate(LINES)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 400
    assert KEY not in caplog.text + str(raised.value)


def test_a_service_that_is_not_there(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with pytest.raises(NmtError, match=r"v1: cannot be reached .*: start the service, or correct `endpoint`"):
        teacher(tmp_path, f"http://user:{KEY}@127.0.0.1:{port}/v1").translate(LINES)


def test_a_line_that_the_service_refuses_is_left(tmp_path: Path) -> None:
    """Such as by a filter of contents, which also ends answers in the middle."""

    def behave(asked: Asked) -> Said:
        if "number 2 " in asked.line:
            return Said(status=400, content="This model's maximum context length is 10 tokens")
        if "number 3 " in asked.line:
            return Said(status=400, content="content policy")
        return Said(backwards(asked.line), reason="content_filter" if "number 4 " in asked.line else "stop")

    with serving(behave) as server:
        teaching = teacher(tmp_path, server.address, "requests: 1\nretries: 0")
        expected = [backwards(line) for line in LINES]
        assert teaching.translate(LINES) == [*expected[:2], "", "", "", *expected[5:]]
    assert teaching.counts.rejected == {"too long for the model": 1, "not accepted": 1, "cut off": 1}


def test_a_service_of_this_machine_is_asked_without_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with serving() as server:
        assert teacher(tmp_path, server.address).translate(LINES[:1]) == [backwards(LINES[0])]


@pytest.mark.parametrize("lines", [LINES, LINES[3:4]])
def test_a_line_that_only_breaks_the_service_is_left(tmp_path: Path, lines: list[str]) -> None:
    """Also if it is the last one of a job that is continued: the service lists its models."""

    def behave(asked: Asked) -> Said:
        return Said(status=500, content="crash") if "number 3 " in asked.line else good(asked)

    with serving(behave) as server:
        teaching = teacher(tmp_path, server.address, "requests: 2")
        teaching._client.answered_before = len(lines) == 1
        assert teaching.translate(lines) == ["" if "number 3 " in line else backwards(line) for line in lines]
    assert teaching.counts.rejected == {"no answer": 1}


@pytest.mark.parametrize("lines", [LINES, LINES[:2]])
def test_a_service_that_breaks_with_every_line_ends_the_command(tmp_path: Path, lines: list[str]) -> None:
    """Also a short one, although the service lists its models."""
    with (
        serving(lambda _: Said(status=500, content="crash")) as server,
        pytest.raises(NmtError, match="status 500: crash"),
    ):
        teacher(tmp_path, server.address, patience=1).translate(lines)


def test_a_service_that_is_not_paid_is_not_asked_again(tmp_path: Path) -> None:
    said = Said(status=429, content='{"error": {"message": "you have no credit", "code": "insufficient_quota"}}')
    with serving(lambda _: said) as server, pytest.raises(NmtError, match=r"v1: you have no credit$"):
        teacher(tmp_path, server.address, "requests: 1").translate(LINES)
