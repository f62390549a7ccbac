"""Which pairs form a batch, from their lengths alone."""

import numpy as np

from nmt.data.batches.token_store import Integers

# Lengths are sorted with some noise, so that different sentences share a batch in each epoch. With this probability a
# side counts as one subword longer than it is. With Multi30k in 120 batches, 46% of the sentences that share a batch in
# one epoch share one in another epoch too (60% without noise). Padding grows by 0.3% of the padded tokens.
JITTER = 0.04
# The cost of a batch when cuts are chosen, as a share of the budget; it is added to the cost of its padded tokens. A
# lower value gives smaller batches with less padding, a higher one fuller batches with more.
BATCH_COST = 0.2
# The number of positions at which a full batch may be cut. More positions give fuller batches and longer planning.
CUTS_PER_BATCH = 64


def plan_batches(source: Integers, target: Integers, budget: int, random: np.random.Generator) -> list[Integers]:
    """Group pairs of similar lengths into batches. Returns the indices of the pairs in each batch.

    source, target: lengths, int64 [pairs], none above `budget`. Their order is random and decides between equal
    lengths. budget: the maximum number of padded tokens in a batch (number of sentences × longest side).
    """
    noisy_source = source + (random.random(len(source)) < JITTER)
    noisy_target = target + (random.random(len(target)) < JITTER)
    order = sort_by_length(noisy_source, noisy_target, turn=int(random.integers(2)))
    return np.split(order, choose_cuts(source[order], target[order], budget))


def sort_by_length(source: Integers, target: Integers, turn: int = 0) -> Integers:
    """Return indices [pairs] that sort pairs so that neighbours have similar lengths on both sides.

    Pairs are sorted by the longer side. Pairs with the same longer side are sorted by the difference of the sides, in
    ascending and descending order in turn. Otherwise the largest and the smallest difference would be neighbours where
    the longer side grows by one. `turn`: 1 begins with the other order.
    """
    longest, difference = np.maximum(source, target), target - source
    upwards = (longest + turn) % 2 == 0
    return np.lexsort((np.where(upwards, difference, -difference), longest))


def choose_cuts(source: Integers, target: Integers, budget: int) -> Integers:
    """Return where to cut pairs, sorted by `sort_by_length`, into batches of at most `budget` padded tokens:
    [batches - 1].

    The cuts minimize the cost: the sum over all batches of the padded tokens of both sides and of BATCH_COST × budget.
    They are computed by dynamic programming over blocks of pairs. The cost of the pairs from block i on is
    best[i] = min over n of cost(batch of blocks i … i+n-1) + best[i+n].
    """
    starts, widest = _blocks(np.maximum(source, target), budget)
    # Empty blocks are added at the end. Where `best` is infinite, it excludes batches that reach into them.
    counts = np.diff(starts, append=len(source))
    longest_sources, longest_targets = (np.maximum.reduceat(side, starts) for side in (source, target))
    count, longest_in_source, longest_in_target = (
        np.lib.stride_tricks.sliding_window_view(np.pad(values, (0, widest - 1)), widest)  # [blocks, widest]
        for values in (counts, longest_sources, longest_targets)
    )
    blocks = len(starts)
    best = np.full(blocks + widest + 1, np.inf)
    best[blocks] = 0
    length = np.empty(blocks, np.int64)  # blocks in the best batch that begins with each block
    for chunk in reversed(range(0, blocks, 4096)):  # bounds the memory
        rows = slice(chunk, chunk + 4096)
        sentences = count[rows].cumsum(axis=1)
        longest_source = np.maximum.accumulate(longest_in_source[rows], axis=1)
        longest_target = np.maximum.accumulate(longest_in_target[rows], axis=1)
        cost = sentences * (longest_source + longest_target) + BATCH_COST * budget
        cost[sentences * np.maximum(longest_source, longest_target) > budget] = np.inf
        for i in reversed(range(chunk, chunk + len(cost))):
            total = cost[i - chunk] + best[i + 1 : i + 1 + widest]
            n = total.argmin()
            length[i], best[i] = n + 1, total[n]
    cuts, block = [], int(length[0])
    while block < blocks:
        cuts.append(block)
        block += int(length[block])
    return starts[cuts]


def _blocks(longest: Integers, budget: int) -> tuple[Integers, int]:
    """Divide the pairs into blocks that are never cut. Returns the start of each block, and the maximum number of
    blocks in a batch.

    A block holds about 1/CUTS_PER_BATCH of a batch's padded tokens, and its longest pair is at most about twice as long
    as its shortest, so a block of several pairs always fits into a batch.
    """
    part = longest.cumsum() * CUTS_PER_BATCH // budget
    magnitude = np.frexp(np.maximum.accumulate(longest))[1]
    starts = np.flatnonzero((np.diff(part, prepend=-1) != 0) | (np.diff(magnitude, prepend=-1) != 0))
    return starts, CUTS_PER_BATCH + 1 + int(magnitude[-1])
