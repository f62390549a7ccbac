"""Progress bars for translated lines: the share of all lines, lines per second and the remaining time."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

_UPDATE_SECONDS = 0.5


def line_bar(description: str, total: int | None, done: int = 0, *, hidden: bool = False) -> "tqdm[NoReturn]":
    """A progress bar, which is shown if standard error is a terminal and it is not hidden. done: lines that were
    translated before."""
    hidden = hidden or sys.stderr is None or not sys.stderr.isatty()
    return tqdm(desc=description, total=total, initial=done, unit=" lines", leave=False, miniters=1, disable=hidden)


def stream_bar(output: Path | None, is_typed: bool) -> "tqdm[NoReturn]":
    """A progress bar for a stream, which is hidden if lines are typed or translations are shown on the terminal."""
    shown = output is None and sys.stdout is not None and sys.stdout.isatty()
    return line_bar("translating", None, hidden=is_typed or shown)


@contextmanager
def following(bar: "tqdm[NoReturn]", done: Callable[[], int]) -> Iterator[None]:
    """Update a bar with `done()`, the number of lines that other processes have translated."""
    ended = threading.Event()

    def update() -> None:
        while not (bar.disable or ended.wait(_UPDATE_SECONDS)):
            bar.update(max(0, done() - bar.n))

    thread = threading.Thread(target=update, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
