"""What a person sees of training: a bar on a terminal, a line with the same in a pipe."""

import io
import logging
import sys
import time

import pytest

from nmt.training.run_log import ProgressBar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Make standard error a terminal."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    return terminal


def test_a_terminal_has_a_bar_and_the_lines_are_for_the_log_file(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    terminal = on_terminal(monkeypatch)
    caplog.set_level("DEBUG", "nmt")
    with ProgressBar(1100, 1200, hidden=False) as bar:
        bar.show(3.14159, 7e-4, 12345.6)
        assert bar.shown
        bar.log(1100, 3, 3.14159, 7e-4, 12345.6)
    line = terminal.getvalue().replace("\r", "\n").rstrip("\n").split("\n")[-1]
    assert line.startswith("step 1,100 of 1,200, ? left, loss 3.142, lr 7.0e-04, 12,346 tokens/s |")
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]


def test_a_line_tells_how_far_training_is_and_how_long_it_takes(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time left is that of this session's steps: 50 of them took 100 seconds, and 1,000 are left."""
    caplog.set_level("INFO", "nmt")
    clock = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    with ProgressBar(1950, 3000, hidden=True) as bar:
        clock += 100
        bar.log(2000, 3, 3.14159, 7e-4, 12345.6)
    (line,) = caplog.messages
    assert line == "step 2,000 of 3,000  epoch 3  loss 3.142  lr 7.00e-04  12,346 target tokens/s  33:20 left"
