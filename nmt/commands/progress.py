"""A progress bar of lines that are translated: how many of all, lines per second and the time left."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol, Self

_UPDATE_SECONDS = 0.5


class Bar(Protocol):
    """What is used of tqdm's bars."""

    n: float  # lines done
    disable: bool | None

    def __enter__(self) -> Self: ...
    def __exit__(self, *exception: Any) -> object: ...
    def update(self, n: float | None = 1) -> object: ...
    def reset(self, total: float | None = None) -> object: ...


class _Nothing:
    """In place of a bar that nobody would see."""

    n = 0.0
    disable: bool | None = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...
    def update(self, n: float | None = 1) -> None: ...
    def reset(self, total: float | None = None) -> None: ...


def line_bar(what: str, total: int | None, done: int = 0, *, hidden: bool = False) -> Bar:
    """The bar, if standard error is a terminal, unless hidden. `done` lines were translated before."""
    if hidden or sys.stderr is None or not sys.stderr.isatty():
        return _Nothing()
    from tqdm import tqdm  # takes 30 ms

    bar: tqdm[NoReturn] = tqdm(desc=what, total=total, initial=done, unit=" lines", leave=False, miniters=1)
    return bar


@contextmanager
def following(bar: Bar, done: Callable[[], int]) -> Iterator[None]:
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
