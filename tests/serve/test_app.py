"""The service over real connections."""

import json
import logging
import random
import re
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers.services import CALIBRATION, LINES, Gated, service, until

from nmt.errors import NmtError
from nmt.serve import requests
from nmt.serve.hosts import allowed_hosts
from nmt.serve.requests import RequestLimits

pytestmark = pytest.mark.usefixtures("time_limit")

LIBRE = {"source": "en", "target": "de"}


def test_what_else_there_is_to_ask() -> None:
    with service(Gated()) as (served, _):
        assert served.get("/languages").json == [
            {"code": "en", "name": "English", "targets": ["de"]},
            {"code": "de", "name": "German", "targets": []},
        ]
        limits = {"lines": 256, "characters": 20_000, "file": 4 << 20, "n_best": 3, "alignment": True, "scores": True}
        assert served.get("/limits").json == limits
        for path in ("/health", "/health/ready", "/health/live"):
            assert (served.get(path).status, served.get(path).json) == (200, {"status": "ok"})
        page = served.get("/")
        assert page.body.startswith(b"<!DOCTYPE html>")
        policy = page.headers["content-security-policy"].split("; ")
        nothing = ("default-src", "base-uri", "form-action", "frame-ancestors")
        assert {f"{what} 'none'" for what in nothing} <= set(policy)
        assert "access-control-allow-origin" not in page.headers


def test_translations_of_a_calibrated_model_have_a_confidence() -> None:
    """Except for lines without words, and in LibreTranslate's format. Models that are not calibrated give none."""
    translator, lines = Gated(), ["one two", " ", "six"]
    asked = {"text": lines, "n_best": 2}
    rated = [map(CALIBRATION.rated, translator.alone(line, 2)) for line in lines]
    expected = [[one.confidence for one in best] for best in rated]
    with service(translator) as (served, _):
        assert all("confidence" not in one for best in served.post(asked).json["translations"] for one in best)
        translator.calibration = CALIBRATION
        best = served.post(asked).json["translations"]
        other = served.post({"q": "one two", **LIBRE}).json
    assert expected[1] == [None] and "confidence" not in best[1][0]
    assert [one["confidence"] for one in best[0] + best[2]] == expected[0] + expected[2]
    assert all(0 < one["confidence"] == round(one["confidence"], 1) < 100 for one in best[0] + best[2])
    assert list(other) == ["translatedText"]


def test_metrics() -> None:
    with service(Gated()) as (served, _):
        served.post({"text": ["one", "two"]})
        served.post({})
        served.post({}, path="/detect")
        served.get("/nowhere")
        metrics = served.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=")
    samples = [line.rsplit(" ", 1) for line in metrics.body.decode().split("\n") if line and line[0] != "#"]
    values = {name: float(value) for name, value in samples}
    assert values.items() >= {
        'nmt_requests_total{path="/translate",status="200"}': 1,
        'nmt_requests_total{path="/translate",status="400"}': 1,
        'nmt_requests_total{path="/detect",status="400"}': 1,
        'nmt_request_seconds_bucket{le="+Inf"}': 1,
        "nmt_lines_total": 2,
        "nmt_batches_total": 1,
        "nmt_waiting_lines": 0,
    }.items()  # fmt: skip
    assert values["nmt_busy_seconds_total"] > 0
    assert sum(name.startswith("nmt_requests_total") for name in values) == 3


def test_errors_are_json_with_a_line() -> None:
    limits = RequestLimits(lines=3, characters=200, answer=20_000)
    large = {"text": ["one two three " * 4] * 3, "n_best": 3, "alignment": True}
    with service(Gated(max_source_tokens=60, long_input="error"), limits) as (served, _):
        for answer, status, words in (
            (served.post_bytes(b"{", "application/json"), 400, "the body is not valid JSON in UTF-8"),
            (served.post({"text": "one " * 30}), 400, "line 1 has 90 subwords, more than 60: shorten or split it"),
            (served.post({"text": ["a"] * 4}), 413, "4 lines, more than 3"),
            (served.post({"text": "a" * 201}), 413, "201 characters, more than 200"),
            (served.post({"text": "a" * 600_000}), 413, "bytes: send less in one request"),
            (served.post(large), 413, "the answer could have 0.1 MiB, more than 0.0: send less text, ask for fewer"),
            (served.get("/suggest"), 405, "Method Not Allowed"),
            (served.get("/nowhere"), 404, "Not Found"),
        ):
            assert answer.status == status, words
            assert list(answer.json) == ["error"] and words in answer.json["error"]
        assert served.post({"text": "one two"}).status == 200


def test_a_body_is_not_read_beyond_its_limit() -> None:
    limits = RequestLimits(characters=10)
    with service(Gated(), limits) as (served, _):
        connection = served.connect()
        connection.putrequest("POST", "/translate")
        connection.putheader("Content-Length", str(10**12))
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("connection")) == (413, "close")
        connection.close()
        # Chunked, and refused before it ends: the rest is never sent.
        connection.putrequest("POST", "/translate")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        for _ in range(2 * limits.body // 1000 + 1):
            connection.send(b"%x\r\n%s\r\n" % (1000, b" " * 1000))
        assert connection.getresponse().status == 413
        connection.close()
        chunks = iter([b'{"text": ', b'"one"}'])
        connection.request("POST", "/translate", chunks, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()


def test_a_body_that_comes_too_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "_BODY_SECONDS", 0.5)
    with service(Gated()) as (served, _):
        connection = served.connect()
        connection.putrequest("POST", "/translate")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        answer = connection.getresponse()  # the rest never comes
        assert (answer.status, list(json.loads(answer.read()))) == (408, ["error"])
        connection.close()
        assert served.post({"text": "one"}).status == 200


@pytest.mark.parametrize(
    ("hosts", "allowed", "refused"),
    [
        (
            allowed_hosts("127.0.0.1", ()),
            ("localhost", "LOCALHOST:1", "[::1]:8000", "127.0.0.1"),
            ("evil.example", "192.168.0.1", "localhost.evil.example", "a@localhost", "", "[::1"),
        ),
        (
            allowed_hosts("0.0.0.0", ["Translate.example.org", "2001:db8::1"]),
            ("translate.example.org:443", "localhost", "[2001:db8::1]:8000"),
            ("evil.example", "example.org", "x.translate.example.org"),
        ),
        (allowed_hosts("0.0.0.0", ()), ("192.168.0.1:8000", "any.example"), ()),
    ],
)
def test_it_is_called_by_its_own_names_alone(
    hosts: list[str], allowed: tuple[str, ...], refused: tuple[str, ...]
) -> None:
    """A site that has its name point here gets nothing: not the page, not a translation."""
    translator = Gated()
    with service(translator, hosts=hosts) as (served, _):
        for host in refused:
            assert [served.get(path, Host=host).status for path in ("/", "/nowhere")] == [400, 400]
            assert served.post({"text": "one"}, Host=host).status == 400
        assert translator.calls == []
        for host in allowed:
            assert served.get("/", Host=host).status == served.post({"text": "one"}, Host=host).status == 200


@pytest.mark.parametrize("name", ["http://x", "a b", "x.example:80"])
def test_a_name_to_be_called_by_is_no_address_of_a_page(name: str) -> None:
    allowed_hosts("127.0.0.1", ["x.example", "192.168.0.1", "::1", "[::1]"])
    with pytest.raises(NmtError, match=r"^--allowed-host .*: give only a host name, such as translate\.example\.org$"):
        allowed_hosts("127.0.0.1", ["x.example", name])


def test_pages_of_other_sites_may_send_nothing() -> None:
    """A page of any site can send a form, or what is called plain text, whatever it may read of the answer. For
    pictures and scripts browsers send no `Origin`."""
    translator = Gated()
    path = "/translate?q=one&source=en&target=de"
    with service(translator, hosts=["*", "translate.example.org"]) as (served, _):
        here = f"192.168.0.1:{served.port}"
        for origin in (
            "http://evil.example",
            "null",
            "https://192.168.0.2",
            "http://[",
            "http://localhost@evil.example",
        ):
            answer = served.post({"text": "one"}, Origin=origin, Host=here)
            assert (answer.status, list(answer.json)) == (403, ["error"])
        for kind in ("image", "script", "iframe", "empty"):
            fetch = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": kind, "Host": here}
            assert served.get(path, **fetch).status == 403
        assert translator.calls == []
        for origin in (f"http://{here}", "http://localhost:3000", "https://translate.example.org", "moz-extension://1"):
            assert served.post({"text": "one"}, Origin=origin, Host=here).status == 200
        for site, kind in (("cross-site", "document"), ("same-origin", "empty"), ("none", "document")):
            fetch = {"Sec-Fetch-Site": site, "Sec-Fetch-Dest": kind, "Host": here}
            assert served.get(path, **fetch).status == 200


def test_a_service_whose_translator_has_ended_says_so() -> None:
    with service(Gated()) as (served, queue):
        queue.close()
        for path in ("/health", "/health/ready", "/health/live"):
            assert (served.get(path).status, served.get(path).json) == (503, {"status": "stopped"})


def test_a_full_queue_says_when_to_come_again() -> None:
    translator = Gated()
    with service(translator, RequestLimits(lines=2, waiting=2)) as (served, queue), ThreadPoolExecutor(2) as pool:
        translator.gate.clear()
        first = pool.submit(served.post, {"text": "one"})
        assert translator.inside.wait(30)
        second = pool.submit(served.post, {"text": ["two", "six"]})
        until(lambda: queue.waiting == 2)
        refused = served.post({"text": "ten"})
        assert refused.status == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert "try again in" in refused.json["error"]
        assert (served.get("/health").status, served.get("/health").json) == (503, {"status": "full"})
        assert served.get("/health/live").status == 200
        translator.gate.set()
        assert [first.result(30).status, second.result(30).status] == [200, 200]
        assert served.post({"text": "ten"}).status == 200


def test_who_has_gone_is_not_translated_for(caplog: pytest.LogCaptureFixture) -> None:
    """Whether while waiting or while sending, which is no defect."""
    translator = Gated()
    with service(translator) as (served, queue), ThreadPoolExecutor(1) as pool:
        translator.gate.clear()
        first = pool.submit(served.post, {"text": "one"})
        assert translator.inside.wait(30)
        with socket.create_connection(("127.0.0.1", served.port)) as sending:
            sending.sendall(b"POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
        waiting = served.connect()
        waiting.request("POST", "/translate", b'{"text": "two"}')
        until(lambda: queue.waiting == 1)
        waiting.close()
        until(lambda: b'status="499"} 2' in served.get("/metrics").body)
        translator.gate.set()
        assert first.result(30).status == 200
        assert served.post({"text": "six"}).status == 200
    assert [lines for lines, _ in translator.calls] == [["one"], ["six"]]
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_defect_of_ours_is_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with service(Gated()) as (served, _):
        answer = served.post({"text": "fails"})
        assert (answer.status, answer.json) == (500, {"error": "the translator failed: see the log of the service"})
        assert served.post({"text": "one"}).status == 200
        assert b'status="500"} 1' in served.get("/metrics").body
    assert "a line that fails" in caplog.text


@pytest.mark.parametrize("wanted", [False, True])
def test_a_line_a_request_is_written_if_asked_for(wanted: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Without what was translated, which is nobody's business."""
    caplog.set_level(logging.INFO, "nmt")
    with service(Gated(), log_requests=wanted) as (served, _):
        served.post({"text": "one"})
        served.post({})
        served.post({}, path="/detect?x=1")
    lines = [re.sub(r"[0-9.]+ s$", "s", line) for line in caplog.messages if "POST" in line]
    expected = ["/translate 200", "/translate 400", "/detect 400"] if wanted else []
    assert lines == [f"127.0.0.1 POST {line} s" for line in expected]
    assert "stopped: 1 lines translated" in caplog.messages


def test_everyone_gets_their_own_answer_under_load() -> None:
    """The same text the same way, alone and among many."""
    translator = Gated()
    expected = {line: [each.text for each in translator.alone(line, 2)] for line in LINES}
    with service(translator) as (served, queue):

        def client(seed: int) -> None:
            drawn = random.Random(seed)
            for _ in range(5):
                lines = drawn.choices(LINES, k=drawn.randint(1, 4))
                answer = served.post({"text": lines, "n_best": 2})
                assert answer.status == 200
                texts = [[each["text"] for each in best] for best in answer.json["translations"]]
                assert texts == [expected[line] for line in lines]

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(client, range(20)))
        assert queue.totals.batches < 100
        assert served.post({"text": ["", " "]}).json["translations"][1][0]["text"] == ""
