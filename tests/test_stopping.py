"""Signals as requests, and the handlers put back."""

import os
import signal

import pytest

from nmt.training.stopping import StopRequest


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_request(number: signal.Signals) -> None:
    with StopRequest() as stop:
        assert stop.signal is None
        os.kill(os.getpid(), number)
        assert stop.signal is number
    assert stop.signal is number


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_after_a_signal_interrupts_at_once(first: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt), StopRequest():
        os.kill(os.getpid(), first)
        os.kill(os.getpid(), signal.SIGINT)


def test_sigterm_twice_is_still_a_request() -> None:
    """Schedulers send it to every process of a group, and often more than once."""
    with StopRequest() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)
    assert stop.signal is signal.SIGTERM


def test_the_handlers_before_are_put_back_even_after_an_error() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ZeroDivisionError), StopRequest():
        assert signal.getsignal(signal.SIGTERM) != before[1]
        raise ZeroDivisionError
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
