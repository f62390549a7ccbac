"""A progress bar of lines that are translated: how many of all, lines per second and the time left."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from tqdm import tqdm

_UPDATE_SECONDS = 0.5


def line_bar(what: str, total: int | None, done: int = 0, *, hidden: bool = False) -> "tqdm[NoReturn]":
    """The bar, seen if standard error is a terminal, unless hidden. `done` lines were translated before."""
    is_seen = not hidden and sys.stderr is not None and sys.stderr.isatty()
    return tqdm(desc=what, total=total, initial=done, unit=" lines", leave=False, miniters=1, disable=not is_seen)


@contextmanager
def following(bar: "tqdm[NoReturn]", done: Callable[[], int]) -> Iterator[None]:
    """Keep a bar at `done()`, what other processes have translated."""
    ended = threading.Event()

    def follow() -> None:
        while not (bar.disable or ended.wait(_UPDATE_SECONDS)):
            bar.update(max(0, done() - bar.n))

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
