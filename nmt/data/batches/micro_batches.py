"""The pairs of a step split into padded micro-batches of about the same size."""

from bisect import bisect_left
from itertools import pairwise

import numpy as np

from nmt.data.batches.token_store import Integers


def split_evenly(longest: Integers, budget: int, ranks: int) -> list[slice]:
    """Split the rows of a batch into as few parts of at most `budget` padded tokens as possible.

    The number of parts is a multiple of `ranks`. The largest part is as small as possible. If there are fewer rows than
    parts, the last parts are empty; otherwise none is. longest: the longer side of each row, ascending, none above
    `budget`.
    """
    parts = -(-len(_fill(longest, budget)) // ranks) * ranks
    least = int(longest[-1])

    def is_enough(tokens: int) -> bool:
        return len(_fill(longest, tokens)) <= parts

    most = least + bisect_left(range(least, budget), True, key=is_enough)
    bounds = [0, *_fill(longest, most)]
    while len(bounds) <= min(parts, len(longest)):
        sizes = np.diff(bounds)
        tokens = sizes * longest[np.array(bounds[1:]) - 1]
        largest = int(np.where(sizes > 1, tokens, 0).argmax())
        bounds.insert(largest + 1, bounds[largest] + int(sizes[largest]) // 2)
    while len(bounds) < parts + 1:
        bounds.append(len(longest))
    return [slice(start, end) for start, end in pairwise(bounds)]


def _fill(longest: Integers, budget: int) -> list[int]:
    """Fill each part with as many rows as fit into `budget` padded tokens. Returns the end of each part."""
    ends, start = [], 0
    while start < len(longest):
        rest = longest[start:]
        tokens = rest * np.arange(1, len(rest) + 1)
        start += int(np.searchsorted(tokens, budget, side="right"))
        ends.append(start)
    return ends
