"""A thread that searches while other threads read and write text. The process has one, from the first search on."""

import atexit
import threading
import weakref
from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")

_ending = threading.Event()  # set when the process ends


class _NotNeededError(Exception):
    """Nobody waits for the result of the search."""


def begin(search: Callable[[Callable[[int], None]], T], report: Callable[[int], object]) -> Callable[[], T]:
    """Begin `search(count)` after all searches that were begun before. Returns a function that waits for the result, or
    raises what the search raised; it may be called once.

    The search calls `count` with the number of sentences after each batch. The returned function calls `report` with
    these numbers, in the thread that waits. If nothing refers to the returned function any more, or if the process
    ends, the search stops after its batch.
    """
    counts, results, errors = SimpleQueue[int | None](), list[T](), list[BaseException]()
    dropped = threading.Event()

    def is_needed() -> bool:
        return not (dropped.is_set() or _ending.is_set())

    def count(sentences: int) -> None:
        if not is_needed():
            raise _NotNeededError
        counts.put(sentences)

    def work() -> None:
        try:
            if is_needed():
                results.append(search(count))
        except BaseException as error:
            if is_needed():
                errors.append(error)  # to be raised in the thread that waits
        if is_needed():
            counts.put(None)

    def finish() -> T:
        while (sentences := counts.get()) is not None:
            report(sentences)
        if errors:
            raise errors.pop()  # nothing here keeps the error, whose traceback holds the tensors of the search
        return results.pop()

    weakref.finalize(finish, dropped.set)
    _searches().put(work)
    return finish


@cache
def _searches() -> SimpleQueue[Callable[[], None] | None]:
    """The searches for the thread, which the first call starts."""
    searches = SimpleQueue[Callable[[], None] | None]()

    def work_in_order() -> None:
        while (work := searches.get()) is not None:
            work()
            del work  # it holds a model

    def end() -> None:
        _ending.set()
        searches.put(None)
        thread.join()

    # A daemon, because Python waits for other threads before it calls `end`.
    thread = threading.Thread(target=work_in_order, name="search", daemon=True)
    thread.start()
    atexit.register(end)
    return searches
