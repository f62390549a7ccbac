"""Items that a thread makes while the ones before them are used."""

from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def read_ahead(items: Iterable[T], ahead: int) -> Generator[T, None, None]:
    """The same items in the same order; a thread makes up to `ahead` of them in advance.

    Its exceptions are raised here, at the item that caused them. It ends after the last item, or when this generator is
    closed: use `contextlib.closing` where iteration may stop early.
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
