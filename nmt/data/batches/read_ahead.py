"""Make items in a thread while the items before them are used."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterable[T], ahead: int) -> Generator[T, None, None]:
    """Yield the same items in the same order. A thread makes up to `ahead` of them in advance.

    An exception in the thread is raised here, at the item that caused it. The thread ends after the last item, or when
    this generator is closed. Use `contextlib.closing` where iteration may stop early.
    """
    source = iter(items)
    reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead")
    try:
        # The one worker takes requests in order. Each returns a list of one item, or an empty list at the end.
        waiting = deque(reader.submit(list, islice(source, 1)) for _ in range(ahead))
        while item := waiting.popleft().result():
            waiting.append(reader.submit(list, islice(source, 1)))
            yield item[0]
    finally:
        reader.shutdown(cancel_futures=True)
