"""Token-bucketed batches: deterministic, sharded by rank, resumable.

One batch is one optimizer step. Its size is counted in cells, sentences × the longest side among them,
so padding is paid for. An epoch is planned from the lengths alone:

    shuffle all pairs → pools → within a pool: sort by length, cut into batches, shuffle the batches

The plan is a pure function of (seed, epoch), so every rank makes the same one without talking to the
others, and (epoch, step within the epoch) is all that resuming needs. How many ranks there are and how
much one device holds decide only how a step is split; token ids are read for a rank's own share alone.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from nmt.data.token_store import Integers, Sequences
from nmt.data.vocabulary import PAD
from nmt.errors import NmtError

# Lengths are sorted with some noise, or the same sentences would meet in every epoch: a side counts as one
# subword longer than it is with this probability. With Multi30k in 120 batches, of the sentences that share
# a batch in one epoch 46% do so again in another, rather than 60%, and 0.3% more of the cells are padding.
JITTER = 0.04
# What a batch costs beside its padded cells when the cuts are chosen, as a share of the budget. Cheap
# batches are tight but small, dear ones full but padded.
BATCH_COST = 0.2
# Places within a full batch where it may be cut. More fill the batches better and take longer to plan.
CUTS_PER_BATCH = 64


@dataclass(frozen=True)
class Batch:
    """One micro-batch on one device. B may be 0: see `Step`."""

    source: Tensor  # int64 [B, S], rows end in EOS, then PAD
    target: Tensor  # int64 [B, T], rows end in EOS, then PAD


@dataclass(frozen=True)
class Step:
    """One optimizer step: what this rank computes, and what all ranks together do.

    Every rank has the same number of micro-batches. If a step has fewer sentences than that makes, the
    missing ones are empty, B = 0 and S = T = 1: their losses sum to 0 and backpropagate zeros.
    """

    micro_batches: list[Batch]
    sentences: int  # this and the counts below: over all ranks and micro-batches
    source_tokens: int  # EOS counted, padding not
    target_tokens: int
    cells: int  # of the tensors of both sides, padding counted

    def pinned(self) -> "Step":
        """The same in page-locked memory, from which copies to a GPU need not wait."""
        batches = [Batch(batch.source.pin_memory(), batch.target.pin_memory()) for batch in self.micro_batches]
        return replace(self, micro_batches=batches)


class Batches:
    """The steps of every epoch over pairs of id sequences. Holds no state: iterate as often as wanted.

    `skipped` counts the pairs that alone exceed `batch_tokens` or `micro_batch_tokens` cells, over all
    segmentations. They are in no epoch, and only through them do the steps depend on `micro_batch_tokens`.
    With `over_budget="error"` the first of them raises NmtError. So does a store from which no pair remains.
    """

    def __init__(
        self,
        store: Sequences,
        *,
        batch_tokens: int,
        micro_batch_tokens: int | None,
        seed: int,
        pool_pairs: int,
        over_budget: Literal["skip", "error"],
        segmentations: int = 1,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        """segmentations: how often the store holds all its pairs, one time after the other; an epoch is over one."""
        self._store, self._segmentations = store, segmentations
        self._batch_cells = batch_tokens
        self._micro_cells = min(batch_tokens, micro_batch_tokens or batch_tokens)
        self._seed = seed
        self._pool_pairs = pool_pairs
        self._rank, self._ranks = rank, world_size
        self._pairs = self._pairs_that_fit(over_budget)
        self.skipped = len(store) - len(self._pairs)

    def steps_in_epoch(self, epoch: int) -> int:
        """Optimizer steps in one epoch. Plans it, at about a second a million pairs; reads no tokens."""
        return sum(1 for _ in self._plan(epoch))

    def epoch(self, epoch: int, first_step: int = 0) -> Iterator[Step]:
        """The steps of one epoch in order, from `first_step` on. Reads no tokens of the steps before it.

        Every pair that fits is in exactly one step. Batches are shuffled within their pool; pools, each a
        random part of the corpus, follow one another.
        """
        return map(self._step, islice(self._plan(epoch), first_step, None))

    def _pairs_that_fit(self, over_budget: Literal["skip", "error"]) -> Integers:
        source, target = self._store.source_lengths, self._store.target_lengths
        fits = np.maximum(source, target) <= self._micro_cells
        key = "batch_tokens" if self._micro_cells == self._batch_cells else "micro_batch_tokens"
        limit = f"training.{key}: {self._micro_cells}"
        if over_budget == "error" and not fits.all():
            first = int(fits.argmin())
            raise NmtError(
                f"pair {first} (counted from 0) has {source[first]} source and {target[first]} target subwords, "
                f"end of sentence included: more than {limit}: raise it, or set data.over_budget: skip"
            )
        if not fits.reshape(self._segmentations, -1).any(axis=1).all():
            found = f"the shortest of {len(fits)} pairs exceeds it: raise it" if len(fits) else "there are no pairs"
            raise NmtError(f"no batch can be made within {limit}: {found}")
        return np.flatnonzero(fits).astype(np.uint32 if len(fits) < 2**32 else np.int64)

    def _plan(self, epoch: int) -> Iterator[Integers]:
        """The pairs of each step [sentences], step after step, the same on every rank."""
        random = np.random.Generator(np.random.PCG64(np.random.SeedSequence((self._seed, epoch))))
        each = len(self._store) // self._segmentations
        first = epoch % self._segmentations * each
        start, end = np.searchsorted(self._pairs, (first, first + each))
        shuffled = random.permutation(self._pairs[start:end])
        for pool in np.array_split(shuffled, -(-len(shuffled) // self._pool_pairs)):
            source, target = self._lengths(pool)
            batches = plan_batches(source, target, self._batch_cells, random)
            for i in random.permutation(len(batches)):
                yield pool[batches[i]]

    def _step(self, pairs: Integers) -> Step:
        pairs = pairs[sort_by_length(*self._lengths(pairs))]
        source, target = self._lengths(pairs)
        shares = split_evenly(np.maximum(source, target), self._micro_cells, self._ranks)
        return Step(
            # Neighbouring shares go to different ranks, so that ranks work on similar shapes at the same time.
            micro_batches=[self._batch(pairs[share]) for share in shares[self._rank :: self._ranks]],
            sentences=len(pairs),
            source_tokens=int(source.sum()),
            target_tokens=int(target.sum()),
            cells=sum(
                len(source[share]) * int(source[share].max(initial=0) + target[share].max(initial=0))
                for share in shares
            ),
        )

    def _batch(self, pairs: Integers) -> Batch:
        source, target = self._store.pairs(pairs)
        return Batch(collate(source), collate(target))

    def _lengths(self, pairs: Integers) -> tuple[Integers, Integers]:
        store = self._store
        return store.source_lengths[pairs].astype(np.int64), store.target_lengths[pairs].astype(np.int64)


def plan_batches(source: Integers, target: Integers, cells: int, random: np.random.Generator) -> list[Integers]:
    """Pairs of similar lengths put together: the indices of each batch.

    source, target: lengths int64 [pairs], none above `cells`, in an order that is random already: it
    decides between equals. cells: most sentences × longest side of a batch.
    """
    noisy_source = source + (random.random(len(source)) < JITTER)
    noisy_target = target + (random.random(len(target)) < JITTER)
    order = sort_by_length(noisy_source, noisy_target, turn=int(random.integers(2)))
    return np.split(order, choose_cuts(source[order], target[order], cells))


def sort_by_length(source: Integers, target: Integers, turn: int = 0) -> Integers:
    """Indices [pairs] that sort pairs such that neighbours are alike on both sides.

    By the longer side; among equals by the difference of the sides, upwards and downwards in turn, as one
    ploughs a field, since otherwise the extremes would meet where the longer side grows by one. `turn` 1
    begins the other way.
    """
    longest, difference = np.maximum(source, target), target - source
    upwards = (longest + turn) % 2 == 0
    return np.lexsort((np.where(upwards, difference, -difference), longest))


def choose_cuts(source: Integers, target: Integers, cells: int) -> Integers:
    """Where to cut pairs, sorted by `sort_by_length`, into batches of at most `cells`: [batches - 1].

    The least sum of all batches' padded cells, both sides, and BATCH_COST for each batch, by dynamic
    programming over blocks of pairs: the cost of the pairs from block i on is
    best[i] = min over n of cost(batch of blocks i … i+n-1) + best[i+n].
    """
    starts, widest = _blocks(np.maximum(source, target), cells)
    # Beyond the last block, blocks of nothing: a batch that reaches into them is ruled out by `best`.
    count, tall_source, tall_target = (
        np.lib.stride_tricks.sliding_window_view(np.pad(of_block, (0, widest - 1)), widest)  # [blocks, widest]
        for of_block in (
            np.diff(starts, append=len(source)),
            np.maximum.reduceat(source, starts),
            np.maximum.reduceat(target, starts),
        )
    )
    blocks = len(starts)
    best = np.full(blocks + widest + 1, np.inf)
    best[blocks] = 0
    length = np.empty(blocks, np.int64)  # of the best batch that begins with a block, in blocks
    for chunk in reversed(range(0, blocks, 4096)):  # bounds the memory
        rows = slice(chunk, chunk + 4096)
        sentences = count[rows].cumsum(axis=1)
        longest_source = np.maximum.accumulate(tall_source[rows], axis=1)
        longest_target = np.maximum.accumulate(tall_target[rows], axis=1)
        cost = sentences * (longest_source + longest_target) + BATCH_COST * cells
        cost[sentences * np.maximum(longest_source, longest_target) > cells] = np.inf
        for i in reversed(range(chunk, chunk + len(cost))):
            total = cost[i - chunk] + best[i + 1 : i + 1 + widest]
            n = total.argmin()
            length[i], best[i] = n + 1, total[n]
    cuts, block = [], int(length[0])
    while block < blocks:
        cuts.append(block)
        block += int(length[block])
    return starts[cuts]


def _blocks(longest: Integers, cells: int) -> tuple[Integers, int]:
    """Blocks of neighbours that are never cut: their starts, and the most blocks that one batch can hold.

    A block holds 1/CUTS_PER_BATCH of a batch's cells, and no lengths of which one is more than about
    twice the other, so that a block of several pairs always fits into a batch.
    """
    part = longest.cumsum() * CUTS_PER_BATCH // cells
    magnitude = np.frexp(np.maximum.accumulate(longest))[1]
    starts = np.flatnonzero((np.diff(part, prepend=-1) != 0) | (np.diff(magnitude, prepend=-1) != 0))
    return starts, CUTS_PER_BATCH + 1 + int(magnitude[-1])


def split_evenly(longest: Integers, cells: int, ranks: int) -> list[slice]:
    """Cut the rows of a step into the fewest parts of at most `cells` that `ranks` divides.

    longest: the longer side of each row, ascending and none above `cells`. The largest part is as small
    as can be; parts are empty only if there are fewer rows than parts, and then the last ones.
    """
    parts = -(-len(_fill(longest, cells)) // ranks) * ranks
    least = int(longest[-1])
    most = least + bisect_left(range(least, cells), True, key=lambda most: len(_fill(longest, most)) <= parts)
    bounds = [0, *_fill(longest, most)]
    while len(bounds) <= min(parts, len(longest)):
        sizes = np.diff(bounds)
        largest = int(np.where(sizes > 1, sizes * longest[np.array(bounds[1:]) - 1], 0).argmax())
        bounds.insert(largest + 1, bounds[largest] + int(sizes[largest]) // 2)
    bounds += [len(longest)] * (parts + 1 - len(bounds))
    return [slice(start, end) for start, end in pairwise(bounds)]


def _fill(longest: Integers, cells: int) -> list[int]:
    """The ends of parts that each take as many rows as `cells` allow."""
    ends, start = [], 0
    while start < len(longest):
        rest = longest[start:]
        start += int(np.searchsorted(rest * np.arange(1, len(rest) + 1), cells, side="right"))
        ends.append(start)
    return ends


def collate(rows: list[npt.NDArray[Any]]) -> Tensor:
    """Rows of ids as one int64 tensor [B, longest], padded with PAD; [0, 1] for no rows."""
    lengths = np.array([len(row) for row in rows], np.int64)
    padded = np.full((len(rows), lengths.max(initial=1)), PAD, np.int64)
    if rows:
        padded[np.arange(padded.shape[1]) < lengths[:, None]] = np.concatenate(rows)
    return torch.from_numpy(padded)


def read_ahead(steps: Iterable[Step], ahead: int, pin: bool = False) -> Generator[Step, None, None]:
    """The same steps in the same order, up to `ahead` of them made in advance by a thread.

    What making a step raises is raised here, in its turn. The thread ends with the steps, or when this
    generator is closed: a consumer that may stop early wraps it in `contextlib.closing`. pin: hand out
    steps in page-locked memory.
    """
    source = map(Step.pinned, steps) if pin else iter(steps)
    reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read-ahead")
    try:
        # One reader takes the requests in their order. Each gives a list of one step, or of none at the end.
        waiting = deque(reader.submit(list, islice(source, 1)) for _ in range(ahead))
        while step := waiting.popleft().result():
            waiting.append(reader.submit(list, islice(source, 1)))
            yield step[0]
    finally:
        reader.shutdown(cancel_futures=True)
