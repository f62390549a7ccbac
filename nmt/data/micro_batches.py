"""The pairs of a step split into micro-batches of about the same size."""

from bisect import bisect_left
from itertools import pairwise

import numpy as np

from nmt.data.token_store import Integers


def split_evenly(longest: Integers, budget: int, ranks: int) -> list[slice]:
    """Split the rows of a step into the fewest parts of at most `budget` padded tokens; `ranks` divides their number.

    longest: the longer side of each row, ascending and none above `budget`. The largest part is as small as possible.
    Parts are empty only if there are fewer rows than parts, and then the last ones are.
    """
    parts = -(-len(_fill(longest, budget)) // ranks) * ranks
    least = int(longest[-1])
    most = least + bisect_left(range(least, budget), True, key=lambda most: len(_fill(longest, most)) <= parts)
    bounds = [0, *_fill(longest, most)]
    while len(bounds) <= min(parts, len(longest)):
        sizes = np.diff(bounds)
        largest = int(np.where(sizes > 1, sizes * longest[np.array(bounds[1:]) - 1], 0).argmax())
        bounds.insert(largest + 1, bounds[largest] + int(sizes[largest]) // 2)
    bounds += [len(longest)] * (parts + 1 - len(bounds))
    return [slice(start, end) for start, end in pairwise(bounds)]


def _fill(longest: Integers, budget: int) -> list[int]:
    """The ends of parts that each take as many rows as fit into `budget` padded tokens."""
    ends, start = [], 0
    while start < len(longest):
        rest = longest[start:]
        start += int(np.searchsorted(rest * np.arange(1, len(rest) + 1), budget, side="right"))
        ends.append(start)
    return ends
