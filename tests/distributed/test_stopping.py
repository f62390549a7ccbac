"""Signals as requests, and the handlers put back."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from nmt.distributed import stopping
from nmt.distributed.stopping import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGUSR1])
def test_the_first_signal_is_a_request(number: signal.Signals) -> None:
    with StopRequest() as stop:
        assert stop.requested == 0
        os.kill(os.getpid(), number)
        assert stop.requested == number
    assert stop.requested == number
    assert stop.reason == "" and not stop.interrupted  # nothing is done before all ranks agree
    stop.agreed = stop.requested
    assert stop.reason == number.name
    assert stop.interrupted == (number is signal.SIGINT)


def test_the_deadline_is_a_request_after_signals() -> None:
    assert StopRequest(time.monotonic() + 1000).requested == 0
    with StopRequest(time.monotonic()) as stop:
        stop.agreed = stop.requested
        assert stop.reason == "training.max_seconds reached" and not stop.interrupted
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.requested == signal.SIGINT


def test_ctrl_c_after_a_signal_interrupts_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), StopRequest():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture(autouse=True)
def late_messages(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Wait at the end of a test for the threads that write its messages: the next test counts only its own."""
    writing = list[threading.Thread]()

    def start(function: Callable[..., None], arguments: tuple[object, ...]) -> None:
        writing.append(threading.Thread(target=function, args=arguments))
        writing[-1].start()

    monkeypatch.setattr(stopping, "_thread", SimpleNamespace(start_new_thread=start))
    yield
    for thread in writing:
        thread.join()


def test_the_handlers_before_are_put_back_even_after_an_error() -> None:
    before = [signal.getsignal(number) for number in stopping.SIGNALS]
    with pytest.raises(ZeroDivisionError), StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before[1]
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in stopping.SIGNALS] == before


def test_what_was_to_be_ignored_stays_ignored() -> None:
    """As nohup asks for SIGHUP, and a shell for SIGINT in what it runs in the background."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop.requested == 0
    finally:
        signal.signal(signal.SIGHUP, before)
