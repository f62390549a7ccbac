"""Which pairs form a packed step, and how a step is split into packed micro-batches, from their lengths alone.

Nothing is computed for padding, so sentences of any lengths may share a step. The size of a step is the number of
tokens of its longer side: the larger one of the sums of its source lengths and its target lengths.
"""

from bisect import bisect_left
from heapq import heapreplace

import numpy as np

from nmt.data.batches.token_store import Integers

_TILE = 128


def cut_into_steps(source: Integers, target: Integers, budget: int) -> Integers:
    """Return where to cut pairs, in their order, into the fewest steps of at most `budget` tokens: [steps - 1].

    The largest step is as small as possible, so that the last step is not much smaller than the others. source, target:
    lengths, int64 [pairs], none above `budget`.
    """
    if not len(source):
        return np.zeros(0, np.int64)
    sums = [np.append(0, side.cumsum()) for side in (source, target)]

    def ends(most: int) -> list[int]:
        """The end of each step if steps have at most `most` tokens and each has as many pairs as possible."""
        found = [0]
        while found[-1] < len(source):
            found.append(min(int(side.searchsorted(side[found[-1]] + most, "right")) for side in sums) - 1)
        return found[1:]

    fewest = len(ends(budget))
    least = max(int(source.max()), int(target.max()), -(-max(int(side[-1]) for side in sums) // fewest))
    most = least + bisect_left(range(least, budget), True, key=lambda tokens: len(ends(tokens)) <= fewest)
    return np.array(ends(most)[:-1], np.int64)


def packed_length(batch_tokens: int, micro_batch_tokens: int, ranks: int, longest: int, mean: float) -> int:
    """The number of positions of every micro-batch. longest, mean: of the longer sides of all pairs.

    It is an equal part of a step, and one sentence of mean length more, because sentences cannot be divided: if all
    have the same length, one part may have one sentence more than an equal part. If lengths differ, short sentences
    fill the gaps, and the parts that `split_step` makes are more equal than that. The number is rounded up to whole
    tiles of matrix products, because a GPU is slower for other numbers of rows.
    """
    most = _whole_tiles(micro_batch_tokens)
    if ranks == 1 and batch_tokens <= most:
        return _whole_tiles(batch_tokens)
    extra = int(np.ceil(mean))
    parts = ranks * -(-batch_tokens // (ranks * max(1, most - extra)))
    return min(most, length_of_parts(batch_tokens, parts, longest, mean))


def length_of_parts(batch_tokens: int, parts: int, longest: int, mean: float) -> int:
    """The number of positions with which `packed_length` divides a step into at most this many micro-batches."""
    extra = 0 if parts == 1 else int(np.ceil(mean))
    return _whole_tiles(max(longest, -(-batch_tokens // parts) + extra))


def split_step(source: Integers, target: Integers, length: int, ranks: int) -> list[Integers]:
    """Split a step into as few micro-batches as possible, a multiple of `ranks`, that are about equally large and have
    at most `length` tokens. Returns the indices of the pairs in each, ascending.

    If there are fewer pairs than micro-batches, the last ones are empty; otherwise none is. source, target: lengths
    [pairs], none above `length`, in the order of `batch_cuts.sort_by_length`.
    """
    each = -(-max(int(source.sum()), int(target.sum())) // (ranks * length))  # micro-batches of each rank
    while True:
        part = _balanced(source, target, ranks * each)
        sums = [np.bincount(part, side) for side in (source, target)]
        if max(side.max() for side in sums) <= length:
            return [np.flatnonzero(part == number) for number in range(ranks * each)]
        each += -(-each // 8)  # rarely necessary; if many are missing, they are not added one by one


def _balanced(source: Integers, target: Integers, parts: int) -> Integers:
    """The part of each pair [pairs]. Pairs are added to the smallest part, the longest pair first (Graham 1969).

    Neighbours in the order of `batch_cuts.sort_by_length` are similar on both sides and go to different parts, so both
    sides become about equally large.
    """
    if parts == 1:
        return np.zeros(len(source), np.int64)
    smallest_first = [(0, 0, 0, number) for number in range(parts)]  # tokens of the longer side, source, target; number
    part = list[int]()
    for more_source, more_target in zip(source[::-1].tolist(), target[::-1].tolist(), strict=True):
        _, in_source, in_target, number = smallest_first[0]
        in_source, in_target = in_source + more_source, in_target + more_target
        heapreplace(smallest_first, (max(in_source, in_target), in_source, in_target, number))
        part.append(number)
    return np.array(part[::-1])


def _whole_tiles(positions: int) -> int:
    return -(-positions // _TILE) * _TILE
