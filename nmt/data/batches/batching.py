"""Batches of pairs: deterministic, sharded by rank, resumable.

One batch is one optimizer step. Its tokens are counted on the longer side. An epoch is planned from the lengths alone.
Pools of pairs are drawn from the mix of corpora and shuffled. How a pool is divided depends on the form of batches:

- Padded: the size of a batch is the number of sentences × the longest side among them, so padding counts. Pairs are
  sorted by length and cut into batches, and the batches are shuffled. A small corpus may be used several times in one
  pool. It then has small batches of its own, one pass after the other. A step then has one batch of the other corpora
  and some of these small batches.
- Packed: there is no padding. The pairs are cut into steps in their random order (`packed_steps`). Between the ends of
  passes over small corpora, pairs are shuffled separately.

In both forms all pairs of a corpus are used once before any is used again.

The plan is a pure function of (seed, epoch, mix). Every rank computes the same plan without communication, and resuming
needs only the epoch and the step in it. Pools are planned one after the other, so that memory does not grow with the
corpora. The number of ranks and the memory of a device decide only how a step is split. Each rank reads only the token
ids of its own share.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, pairwise
from typing import Literal, NamedTuple

import numpy as np

from nmt.data.batches.batch_cuts import plan_batches, sort_by_length
from nmt.data.batches.micro_batches import split_evenly
from nmt.data.batches.mixing import Mix
from nmt.data.batches.packed_steps import cut_into_steps, packed_length, split_step
from nmt.data.batches.packing import PackedBatch, pack
from nmt.data.batches.padding import Batch, collate_pairs
from nmt.data.batches.read_ahead import read_ahead
from nmt.data.batches.token_cutoff import CutTokens, TokenCutoff, draw_cuts
from nmt.data.batches.token_store import Integers, TokenStore
from nmt.data.draws import generator
from nmt.data.subwords.vocabulary import EOS
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError

# A pool ends where a corpus ends a pass, if the pass takes at least this many batches of the mix. Fewer batches cannot
# be cut well.
LONG_PASS = 100
# Padded tokens of a batch of repeated pairs. Smaller batches have less padding and take longer.
REPEATED_TOKENS = 512
_LENGTHS_AT_ONCE = 1 << 20  # lengths that are read together; this bounds the memory
_Planned = list[Integers]  # the batches of a step: the indices of their pairs
_EXACT_PAIRS = 2_000_000  # in epochs of up to this many pairs, steps are counted by planning all of them


@dataclass(frozen=True)
class Step:
    """One optimizer step: the micro-batches of this rank, and counts over all ranks.

    Every rank has the same number of micro-batches. If a step has fewer sentences than micro-batches, the last
    micro-batches are empty (B = 0, S = T = 1). Their loss is 0, and so are its gradients.
    """

    micro_batches: Sequence[Batch | PackedBatch]
    sentences: int  # this and the counts below: over all ranks and micro-batches
    source_tokens: int  # EOS counted, padding not
    target_tokens: int
    padded_tokens: int  # of both sides, padding counted
    pair_counts: tuple[int, ...] = (0,)  # sentence pairs of each corpus
    target_token_counts: tuple[int, ...] = (0,)  # target tokens of each corpus
    pool_end: int | None = None  # the time of the mix at which the pool ends; only in the last step of a pool

    def pinned(self) -> "Step":
        """The same step in page-locked memory."""
        return replace(self, micro_batches=[batch.pinned() for batch in self.micro_batches])


class _FittingPairs(NamedTuple):
    """Statistics on the pairs that fit into a batch."""

    skipped: int  # pairs that do not fit
    longest: int  # maximum of the longer sides
    mean: float  # mean of the longer sides


@dataclass(frozen=True)
class Budget:
    """The maximum number of tokens in a step and in a micro-batch: of the longer side, and with padding if batches are
    padded."""

    batch_tokens: int
    micro_batch_tokens: int | None = None  # None: a micro-batch may be as large as a step
    # What is done with a single pair that has more tokens: it is left out and counted, or an error is raised.
    over_budget: Literal["skip", "error"] = "skip"

    @property
    def micro_batch(self) -> int:
        return min(self.batch_tokens, self.micro_batch_tokens or self.batch_tokens)


@dataclass(frozen=True)
class BatchOrder:
    """The settings that decide the order of the pairs."""

    seed: int
    pool_pairs: int  # pairs that are shuffled and sorted together
    # Versions of each pair in the store, one after the other. Each pass over a corpus uses the next version.
    versions: int = 1
    # The mix of the corpora. In the store one corpus follows the other. None: all pairs are one corpus.
    mix: Mix | None = None


class Batches:
    """The steps of every epoch over the pairs of a store. It has no state: epochs can be iterated in any order.

    `pairs` counts the pairs of all versions, and `skipped` those that alone have more tokens than the budget. They are
    in no epoch. Apart from them, the steps do not depend on `micro_batch_tokens`, nor on the ranks. Raises NmtError if
    there is such a pair and `over_budget` is "error", and if no pair remains.
    """

    def __init__(
        self,
        store: TokenStore,
        budget: Budget,
        order: BatchOrder,
        ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
        *,
        packed: bool = False,
        cutoff: TokenCutoff | None = None,
    ) -> None:
        """packed: plan packed steps, and make micro-batches of one shape. cutoff: None for training without token
        cutoff."""
        self._store, self._versions, self._seed = store, order.versions, order.seed
        self._batch_tokens, self._micro_batch_tokens = budget.batch_tokens, budget.micro_batch
        self._ranks, self._cutoff = ranks, cutoff
        self._mix = order.mix or Mix.from_weights([len(store) // order.versions or 1])
        self._firsts = np.append(0, np.cumsum(self._mix.sizes))[:-1]  # first pair of each corpus
        fitting = self._fitting(budget.over_budget)
        self.pairs, self.skipped, self._longest = len(store), fitting.skipped, fitting.longest
        self._pool_limits = order.pool_pairs, int(LONG_PASS * self._batch_tokens / fitting.mean)
        self._packed_length: int | None = None
        self._collate: Callable[..., Batch | PackedBatch] = collate_pairs
        if packed:
            length = self._packed_length = packed_length(
                self._batch_tokens, self._micro_batch_tokens, ranks.size, fitting.longest, fitting.mean
            )
            self._collate = partial(pack, length=length, longest=self._longest)

    def steps_in_epoch(self, epoch: int, mix: Mix | None = None) -> int:
        """Return the number of optimizer steps in an epoch. It is an estimate for a long epoch, and for one that
        another mix has a part of. Planning takes a second per million pairs; no tokens are read. mix: as in `epoch`."""
        mix = replace(mix or self._mix, end=None)
        pools = list(mix.pools(*mix.part_of(epoch), *self._pool_limits))
        (first, _), (_, end) = pools[0], pools[-1]
        planned = pools if end - first <= _EXACT_PAIRS else pools[:1]
        steps = sum(len(self._plan_pool(mix, pool)) for pool in planned)
        return round(steps * mix.epoch / (planned[-1][1] - first))

    def epoch(
        self, epoch: int, first_step: int = 0, mix: Mix | None = None, most_steps: int | None = None
    ) -> Iterator[Step]:
        """Yield the steps of one epoch in order, from `first_step` on. No tokens of the steps before it are read. Every
        pair that fits is in exactly one step of the epoch.

        mix: a mix that replaces the one of the constructor; only the part of the epoch in which it holds is used.
        most_steps: end this many steps after the beginning of that part. Pools are made as small as necessary, so that
        every pair drawn until then is in a step. (There are a few more steps if one batch cannot hold a pair of every
        corpus.)
        """
        mix = mix or self._mix
        for i, (pairs, pool_end) in islice(enumerate(self._plan(epoch, mix, most_steps)), first_step, None):
            yield self._step(pairs, pool_end, (self._seed, epoch, mix.start, i))

    def example(self) -> Batch | PackedBatch:
        """Return a small micro-batch to try the compiler with. A packed one has the shape of all packed
        micro-batches."""
        pairs = 2 if self._packed_length is None else 1  # torch.compile makes a separate graph for one sentence
        source, target = ([np.full(min(length, self._longest), EOS, np.uint16)] * pairs for length in (3, 5))
        cuts = None
        if self._cutoff:  # real batches have rows for them
            cuts = CutTokens(
                *(np.zeros((len(self._cutoff.rates), sum(map(len, side))), np.bool_) for side in (source, target))
            )
        return self._collate(source, target, cuts=cuts)

    def _fitting(self, over_budget: str) -> "_FittingPairs":
        """Return statistics on the pairs that fit. Raises NmtError as the class does."""
        key = "batch_tokens" if self._micro_batch_tokens == self._batch_tokens else "micro_batch_tokens"
        limit = f"training.{key}: {self._micro_batch_tokens}"
        store, versions, longest, total = self._store, self._versions, 0, 0
        fitting = np.zeros(versions, np.int64)  # pairs in each version
        at_once = versions * max(1, _LENGTHS_AT_ONCE // versions)
        for first in range(0, len(store), at_once):
            longer = self._longer(np.arange(first, min(first + at_once, len(store))))
            fits = longer <= self._micro_batch_tokens
            if {"error": True, "skip": False}[over_budget] and not fits.all():
                bad = first + int(fits.argmin())
                raise NmtError(
                    f"pair {bad // versions} (counted from 0) has {store.source.lengths[bad]} source and "
                    f"{store.target.lengths[bad]} target subwords, end of sentence included: more than {limit}: "
                    "raise it, or set data.over_budget: skip"
                )
            fitting += fits.reshape(-1, versions).sum(axis=0)
            total += int(longer[fits].sum())
            longest = max(longest, int(longer[fits].max(initial=0)))
        if not fitting.all():
            which = f"all {len(store) // versions} pairs exceed it: raise it" if len(store) else "there are no pairs"
            raise NmtError(f"no batch can be made within {limit}: {which}")
        every = int(fitting.sum())
        return _FittingPairs(len(store) - every, longest, total / every)

    def _plan(self, epoch: int, mix: Mix, most_steps: int | None) -> Iterator[tuple[_Planned, int | None]]:
        """The batches of each step and Step.pool_end, step after step, the same on every rank."""
        # The last step of a pool is held back: if the next pool has no steps, this step has the end of that pool.
        last: tuple[_Planned, int] | None = None
        # Planning takes a second, in which eight GPUs train two hundred steps. So the next pool is planned in advance.
        with closing(read_ahead(self._planned_pools(epoch, mix, most_steps), 1)) as planned:
            for steps, end in planned:
                if not steps:
                    last = last and (last[0], end)
                    continue
                if last:
                    yield last
                yield from ((batches, None) for batches in steps[:-1])
                last = steps[-1], end
        if last:
            yield last

    def _planned_pools(self, epoch: int, mix: Mix, most_steps: int | None) -> Iterator[tuple[list[_Planned], int]]:
        """Yield the batches of each step of a pool, and when the pool ends. The last pools are smaller, to end after
        `most_steps`."""
        time, end = mix.part_of(epoch)
        steps_left = float("inf") if most_steps is None else most_steps
        pools = mix.pools(time, end, *self._pool_limits)
        while steps_left > 0 and (pool := next(pools, None)):
            steps = self._plan_pool(mix, pool)
            while len(steps) > steps_left and pool[1] - pool[0] > 1:  # a smaller pool, followed by others for the rest
                pool = pool[0], pool[0] + max(1, int((pool[1] - pool[0]) * steps_left / len(steps)))
                pools = mix.pools(pool[1], end, *self._pool_limits)
                steps = self._plan_pool(mix, pool)
            if len(steps) > steps_left:  # at most one pair of each corpus remains: one batch, if they fit into it
                remaining = np.concatenate(list(chain.from_iterable(steps)))
                steps = [[remaining]] if self._tokens(remaining) <= self._batch_tokens else steps
            yield steps, pool[1]
            steps_left -= len(steps)

    def _plan_pool(self, mix: Mix, times: tuple[int, int]) -> list[_Planned]:
        """The batches of each step of a pool."""
        random = generator(self._seed, times[0])
        repeated, pass_times = mix.passes(*times)
        if self._packed_length is not None:  # pass after pass
            pairs = np.concatenate([random.permutation(self._drawn(mix, *each)) for each in pairwise(pass_times)])
            cuts = cut_into_steps(*self._lengths(pairs), self._batch_tokens)
            return [[step] for step in np.split(pairs, cuts)] if len(pairs) else []
        pairs = random.permutation(self._drawn(mix, *times))
        if not repeated:
            return [[batch] for batch in self._shuffled_batches(pairs, self._batch_tokens, random)]
        is_repeated, tokens = np.isin(self._corpora(pairs), repeated), self._longer(pairs)
        once, longest = pairs[~is_repeated], int(tokens[~is_repeated].max(initial=0))
        # The padded tokens of a step that are reserved for repeated pairs. The longest of these pairs must fit.
        room = 1 + self._batch_tokens * int(tokens[is_repeated].sum()) // max(1, int(tokens.sum()))
        room = max(room, int(tokens[is_repeated].max(initial=0)))
        passes = [self._drawn(mix, *each) for each in pairwise(pass_times)]
        while len(once) and room + longest <= self._batch_tokens:
            batches = self._shuffled_batches(once, self._batch_tokens - room, random)
            groups = self._in_order(passes, repeated, room, random)
            if len(groups) <= len(batches):  # the groups are spread evenly over the batches
                bounds = [i * len(groups) // len(batches) for i in range(len(batches) + 1)]
                spread = (chain.from_iterable(groups[start:end]) for start, end in pairwise(bounds))
                return [[batch, *group] for batch, group in zip(batches, spread, strict=True)]
            room = max(room + 1, room * len(groups) // len(batches))
        return self._in_order(passes, range(len(self._firsts)), self._batch_tokens, random)

    def _in_order(
        self, passes: list[Integers], corpora: Sequence[int], room: int, random: np.random.Generator
    ) -> list[list[Integers]]:
        """The pairs of some corpora, one pass after the other, in small batches. Each group of batches has at most
        `room` padded tokens."""
        groups, room_left = list[list[Integers]](), 0
        for drawn in passes:
            pairs = random.permutation(drawn)
            pairs = pairs[np.isin(self._corpora(pairs), corpora)]
            limit = max(-(-room // -(-room // REPEATED_TOKENS)), int(self._longer(pairs).max(initial=0)))
            for batch in self._shuffled_batches(pairs, limit, random):
                if groups and self._tokens(joined := np.concatenate([groups[-1][-1], batch])) <= limit:
                    room_left, batch = room_left + self._tokens(groups[-1].pop()), joined  # the two fit into one batch
                if not groups or self._tokens(batch) > room_left:
                    groups.append([])
                    room_left = room
                groups[-1].append(batch)
                room_left -= self._tokens(batch)
        return [group for group in groups if group]

    def _shuffled_batches(self, pairs: Integers, budget: int, random: np.random.Generator) -> list[Integers]:
        """The pairs in batches of at most `budget` padded tokens."""
        if not len(pairs):
            return []
        batches = plan_batches(*self._lengths(pairs), budget, random)
        return [pairs[batches[i]] for i in random.permutation(len(batches))]

    def _drawn(self, mix: Mix, start: int, end: int) -> Integers:
        """The pairs that the mix draws in [start, end) and that fit into a batch."""
        drawn = mix.draw(start, end, self._seed)
        pairs = (self._firsts[drawn.corpora] + drawn.indices) * self._versions + drawn.passes % self._versions
        return pairs[self._longer(pairs) <= self._micro_batch_tokens]

    def _corpora(self, pairs: Integers) -> Integers:
        """The corpus of each pair."""
        return np.searchsorted(self._firsts, pairs // self._versions, side="right") - 1

    def _step(self, batches: _Planned, pool_end: int | None, names: tuple[int, ...]) -> Step:
        """names: the numbers that the random numbers of this step are derived from."""
        batches = [batch[sort_by_length(*self._lengths(batch))] for batch in batches]
        pairs = np.concatenate(batches)
        source, target = self._lengths(pairs)
        # Neighbouring shares go to different ranks, so that ranks work on similar shapes at the same time.
        shares = self._shares(batches)
        corpora, several = self._corpora(pairs), len(self._firsts) > 1
        own = shares[self._ranks.rank :: self._ranks.size]
        cuts = draw_cuts(source, target, corpora, self._cutoff, names) if self._cutoff else None
        return Step(
            micro_batches=[
                self._collate(
                    *self._store.pairs(pairs[share]),
                    corpora=corpora[share] if several else None,
                    cuts=cuts and cuts.select(share, source, target),
                )
                for share in own
            ],
            sentences=len(pairs),
            source_tokens=int(source.sum()),
            target_tokens=int(target.sum()),
            padded_tokens=sum(self._padded_tokens(source[share], target[share]) for share in shares),
            pair_counts=tuple(np.bincount(corpora, minlength=len(self._firsts)).tolist()),
            target_token_counts=tuple(
                np.bincount(corpora, target, minlength=len(self._firsts)).astype(np.int64).tolist()
            ),
            pool_end=pool_end,
        )

    def _shares(self, batches: _Planned) -> Sequence[slice | Integers]:
        """The micro-batches of all ranks: which of the pairs of all batches each of them has."""
        if self._packed_length is not None:
            return split_step(*self._lengths(np.concatenate(batches)), self._packed_length, self._ranks.size)
        shares, first = list[slice](), 0
        for batch in batches:
            split = split_evenly(self._longer(batch), self._micro_batch_tokens, self._ranks.size)
            shares += [slice(first + share.start, first + share.stop) for share in split]
            first += len(batch)
        return shares

    def _padded_tokens(self, source: Integers, target: Integers) -> int:
        """The tokens of both sides in a micro-batch of these lengths, with padding or empty positions."""
        if self._packed_length is not None:
            return 2 * self._packed_length
        return len(source) * int(source.max(initial=0) + target.max(initial=0))

    def _tokens(self, pairs: Integers) -> int:
        """The size of a batch, as `Budget` counts it."""
        if self._packed_length is not None:
            return max(int(side.sum()) for side in self._lengths(pairs))
        return len(pairs) * int(self._longer(pairs).max())

    def _longer(self, pairs: Integers) -> Integers:
        """The longer side of each pair."""
        return np.maximum(*self._lengths(pairs))

    def _lengths(self, pairs: Integers) -> tuple[Integers, Integers]:
        source, target = self._store.source.lengths[pairs], self._store.target.lengths[pairs]
        return source.astype(np.int64), target.astype(np.int64)
