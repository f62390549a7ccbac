"""The pairs of a step split into micro-batches of about the same size."""

from bisect import bisect_left
from itertools import pairwise

import numpy as np

from nmt.data.batches.token_store import Integers


def split_evenly(longest: Integers, budget: int, ranks: int, *, packed: bool = False) -> list[slice]:
    """Split the rows of a batch into the fewest parts of at most `budget` tokens; `ranks` divides their number.

    longest: the longer side of each row, ascending and none above `budget`. packed: padding is not counted. The largest
    part is as small as possible. Parts are empty only if there are fewer rows than parts, and then the last ones are.
    """
    parts = -(-len(_fill(longest, budget, packed)) // ranks) * ranks
    least = int(longest[-1])
    most = least + bisect_left(range(least, budget), True, key=lambda most: len(_fill(longest, most, packed)) <= parts)
    bounds = [0, *_fill(longest, most, packed)]
    while len(bounds) <= min(parts, len(longest)):
        sizes = np.diff(bounds)
        tokens = np.add.reduceat(longest, bounds[:-1]) if packed else sizes * longest[np.array(bounds[1:]) - 1]
        largest = int(np.where(sizes > 1, tokens, 0).argmax())
        bounds.insert(largest + 1, bounds[largest] + int(sizes[largest]) // 2)
    bounds += [len(longest)] * (parts + 1 - len(bounds))
    return [slice(start, end) for start, end in pairwise(bounds)]


def _fill(longest: Integers, budget: int, packed: bool) -> list[int]:
    """The ends of parts that each take as many rows as fit into `budget` tokens."""
    ends, start = [], 0
    while start < len(longest):
        rest = longest[start:]
        tokens = rest.cumsum() if packed else rest * np.arange(1, len(rest) + 1)
        start += int(np.searchsorted(tokens, budget, side="right"))
        ends.append(start)
    return ends
