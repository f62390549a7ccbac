"""What a person sees of training: a bar on a terminal, a line with the same in a pipe."""

import fcntl
import io
import logging
import os
import pty
import struct
import sys
import termios
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


def test_epochs_may_be_longer_than_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    with ProgressBar(0, 1, hidden=False) as bar:
        for _ in range(3):
            bar.update()
            assert bar._bar.total >= bar._bar.n
        bar.show(1, 1, 1)
    assert "step 3 of 3, 00:00 left, loss 1.000" in terminal.getvalue()


def test_in_a_pipe_and_on_other_ranks_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    on_terminal(monkeypatch)
    assert not ProgressBar(0, 10, hidden=True).shown
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not ProgressBar(0, 10, hidden=False).shown


@pytest.mark.parametrize("height", [0, 24])
def test_a_terminal_without_a_height_has_lines_as_tqdm_shows_no_bar_there(
    height: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As consoles of containers and of some schedulers report it."""
    caplog.set_level("DEBUG", "nmt")
    reader, writer = pty.openpty()
    fcntl.ioctl(writer, termios.TIOCSWINSZ, struct.pack("4H", height, 80 if height else 0, 0, 0))
    with os.fdopen(writer, "w") as terminal, os.fdopen(reader, "rb"):
        monkeypatch.setattr(sys, "stderr", terminal)
        with ProgressBar(0, 10, hidden=False) as bar:
            assert bar.shown == (height > 0)
            bar.log(1, 1, 3.14159, 7e-4, 12345.6)
    assert [record.levelno for record in caplog.records] == [logging.DEBUG if height else logging.INFO]


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
