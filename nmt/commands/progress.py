"""A progress bar of lines that are translated: how many of all, lines per second and the time left."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, Self, cast

if TYPE_CHECKING:
    from tqdm import tqdm

_UPDATE_SECONDS = 0.5


class _Unseen:
    """In place of a bar that nobody would see: loading tqdm takes longer than translating a line."""

    n, disable = 0, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None: ...
    def update(self, n: float = 1) -> None: ...
    def reset(self, total: float | None = None) -> None: ...


def line_bar(what: str, total: int | None, done: int = 0, *, hidden: bool = False) -> "tqdm[NoReturn]":
    """The bar, if standard error is a terminal, unless hidden. `done` lines were translated before."""
    if hidden or sys.stderr is None or not sys.stderr.isatty():
        return cast("tqdm[NoReturn]", _Unseen())
    from tqdm import tqdm

    return tqdm(desc=what, total=total, initial=done, unit=" lines", leave=False, miniters=1)


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
