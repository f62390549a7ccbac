"""The service over real connections."""

import json
import logging
import random
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers.services import LINES, SERVING, Gated, service, until
from starlette.datastructures import Headers

from nmt.serve import app, receiving
from nmt.serve.hosts import AllowedHosts, HostCheck
from nmt.serve.requests import Limits, NmtRequest

pytestmark = pytest.mark.usefixtures("time_limit")

LIBRE = {"source": "en", "target": "de"}


def test_what_else_there_is_to_ask() -> None:
    with service(Gated()) as (served, _):
        assert served.get("/languages").json == [
            {"code": "en", "name": "English", "targets": ["de"]},
            {"code": "de", "name": "German", "targets": []},
        ]
        limits = {"lines": 256, "characters": 20_000, "file": 4 << 20, "n_best": 3, "alignment": True}
        assert served.get("/limits").json == limits
        for path in ("/health", "/health/ready", "/health/live"):
            assert (served.get(path).status, served.get(path).json) == (200, {"status": "ok"})
        served.post({"text": "one"})
        served.post({})
        metrics = served.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=")
        for status in (b"200", b"400"):
            assert b'nmt_requests_total{path="/translate",status="%s"} 1.0\n' % status in metrics.body
        page = served.get("/")
        assert page.body.startswith(b"<!DOCTYPE html>")
        policy = page.headers["content-security-policy"].split("; ")
        nothing = ("default-src", "base-uri", "form-action", "frame-ancestors")
        assert {f"{what} 'none'" for what in nothing} <= set(policy)
        assert "access-control-allow-origin" not in page.headers


def test_errors_are_json_with_a_line() -> None:
    with service(Gated(max_source_tokens=20, long_input="error"), Limits(lines=3, characters=200)) as (served, _):
        for answer, status, words in (
            (served.post_bytes(b"{", "application/json"), 400, "the body is not valid application/json in UTF-8"),
            (served.post({"text": "one " * 40}), 400, "line 1 has 120 subwords, more than 20: shorten or split it"),
            (served.post({"text": ["a"] * 4}), 413, "4 lines, more than 3"),
            (served.post({"text": "a" * 100_000}), 413, "bytes: send less in one request"),
            (served.get("/suggest"), 405, "Method Not Allowed"),
        ):
            assert answer.status == status
            assert list(answer.json) == ["error"] and words in answer.json["error"]


def test_a_long_body_is_not_read_to_its_end() -> None:
    with service(Gated(), Limits(characters=10)) as (served, _):
        connection = served.connect()
        connection.putrequest("POST", "/translate")
        connection.putheader("Content-Length", str(10**12))
        connection.endheaders()
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("connection")) == (413, "close")
        connection.close()


def test_a_body_without_a_length_is_bounded_too() -> None:
    """Chunked, and refused before it ends: the rest is never sent."""
    limits = Limits(characters=10)
    with service(Gated(), limits) as (served, _):
        connection = served.connect()
        connection.putrequest("POST", "/translate")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        part = b" " * 1000
        for _ in range(limits.body // len(part) + 1):
            connection.send(b"%x\r\n%s\r\n" % (len(part), part))
        assert connection.getresponse().status == 413
        connection.close()
        chunks = iter([b'{"text": ', b'"one"}'])
        connection.request("POST", "/translate", chunks, {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        assert connection.getresponse().status == 200
        connection.close()


def test_a_body_that_comes_too_slowly_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receiving, "_BODY_SECONDS", 0.5)
    with service(Gated()) as (served, _):
        connection = served.connect()
        connection.putrequest("POST", "/translate")
        connection.putheader("Content-Length", "100")
        connection.endheaders(b"{")
        answer = connection.getresponse()  # the rest never comes
        assert (answer.status, json.loads(answer.read())["error"]) == (
            408,
            "the body took longer than 0.5 seconds: send it faster",
        )
        connection.close()
        until(lambda: b'status="408"} 1' in served.get("/metrics").body)
        assert served.post({"text": "one"}).status == 200


def test_an_answer_that_could_be_too_large_is_refused() -> None:
    with service(Gated(), Limits(answer=20_000)) as (served, _):
        assert served.post({"text": "one two"}).status == 200
        text = " ".join(["one two three"] * 8)
        for fields, lower in (
            ({"text": text, "n_best": 3, "alignment": True}, "lower n_best, leave out alignment, or send less text"),
            (LIBRE | {"q": f"{text}\n" * 9, "alternatives": 2}, "lower alternatives, or send less text"),
        ):
            answer = served.post(fields)
            assert answer.status == 413
            assert re.fullmatch(rf"the answer could have 0\.[0-9] MiB, more than 0\.0: {lower}", answer.json["error"])
        assert served.post({"text": text}).status == 200


@pytest.mark.parametrize(("module", "name"), [(NmtRequest, "answer"), (app, "parse")])
def test_who_has_much_to_say_keeps_nobody_waiting(module: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large requests are read, and large answers written, in other threads than that which answers all."""
    inside, gate, threads, done = threading.Event(), threading.Event(), [], getattr(module, name)

    def held(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        inside.set()
        assert gate.wait(20)
        return done(*arguments)

    monkeypatch.setattr(module, name, held)
    with service(Gated()) as (served, _), ThreadPoolExecutor(1) as pool:
        large = pool.submit(served.post, {"text": LINES, "n_best": 3, "alignment": True})
        assert inside.wait(20)
        assert served.get("/health").json == {"status": "ok"}
        gate.set()
        assert len(large.result(20).json["translations"]) == len(LINES)
    assert len(threads) == 1 and threads[0] != SERVING


def test_it_is_called_by_its_own_names_alone() -> None:
    """A site that has its name point here gets nothing: not the page, not a translation."""
    with service(Gated()) as (served, _):
        for host in ("localhost", f"LOCALHOST:{served.port}", "127.0.0.2:1"):
            assert served.get("/", Host=host).status == 200
            assert served.post({"text": "one"}, Host=host).status == 200
        for host in (
            "evil.example",
            "evil.example:8000",
            "192.168.0.1",
            "a@localhost",
            "localhost.evil.example",
            "",
            "[::1",
        ):
            for path in ("/", "/nowhere"):
                answer = served.get(path, Host=host)
                assert (answer.status, list(answer.json)) == (421, ["error"])
            answer = served.post({"text": "one"}, Host=host)
            assert answer.status == 421
            assert (
                answer.json["error"]
                == f"Host {host}: not a name of this service: to allow it, start with --allowed-host NAME"
            )
        assert b'status="421"' not in served.get("/metrics").body


def test_each_of_several_names_and_pages_counts() -> None:
    """Some servers and proxies pass on more than one."""
    checked = HostCheck(lambda *_: pytest.fail("answered"), AllowedHosts())  # type: ignore[arg-type]

    def status(*headers: tuple[str, str]) -> int | None:
        refusal = checked._refusal(Headers(raw=[(name.encode(), value.encode()) for name, value in headers]))
        return None if refusal is None else refusal.status_code

    own, other = ("host", "localhost"), ("host", "evil.example")
    assert [status(own), status(own, own), status(own, other), status(other, own)] == [None, None, 421, 421]
    page, theirs = ("origin", "http://localhost"), ("origin", "http://evil.example")
    assert [status(own, page), status(own, page, theirs), status(own, theirs, page)] == [None, 403, 403]


def test_a_service_whose_translator_has_ended_says_so() -> None:
    with service(Gated()) as (served, queue):
        queue.close()
        for path in ("/health", "/health/ready", "/health/live"):
            assert (served.get(path).status, served.get(path).json) == (503, {"status": "stopped"})


def test_other_names_where_they_are_allowed() -> None:
    hosts = AllowedHosts(["translate.example.org"], any_address=True)
    with service(Gated(), hosts=hosts) as (served, _):
        for host in ("translate.example.org", "Translate.Example.org:443", "192.168.0.1:8000", "[2001:db8::1]:8000"):
            assert served.get("/health", Host=host).status == 200
        for host in ("evil.example", "example.org", "x.translate.example.org"):
            assert served.get("/health", Host=host).status == 421


def test_pages_of_other_sites_may_send_nothing() -> None:
    """A page of any site can send a form, or what is called plain text, whatever it may read of the answer."""
    translator = Gated()
    with service(translator, hosts=AllowedHosts(["translate.example.org"], any_address=True)) as (served, _):
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
            assert origin in answer.json["error"]
        assert translator.calls == []
        for origin in (
            f"http://{here}",
            "http://localhost:3000",
            "https://translate.example.org",
            "moz-extension://1-2",
        ):
            assert served.post({"text": "one"}, Origin=origin, Host=here).status == 200


def test_pages_of_other_sites_may_not_load_a_translation_as_a_picture() -> None:
    """For which browsers send no `Origin`."""
    translator = Gated()
    with service(translator) as (served, _):
        path = "/translate?q=one&source=en&target=de"

        def status(site: str, dest: str) -> int:
            return served.get(path, **{"Sec-Fetch-Site": site, "Sec-Fetch-Dest": dest}).status

        assert [status("cross-site", dest) for dest in ("image", "script", "iframe", "empty")] == [403] * 4
        assert translator.calls == []
        assert status("cross-site", "document") == status("same-origin", "empty") == status("none", "document") == 200


def test_browsers_guess_no_type() -> None:
    with service(Gated()) as (served, _):
        answers = [served.get(path) for path in ("/", "/languages", "/metrics", "/nowhere", "/detect")]
        answers += [served.post({"text": "one"}), served.post({}), served.get("/", Host="evil.example")]
        assert [answer.headers["x-content-type-options"] for answer in answers] == ["nosniff"] * len(answers)


def test_a_full_queue_says_when_to_come_again() -> None:
    translator = Gated()
    with service(translator, Limits(lines=2, waiting=2)) as (served, queue), ThreadPoolExecutor(2) as pool:
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


def test_who_has_gone_is_not_translated_for() -> None:
    translator = Gated()
    with service(translator) as (served, queue), ThreadPoolExecutor(1) as pool:
        translator.gate.clear()
        first = pool.submit(served.post, {"text": "one"})
        assert translator.inside.wait(30)
        gone = served.connect()
        gone.request("POST", "/translate", b'{"text": "two"}')
        until(lambda: queue.waiting == 1)
        gone.close()
        until(lambda: b'status="499"} 1' in served.get("/metrics").body)
        translator.gate.set()
        assert first.result(30).status == 200
        assert served.post({"text": "six"}).status == 200
    assert [lines for lines, _ in translator.calls] == [["one"], ["six"]]


def test_who_goes_while_sending_is_no_defect(caplog: pytest.LogCaptureFixture) -> None:
    with service(Gated()) as (served, _):
        gone = served.connect()
        gone.putrequest("POST", "/translate")
        gone.putheader("Content-Length", "100")
        gone.endheaders(b'{"text": "o')
        gone.close()
        until(lambda: b'status="499"} 1' in served.get("/metrics").body)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_defect_of_ours_is_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with service(Gated()) as (served, _):
        answer = served.post({"text": "fails"})
        assert (answer.status, answer.json) == (500, {"error": "the translator failed: see the log of the service"})
        assert served.post({"text": "one"}).status == 200
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
    asked = ["/translate 200", "/translate 400", "/detect 400"]
    assert lines == [f"127.0.0.1 POST {one} s" for one in asked if wanted]
    assert "stopped: 1 lines translated" in caplog.messages


def test_everyone_gets_their_own_answer_under_load() -> None:
    """The same text the same way, alone and among many."""
    translator = Gated()
    expected = {line: [one.text for one in translator.alone(line, 2)] for line in LINES}
    with service(translator) as (served, queue):

        def client(seed: int) -> None:
            drawn = random.Random(seed)
            for _ in range(5):
                lines = drawn.choices(LINES, k=drawn.randint(1, 4))
                answer = served.post({"text": lines, "n_best": 2})
                assert answer.status == 200
                found = [[one["text"] for one in best] for best in answer.json["translations"]]
                assert found == [expected[line] for line in lines]

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(client, range(20)))
        assert queue.totals.batches < 100
        assert served.post({"text": ["", " "]}).json["translations"][1][0]["text"] == ""
