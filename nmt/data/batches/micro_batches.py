"""The pairs of a step split into micro-batches of about the same size."""

from bisect import bisect_left
from itertools import pairwise

import numpy as np

from nmt.data.batches.token_store import Integers


def split_evenly(longest: Integers, budget: int, ranks: int, *, packed: bool = False) -> list[slice]:
    """Split the rows of a batch into as few parts of at most `budget` tokens as possible.

    The number of parts is a multiple of `ranks`. The largest part is as small as possible. If there are fewer rows than
    parts, the last parts are empty; otherwise none is. longest: the longer side of each row, ascending, none above
    `budget`. packed: do not count padding.
    """
    parts = -(-len(_fill(longest, budget, packed)) // ranks) * ranks
    least = int(longest[-1])

    def is_enough(tokens: int) -> bool:
        return len(_fill(longest, tokens, packed)) <= parts

    most = least + bisect_left(range(least, budget), True, key=is_enough)
    bounds = [0, *_fill(longest, most, packed)]
    while len(bounds) <= min(parts, len(longest)):
        sizes = np.diff(bounds)
        tokens = np.add.reduceat(longest, bounds[:-1]) if packed else sizes * longest[np.array(bounds[1:]) - 1]
        largest = int(np.where(sizes > 1, tokens, 0).argmax())
        bounds.insert(largest + 1, bounds[largest] + int(sizes[largest]) // 2)
    while len(bounds) < parts + 1:
        bounds.append(len(longest))
    return [slice(start, end) for start, end in pairwise(bounds)]


def _fill(longest: Integers, budget: int, packed: bool) -> list[int]:
    """Fill each part with as many rows as fit into `budget` tokens. Returns the end of each part."""
    ends, start = [], 0
    while start < len(longest):
        rest = longest[start:]
        tokens = rest.cumsum() if packed else rest * np.arange(1, len(rest) + 1)
        start += int(np.searchsorted(tokens, budget, side="right"))
        ends.append(start)
    return ends
