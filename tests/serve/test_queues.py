"""A service with an endpoint behind it, in place of a model."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from helpers import endpoints
from helpers.chat_server import Asked, ChatServer, Said, backwards, good, serving
from helpers.services import Answer, Service, service_of, until

from nmt.errors import NmtError
from nmt.serve import queues
from nmt.serve.batching import BatchOptions, EndpointFailed, QueueFull
from nmt.serve.queues import EndpointQueue, open_queue
from nmt.serve.requests import RequestLimits
from nmt.teachers.endpoint import Endpoint

pytestmark = pytest.mark.usefixtures("time_limit")

KEY = "very-secret"
SETTINGS = f"key: {KEY}\nretries: 0\n"


@contextmanager
def endpoint_service(
    folder: Path, behave: Callable[[Asked], Said] = good, more: str = ""
) -> Iterator[tuple[Service, ChatServer]]:
    with serving(behave) as server:
        path = endpoints.write(folder, server.address, SETTINGS + more)
        queue, languages = open_queue(path, "auto", (), 1000)
        with service_of(queue, languages, RequestLimits()) as served:
            yield served, server


def refuses_one(asked: Asked) -> Said:
    return Said("I'm sorry, I can't translate this." if asked.line == "a refusal" else backwards(asked.line))


def test_texts_and_documents_are_translated_by_the_endpoint(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "nmt")
    with endpoint_service(tmp_path, refuses_one) as (served, server):
        answer = served.post({"text": ["one two", "a refusal", "three\nfour", ""]})
        assert answer.json == {
            "translations": [[{"text": "eno owt"}], [{"text": ""}], [{"text": "eerht ruof"}], [{"text": ""}]],
            "warning": "1 of 4 lines: the answer is not a translation",
        }
        libre = {"source": "en", "target": "de", "alternatives": 2}
        answer = served.post({"q": "one <b>two</b>\n\nsix", "format": "text"} | libre)
        assert answer.json == {"translatedText": "eno <b>owt</b>\n\nxis"}, "one translation, so no alternatives"
        assert (
            served.post({"q": "<p>one two <b>six</b></p>", "format": "html"} | libre)
            .json["translatedText"]
            .startswith("<p>")
        )
        assert served.get("/languages").json[0] == {"code": "en", "name": "English", "targets": ["de"]}
        limits = served.get("/limits").json
        assert (limits["n_best"], limits["alignment"], limits["scores"]) == (1, False, False)
        assert [served.get(path).status for path in ("/", "/health", "/health/live")] == [200] * 3
        assert b"nmt_lines_total 8.0" in served.get("/metrics").body
        asked = len(server.asked)
        for fields, words in (
            ({"n_best": 2}, "more than 1, the most of an endpoint with temperature 0"),
            ({"alignment": True}, "an endpoint has none"),
        ):
            answer = served.post({"text": "one"} | fields)
            assert answer.status == 400 and words in answer.json["error"]
        assert len(server.asked) == asked
        assert translated_file(served, "one two\n\na refusal\n").body == b"eno owt\n\na refusal\n"
    assert "used: " in caplog.text and KEY not in caplog.text


def translated_file(served: Service, text: str) -> Answer:
    """The translation of a file with this text."""
    fields = {"source": "en", "target": "de"}
    parts = [f'form-data; name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
    parts.append(f'form-data; name="file"; filename="a.txt"\r\n\r\n{text}')
    body = "".join(f"--x\r\nContent-Disposition: {part}\r\n" for part in parts) + "--x--\r\n"
    answer = served.post_bytes(body.encode(), "multipart/form-data; boundary=x", "/translate_file")
    return served.get(answer.json["translatedFileUrl"].partition(f":{served.port}")[2])


def test_samples_of_an_endpoint_with_a_temperature(tmp_path: Path) -> None:
    with endpoint_service(tmp_path, more="temperature: 0.7\n") as (served, server):
        assert served.get("/limits").json["n_best"] == 8
        [[*samples]] = served.post({"text": "one two", "n_best": 3}).json["translations"]
        assert samples == [{"text": "eno owt"}] * 3
        assert server.asked[0].body["n"] == 3


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (Said(status=401, content='{"error": {"message": "wrong key very-secret"}}'), "the key is not accepted"),
        (Said(status=400, content='{"error": "no luck with\\n very-secret"}'), "status 400: no luck with"),
    ],
)
def test_what_the_endpoint_refuses_is_told_in_a_line_without_the_key(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, said: Said, words: str
) -> None:
    with endpoint_service(tmp_path, lambda asked: said if asked.line == "bad" else good(asked)) as (served, _):
        for answer in (served.post({"text": "bad"}), served.post({"q": "bad", "source": "en", "target": "de"})):
            assert answer.status == 502 and words in answer.json["error"] and "\n" not in answer.json["error"]
            assert KEY not in answer.body.decode()
        assert served.post({"text": "one"}).json["translations"] == [[{"text": "eno"}]]
    assert words in caplog.text and KEY not in caplog.text and "Traceback" not in caplog.text


def test_an_endpoint_that_dies_fails_all_that_wait_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_PATIENCE", 0.5)
    with serving() as server:
        queue, _ = open_queue(endpoints.write(tmp_path, server.address), "auto", (), 1000)
        assert queue.submit(["one"]).result(30)[0][0].text == "eno"
    answers = [queue.submit(["two"]) for _ in range(20)]
    for answer in answers:
        with pytest.raises(EndpointFailed, match=r"does not answer: cannot be reached .*: try again later$"):
            answer.result(30)
    assert queue.totals.batches <= 3, "each request waited for itself"
    queue.close()


def test_settings_that_an_endpoint_has_not(tmp_path: Path) -> None:
    with pytest.raises(NmtError, match="an endpoint has only"):
        open_queue(endpoints.write(tmp_path, "http://127.0.0.1:1/v1"), "auto", ["decoding.beam_size=2"], 10)


# ------------------------------------------------------------------------ the queue


class Held:
    """A teacher that waits until it is let go, and notes what it is asked for."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.inside, self.gate, self.counted = threading.Event(), threading.Event(), 0

    def candidates(self, lines: list[str], n_best: int) -> list[list[str]]:
        self.calls.append(lines)
        self.inside.set()
        assert self.gate.wait(30)
        if "bad" in lines:
            raise NmtError("the endpoint has failed")
        return [[line.upper()] * n_best for line in lines]

    def log_counts(self) -> None:
        self.counted += 1


def held_queue(max_waiting: int = 10) -> tuple[Any, EndpointQueue]:
    teacher: Any = Held()
    endpoint = Endpoint("http://127.0.0.1:1/v1", "tiny", "en", "de", requests=2)
    queue = EndpointQueue(teacher, endpoint, max_waiting)
    queue.submit(["first"])
    assert teacher.inside.wait(30)
    return teacher, queue


def test_what_waits_is_sent_together_up_to_the_requests_at_once() -> None:
    teacher, queue = held_queue()
    lines = [f"{word} " * 10 for word in ("one", "two", "six", "ten", "ace")]  # of 11 subwords or so
    answers = [queue.submit([line]) for line in lines]
    assert queue.waiting == 5
    teacher.gate.set()
    assert [answer.result(30)[0][0].text for answer in answers] == [line.upper() for line in lines]
    assert teacher.calls == [["first"], lines[:4], lines[4:]], "two at once have room for 50 subwords"
    queue.close()


def test_the_most_that_may_wait() -> None:
    teacher, queue = held_queue(max_waiting=3)
    waiting = queue.submit(["one", "two", "six"])
    assert queue.full
    with pytest.raises(QueueFull):
        queue.submit(["ten"])
    waiting.cancel()
    teacher.gate.set()
    until(lambda: not queue.full)
    assert queue.submit(["ten"]).result(30)[0][0].text == "TEN"
    assert teacher.calls == [["first"], ["ten"]], "a request that was cancelled was paid for"
    queue.close()


def test_only_whose_line_fails_hears_of_it_and_closing_waits_for_no_endpoint() -> None:
    teacher, queue = held_queue()
    good, bad = queue.submit(["good"]), queue.submit(["bad"], BatchOptions())
    teacher.gate.set()
    assert good.result(30)[0][0].text == "GOOD"
    with pytest.raises(EndpointFailed, match=r"^the endpoint has failed$"):
        bad.result(30)
    teacher.gate.clear()
    queue.submit(["never"])
    assert queue.close_seconds is not None
    queue.close_seconds = 0.01
    queue.close()
    queue.close()
    assert queue.alive and teacher.counted == 1
    teacher.gate.set()
