"""The processes that read and write documents: what ends them, and that nobody waits for one that hangs."""

import asyncio
import gzip
import json
import os
import select
import signal
import socket
import subprocess
import sys
from asyncio.subprocess import Process
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.client import HTTPConnection
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from helpers.event_loops import NoWaiting
from helpers.services import Gated, Service, service, until

from nmt.documents.process import encoded
from nmt.serve import document_process, documents, receiving
from nmt.serve.document_process import DocumentPlaces, ServedDocument
from nmt.serve.fields import RequestError
from nmt.serve.requests import Limits

pytestmark = pytest.mark.usefixtures("time_limit")

KIND = "multipart/form-data; boundary=B"
PARTS = [(f'name="{name}"', value) for name, value in (("source", "en"), ("target", "de"))]
FORM = b"".join(
    f"--B\r\nContent-Disposition: form-data; {name}\r\n\r\n{value}\r\n".encode()
    for name, value in [*PARTS, ('name="file"; filename="a.txt"', "one")]
)
FORM += b"--B--\r\n"
# It writes its number into a folder, reads all, and answers nothing.
HANGS = "import os, sys; open(os.path.join({!r}, str(os.getpid())), 'w'); sys.stdin.buffer.read()"

# The process of documents, which says a text in all ways; the document `hangs` takes so long that its 60 s end at once.
TALKS = """
import logging, signal, time, types, warnings
from nmt.documents import process

def opened(content, path, *_, **__):
    for name in ("nmt", "nmt.texts", "another"):
        logging.getLogger(name).critical("SECRET")
    warnings.warn("SECRET")
    if path.stem == "fails":
        raise ValueError("planted")
    if path.stem == "hangs":
        signal.setitimer(signal.ITIMER_REAL, signal.getitimer(signal.ITIMER_REAL)[0] / 1e6)
        time.sleep(20)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 50
    return types.SimpleNamespace(marked_lines=[], keep=[])

process.OpenedDocument.of = opened
for_next = process.encoded
process.encoded = lambda values: for_next([*values, signal.getitimer(signal.ITIMER_REAL)[0]])
process.main()
"""


def hangs(folder: Path) -> tuple[str, ...]:
    folder.mkdir()
    return sys.executable, "-S", "-c", HANGS.format(str(folder))


def says(answer: str) -> tuple[str, ...]:
    """A process that answers the first message, which is one value, like this, and ends."""
    return sys.executable, "-S", "-c", f"input(); input(); print({answer!r}); print()"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """The processes that the service starts."""
    processes, start = list[Process](), asyncio.create_subprocess_exec

    async def noted(*command: str, **of: Any) -> Process:
        processes.append(await start(*command, **of))
        return processes[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", noted)
    return processes


def is_gone(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    return False


def begin(served: Service) -> HTTPConnection:
    """Send a document and wait for no answer."""
    client = served.connect()
    client.request("POST", "/translate_file", FORM, {"Content-Type": KIND})
    return client


def status(served: Service) -> int:
    return served.post_bytes(FORM, KIND, "/translate_file").status


def test_nobody_waits_for_documents_that_take_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And they end with their clients."""
    monkeypatch.setattr(document_process, "COMMAND", hangs(tmp_path / "hang"))
    monkeypatch.setattr(document_process, "OTHERS_TURN", 0.05)
    with service(Gated()) as (served, _):
        clients = [begin(served) for _ in range(4)]
        until(lambda: len([*(tmp_path / "hang").iterdir()]) == 4)
        refused = served.post_bytes(FORM, KIND, "/translate_file")  # there is no place for a fifth one that is slow
        assert (refused.status, refused.headers["retry-after"]) == (429, "60")
        assert refused.json == {"error": "too many files that take long to read are being read: try again in 60 s"}
        monkeypatch.undo()
        monkeypatch.setattr(document_process, "OTHERS_TURN", 60)  # for a slow machine
        assert status(served) == 200
        for client in clients:
            client.close()
        until(lambda: b'path="/translate_file",status="499"} 4' in served.get("/metrics").body)
        until(lambda: all(is_gone(process.name) for process in (tmp_path / "hang").iterdir()))
        assert status(served) == 200


class InNoTime(DocumentPlaces):
    """Without processes."""

    async def _process(self) -> None:  # type: ignore[override]
        pass


def test_a_slow_document_leaves_its_place_and_loses_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a service of one place and one slow document: when documents come, how long it takes to read, translate and
    write them, and when they are ready."""
    documents = {"a": (0, 10, 0, 0), "b": (2, 3, 0, 0), "c": (4, 1, 0, 4), "d": (5, 5, 10, 4), "e": (6, 1, 0, 0)}
    ready = {
        "b": (4, "too many files that take long to read are being read: try again in 60 s"),
        "c": (9, "written"),  # though `a` is slow too
        "a": (11, "written"),  # in the place that `d` left, which is slow as `a` no longer is
        "e": (12, "written"),  # after `a`: no more than two are begun
        "d": (28, "written"),
    }
    monkeypatch.setattr(document_process, "_PLACES", 1)
    monkeypatch.setattr(document_process, "_MOST_SLOW", 1)

    async def answer(_: ServedDocument, message: list[dict[str, Any]]) -> list[Any]:
        name = message[0].get("read") or message[0]["write"]
        await asyncio.sleep(documents[name][1 if "read" in message[0] else 3])
        return [{"keep": [], "content": "", "notes": []}]

    monkeypatch.setattr(ServedDocument, "_answer", answer)
    loop, found = NoWaiting(), dict[str, tuple[float, str]]()

    async def translate(places: DocumentPlaces, name: str, begins: float, translating: float) -> None:
        said = "written"
        await asyncio.sleep(begins)
        try:
            async with places.document() as document:
                await document.read(b"", name, ("en", "de"), 0)
                await asyncio.sleep(translating)
                await document.written(name)
        except RequestError as error:
            said = str(error)
        found[name] = loop.time(), said

    async def translate_all() -> None:
        places = InNoTime(60)
        await asyncio.gather(*(translate(places, name, of[0], of[2]) for name, of in documents.items()))

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(translate_all())
    assert list(found.items()) == list(ready.items())


def test_a_document_that_takes_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[Process]
) -> None:
    monkeypatch.setattr(document_process, "COMMAND", hangs(tmp_path / "hang"))
    with service(Gated(), Limits(document_seconds=0.2)) as (served, _):
        answer = served.post_bytes(FORM, KIND, "/translate_file")
        assert [process.returncode for process in started] == [-signal.SIGKILL]
        assert answer.status == 413
        assert answer.json == {"error": "reading or writing the file takes more than 0.2 seconds: send a smaller one"}


def test_the_service_ends_whatever_a_document_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_process, "COMMAND", hangs(tmp_path / "hang"))
    with ThreadPoolExecutor(1) as pool:
        with service(Gated(), shutdown=1) as (served, _):
            answer = pool.submit(served.post_bytes, FORM, KIND, "/translate_file")
            until(lambda: [*(tmp_path / "hang").iterdir()])
        assert (answer.result(20).status, answer.result().json) == (
            503,
            {"error": "the service is stopped before the answer is ready"},
        )
    assert all(is_gone(process.name) for process in (tmp_path / "hang").iterdir())


def test_a_process_that_fails_is_a_defect_that_the_log_tells(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with service(Gated()) as (served, _):
        for command, reason in (
            ((sys.executable, "-S", "-c", "raise SystemExit(3)"), "the process of a document ended with status 3"),
            (says('{"failed": "Traceback: planted"}'), "Traceback: planted"),
        ):
            monkeypatch.setattr(document_process, "COMMAND", command)
            assert status(served) == 500
            assert reason in caplog.text and "POST /translate_file failed" in caplog.text


def test_a_process_is_used_again_while_it_is_small_and_ends_with_the_service(
    monkeypatch: pytest.MonkeyPatch, started: list[Process]
) -> None:
    """It takes long to start one."""
    killed = -signal.SIGKILL
    with service(Gated()) as (served, _):
        for large, ended in ((10_000, [None]), (10_000, [None]), (1, [killed]), (10_000, [killed, None])):
            monkeypatch.setattr(document_process, "_LARGE", large)
            assert status(served) == 200
            assert [process.returncode for process in started] == ended
    assert [process.returncode for process in started] == [killed, killed]


def test_a_process_says_nothing_and_ends_only_with_its_server() -> None:
    """Which may be killed: then it ends after a limit of its own, while it works."""
    process = subprocess.Popen(
        [sys.executable, "-c", TALKS, "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    stdin, stdout = process.stdin, process.stdout

    def send(name: str) -> None:
        of = {"content": "", "languages": ["", ""], "most_unpacked": 0}
        stdin.write(encoded([{"read": f"{name}.txt", **of}]))
        stdin.flush()

    def answer(name: str) -> list[Any]:
        send(name)
        return [json.loads(line) for line in takewhile(bytes.strip, stdout)]

    try:
        assert answer("first") == [{"keep": []}, 0]
        for stop in (signal.SIGINT, signal.SIGTERM):
            process.send_signal(stop)
        failed, seconds = answer("fails")
        assert failed["failed"].startswith("Traceback ") and "ValueError: planted" in failed["failed"]
        assert seconds == 0 and answer("second") == [{"keep": []}, 0]  # while it waits, it has no limit
        send("hangs")
        assert process.communicate() == (b"", b"") and process.returncode == -signal.SIGALRM
    finally:
        process.kill()
        process.communicate()


def test_a_process_starts_quickly() -> None:
    """Without PyTorch, which takes seconds."""
    script = "import sys, nmt.documents.process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_bodies_take_no_place_and_not_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slowly they come."""
    monkeypatch.setattr(receiving, "_LEAST_SECONDS", 60)
    monkeypatch.setattr(documents, "_MOST_RECEIVED", 1)
    head = f"POST /translate_file HTTP/1.1\r\nHost: localhost\r\nContent-Type: {KIND}\r\nContent-Length:"
    with service(Gated(), Limits(file=100)) as (served, _):
        slow = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(5)]
        for client in slow:
            client.sendall(f"{head} {len(FORM)}\r\n\r\n".encode() + FORM[:-1])
        assert status(served) == 200
        assert b'status="408"' not in served.get("/metrics").body
        for client in slow:
            client.sendall(FORM[-1:])
            assert client.recv(100).startswith(b"HTTP/1.1 200 OK")
            client.close()
        large = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(2)]
        for client in large:
            client.sendall(f"{head} 64000\r\n\r\n".encode() + b" " * 40_000)
        [refused, *_], _, _ = select.select(large, [], [])
        assert refused.recv(100).startswith(b"HTTP/1.1 429 Too Many Requests")
        for client in large:
            client.close()
        until(lambda: b'status="499"} 1' in served.get("/metrics").body)
        assert served.post_bytes(b" " * 40_000, KIND, "/translate_file").status == 400  # there is memory for it again


def test_documents_count_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A compressed body is small, but what is kept of it while it waits is not."""
    monkeypatch.setattr(documents, "_MOST_RECEIVED", 1)
    page = FORM.replace(b"a.txt", b"a.html").replace(b"one", b"<p>one</p><!--%s-->" % (b"a" * 90_000))
    send = partial(Service.post_bytes, body=gzip.compress(page), content_type=KIND, path="/translate_file")
    translator = Gated()
    translator.gate.clear()
    with service(translator, Limits(file=100_000)) as (served, _), ThreadPoolExecutor(1) as pool:
        first = pool.submit(send, served, **{"Content-Encoding": "gzip"})
        assert translator.inside.wait(30)
        assert send(served, **{"Content-Encoding": "gzip"}).status == 429
        translator.gate.set()
        assert first.result(30).status == 200
        assert send(served, **{"Content-Encoding": "gzip"}).status == 200
