"""On a GPU a thread searches while the calling thread works on text."""

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from helpers.translators import CPU, DECODING, LINES, MODEL, VOCABULARY, new_model, new_translator

from nmt.decoding import search_thread
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translator
from nmt.errors import NmtError

LIMIT = 60  # seconds after which a test that waits for an event fails


class LikeOnCuda(PyTorchEngine):
    """An engine on the CPU that begins its searches as on CUDA. `before[n]` is called at the start of its search n."""

    def __init__(self, patch: pytest.MonkeyPatch, *before: Callable[[], object]):
        super().__init__([MODEL], CPU)
        self.on_cuda, self.before, self.threads = True, list(before), list[str]()
        patch.setattr(torch.cuda, "device", lambda device: nullcontext())

    def search(self, *given: Any) -> Any:
        self.threads.append(threading.current_thread().name)
        if self.before:
            self.before.pop(0)()
        return super().search(*given)


def translator_of(engine: PyTorchEngine) -> Translator:
    return Translator(engine, VOCABULARY, dataclasses.replace(DECODING, batch_tokens=40))


def test_text_is_read_and_written_while_another_chunk_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    searching, encoded, written = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        searching.set()
        assert encoded.wait(LIMIT)

    def second() -> None:
        assert written.wait(LIMIT)

    engine, begun, reports = LikeOnCuda(monkeypatch, first, second), list[int](), list[tuple[int, str]]()

    def begin_search(*given: Any) -> Any:
        begun.append(len(given[0]))
        if len(begun) == 2:
            encoded.set()
        return PyTorchEngine.begin_search(engine, *given)

    def lines() -> Iterator[str]:
        yield from LINES[:3]
        assert searching.wait(LIMIT)
        yield from LINES[3:6]

    monkeypatch.setattr(engine, "begin_search", begin_search)
    translator, texts = translator_of(engine), list[str]()
    translator.on_lines = lambda count: reports.append((count, threading.current_thread().name))
    for text in translator.stream(lines(), 3, read_ahead=True):
        texts.append(text)
        written.set()
    assert texts == new_translator().translate(LINES[:6])
    assert engine.threads == ["search", "search"]
    assert sum(count for count, _ in reports) == 6 and {name for _, name in reports} == {"MainThread"}
    assert len([count for count, _ in reports if count]) > 2, "not only at the end of a chunk"


def test_errors_reach_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("CUDA out of memory")

    translator = translator_of(LikeOnCuda(monkeypatch, fail))
    with pytest.raises(NmtError, match=r"decoding\.batch_tokens: 40 and decoding\.beam_size: 3: lower one"):
        translator.translate(LINES)
    assert translator.translate(LINES) == new_translator().translate(LINES)


def test_a_model_in_training_is_searched_by_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its mode is changed during each search."""
    engine = LikeOnCuda(monkeypatch)
    engine.models = [new_model().train()]
    translator_of(engine).translate(LINES)
    assert engine.threads == ["MainThread"]


def test_a_search_without_a_waiting_caller_stops_after_its_batch() -> None:
    started, dropped, done = threading.Event(), threading.Event(), list[str]()

    def search(count: Callable[[int], None]) -> None:
        started.set()
        assert dropped.wait(LIMIT)
        done.append("one batch")
        count(1)
        done.append("another")

    finish = search_thread.begin(search, print)
    never_begun = search_thread.begin(lambda count: done.append("never"), print)
    assert started.wait(LIMIT)
    del finish, never_begun
    dropped.set()
    assert search_thread.begin(lambda count: "next", print)() == "next"
    assert done == ["one batch"]


def test_the_process_ends_after_the_batch() -> None:
    script = """if True:
        import itertools, threading
        from nmt.decoding import search_thread
        started = threading.Event()
        def search(count):
            for i in itertools.count(1):
                count(i)
                started.set()
        finish = search_thread.begin(search, print)
        started.wait()
        raise KeyboardInterrupt
    """
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=LIMIT)
    assert ended.stderr.strip().endswith("KeyboardInterrupt") and not ended.stdout
