"""Translators with small random models, and services of them on a free port of this machine."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from helpers.model_files import make_checkpoint, shared_vocabulary
from helpers.runs import WORDS, config_text

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config import schema
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.decoding.confidence import Calibration
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translation, Translator
from nmt.serve import app, server
from nmt.serve.batching import BatchingQueue, RequestQueue
from nmt.serve.glossaries import GlossaryFile
from nmt.serve.hosts import allowed_hosts
from nmt.serve.requests import RequestLimits

SERVING = "serving"  # the thread of the service's event loop
CALIBRATION = Calibration("dev.en", 200, 0.5, (-1.0, 0.5, -0.5, 0.2, 1.0), low=30.0)
LINES = [" ".join(list(WORDS)[i : i + 1 + i % 4]) for i in range(len(WORDS))]


def small_checkpoint() -> Checkpoint:
    settings = schema.parse(config_text(Path("corpus"), Path("run")), "test config")
    return make_checkpoint(replace(settings, decoding=schema.DecodingConfig(beam_size=3, max_extra_tokens=6)))


def save_small_model(path: Path) -> Path:
    model_file.save(path, small_checkpoint())
    return path


class Gated(Translator):
    """A translator that notes what it is called with and, while its gate is closed, waits inside."""

    def __init__(self, **decoding: Any):
        of = small_checkpoint()
        engine = PyTorchEngine([of.build()], torch.device("cpu"))
        super().__init__(engine, shared_vocabulary(), replace(of.config.decoding, **decoding))
        self.calls: list[tuple[list[str], int]] = []
        self.inside = threading.Event()
        self.gate = threading.Event()
        self.gate.set()

    def hypotheses(self, lines: Any, n_best: int = 1, **asked: Any) -> list[list[Translation]]:
        self.calls.append((list(lines), n_best))
        self.inside.set()
        assert self.gate.wait(30)
        if "fails" in lines:
            raise ValueError("a line that fails")
        return super().hypotheses(lines, n_best, **asked)

    def alone(self, line: str, n_best: int = 1) -> list[Translation]:
        return super().hypotheses([line], n_best)[0]


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Service:
    """A service under test; `connect` for what `ask` does not do."""

    port: int

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path: str, **headers: str) -> Answer:
        return self.ask("GET", path, b"", headers)

    def post(self, fields: object, path: str = "/translate", **headers: str) -> Answer:
        return self.post_bytes(json.dumps(fields).encode(), "application/json", path, **headers)

    def post_bytes(self, body: bytes, content_type: str, path: str = "/translate", **headers: str) -> Answer:
        return self.ask("POST", path, body, {"Content-Type": content_type, **headers})

    def ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> Answer:
        connection = self.connect()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()


@contextmanager
def service(
    translator: Translator,
    limits: RequestLimits | None = None,
    log_requests: bool = False,
    hosts: list[str] | None = None,
    shutdown: int = 5,
    glossary: GlossaryFile | None = None,
) -> Iterator[tuple[Service, BatchingQueue]]:
    """A service of a translator, from `en` into `de` unless it knows other languages, in a thread of this process, and
    its queue.

    At the end it has a few seconds (shutdown) to answer what is under way: one that hangs fails the test.
    """
    limits = limits or RequestLimits()
    queue = BatchingQueue(translator, limits.waiting, glossary)
    languages = translator.languages.pairs or LanguagePairs((LanguagePair("en", "de"),))
    with service_of(queue, languages, limits, log_requests, hosts, shutdown) as served:
        yield served, queue


@contextmanager
def service_of(
    queue: RequestQueue,
    languages: LanguagePairs,
    limits: RequestLimits,
    log_requests: bool = False,
    hosts: list[str] | None = None,
    shutdown: int = 5,
) -> Iterator[Service]:
    """As `service`, of a queue."""
    application = app.build(queue, languages, limits, "", log_requests, hosts or allowed_hosts("127.0.0.1", ()))
    listening = socket.create_server(("127.0.0.1", 0))
    running = server.Server(server.settings(application, limits, shutdown=shutdown))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, name=SERVING, daemon=True)
    thread.start()
    try:
        yield Service(listening.getsockname()[1])
    finally:
        running.should_exit = True
        thread.join(20)
        listening.close()
        assert not thread.is_alive(), "the service hangs"
        queue.close()


def until(holds: Any) -> None:
    """Wait until it holds; AssertionError where it does not come to that."""
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)
