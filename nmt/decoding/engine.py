"""What translates ids: the seam between text and search, and the engine that searches with our own model."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby, repeat
from typing import Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from nmt.data.vocabulary import BOS, EOS, PAD
from nmt.decoding import coverage, scoring
from nmt.decoding.ensemble import Ensemble
from nmt.decoding.search import logits_processors
from nmt.decoding.search.beam import SCORED_AT_ONCE
from nmt.decoding.search.constrained import beam_width
from nmt.decoding.search.interface import Hypothesis, LogitsProcessor, Options
from nmt.decoding.search.phrase_automaton import Group
from nmt.decoding.search.search import search
from nmt.device import host_memory_within_reach
from nmt.errors import NmtError
from nmt.models.transformer.model import Transformer

Pair = tuple[list[int], list[int]]  # a source and a target, EOS left out
T = TypeVar("T")

_CELLS_A_WORKER = 4000  # of a batch on the CPU: smaller ones spend more time per cell
_NARROWEST = 16  # positions of a batch: a softmax over fewer is ten times slower on a CPU


@dataclass(frozen=True)
class Source:
    """One sentence to translate: its subwords, and what its outputs must be like. EOS is not counted in any length.

    longest and shortest: subwords of an output; prefix: those that it begins with; seed: of its samples; required:
    groups of phrases in subwords, of each of which one is to appear.
    """

    ids: list[int]
    longest: int
    shortest: int = 0
    prefix: tuple[int, ...] = ()
    seed: int = 0
    required: tuple[Group, ...] = ()


class Searcher(Protocol):
    """Searches for the translations of sentences, as many at once as it likes."""

    @property
    def positions(self) -> int | None:
        """The longest source or output, EOS left out, that the model has positions for; None: any."""

    def search(self, sources: Sequence[Source], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        """The hypotheses for each source, in order, best first; none where nothing has a probability.

        At most batch_tokens cells are searched at once: sentences × beam × source subwords.
        """

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """log P of each token of each target, given its source and the tokens before it; EOS last."""


class Engine(Searcher, Protocol):
    """What stands behind a translator."""

    @property
    def aligns(self) -> bool:
        """Whether `align` can be asked."""

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        """How much each token of a target looks at each of its source: rows of 1 in sum; EOS last in both."""

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list[Tensor]:
        """The encoder's output for each source, EOS last: float32 on the CPU, [its tokens + 1, d_model]."""


class TransformerEngine:
    """Our own models and search."""

    def __init__(self, models: Sequence[Transformer], device: torch.device, precision: str = "float32"):
        """Models of one vocabulary on `device`, live in training or loaded, left in the mode (train or eval) that
        they are in; several translate as one, by the mean of their probabilities. `precision` is what they were
        trained in: on CUDA a bfloat16 model translates in bfloat16."""
        self.models, self.device = models, device
        self.bfloat16 = precision == "bfloat16" and device.type == "cuda"

    @property
    def positions(self) -> int | None:
        sizes = [model.sizes for model in self.models]
        return min((size.max_positions - 1 for size in sizes if size.positions == "learned"), default=None)

    @property
    def aligns(self) -> bool:
        return True

    def search(self, sources: Sequence[Source], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        if options.coverage_penalty:
            return self._covered(sources, options, batch_tokens)
        workers = self._workers(batch_tokens)
        order = sorted(range(len(sources)), key=lambda i: len(sources[i].ids), reverse=True)
        order.sort(key=lambda i: not sources[i].required)  # phrases need wider beams, and a search of their own
        batches: list[list[Source]] = []
        for bound, group in groupby([sources[i] for i in order], key=lambda source: bool(source.required)):
            together = list(group)
            width = (
                max(beam_width(source.required, source.longest, options) for source in together)
                if bound
                else options.beam_size
            )
            batches += _cut(together, batch_tokens // (workers * width), lambda source: len(source.ids))
        self._check_memory(batches, options, workers, batch_tokens)
        with _evaluating(self.models):
            results = self._search_all(batches, options, workers)
        return _in_order(order, chain(*results))

    def _check_memory(self, batches: list[list[Source]], options: Options, workers: int, batch_tokens: int) -> None:
        """Raise NmtError where batches cannot fit into the memory of this machine: a system that finds it out later
        kills, and no program can catch that. On a GPU its allocator says so."""
        within = host_memory_within_reach() if self.device.type == "cpu" else None
        if within is None:
            return
        together = sorted((self._least_bytes(batch, options) for batch in batches), reverse=True)[:workers]
        if sum(together) > within:
            raise NmtError(
                f"decoding.batch_tokens: {batch_tokens} with decoding.beam_size: {options.beam_size} needs at least "
                f"{sum(together) / 2**30:,.1f} GiB of memory here, and there are {within / 2**30:,.1f} GiB: lower one"
            )

    def _least_bytes(self, batch: list[Source], options: Options) -> int:
        """What searching a batch takes at once, at the very least: the widest layer of the encoder; or each decoder
        layer's keys and values of the source, and scores of next tokens, of parts of the batch where that is enough."""
        model, number = self.models[0], self.models[0].target_embedding.weight.element_size()
        sizes = model.sizes
        cells = len(batch) * max(_NARROWEST, len(batch[0].ids) + 1)
        width = sizes.heads * sum(size or sizes.d_model // sizes.heads for size in (sizes.key_size, sizes.value_size))
        rows = len(batch) * options.beam_size
        if not (options.sampling or any(one.required for one in batch)):
            rows = min(rows, max(SCORED_AT_ONCE, options.beam_size))
        decoding = number * len(self.models) * cells * width * len(model.decoder) + 4 * rows * model.output.out_features
        return max(number * cells * sizes.feed_forward, decoding)

    def _covered(self, sources: Sequence[Source], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        """All that ends in the beam, ranked once more by what it covers of the source."""
        whole = replace(options, n_best=options.beam_size, scores=True, coverage_penalty=0.0)
        found = self.search(sources, whole, batch_tokens)
        pairs = [(source.ids, one.tokens) for source, ones in zip(sources, found, strict=True) for one in ones]
        alignments = iter(self.align(pairs, batch_tokens))
        ranked = [coverage.ranked(ones, [next(alignments) for _ in ones], options.coverage_penalty) for ones in found]
        return [ones[: options.n_best] for ones in ranked]

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        def found(source: Tensor, target: Tensor) -> list[list[float]]:
            scores: list[list[float]] = scoring.token_scores(self.models, source, target, BOS).tolist()
            return scores

        return [
            row[: len(target) + 1]
            for row, (_, target) in zip(self._forced(found, pairs, batch_tokens), pairs, strict=True)
        ]

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        def found(source: Tensor, target: Tensor) -> list[list[list[float]]]:
            weights: list[list[list[float]]] = scoring.alignment(self.models, source, target, BOS).tolist()
            return weights

        return [
            [row[: len(source) + 1] for row in rows[: len(target) + 1]]
            for rows, (source, target) in zip(self._forced(found, pairs, batch_tokens), pairs, strict=True)
        ]

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list[Tensor]:
        def found(source: Tensor, _: Tensor) -> list[Tensor]:
            return list(scoring.states(self.models[0], source).cpu())

        states = self._forced(found, [(source, []) for source in sources], batch_tokens)
        return [one[: len(source) + 1].clone() for one, source in zip(states, sources, strict=True)]

    def _forced(self, found: Callable[[Tensor, Tensor], list[T]], pairs: Sequence[Pair], batch_tokens: int) -> list[T]:
        """What `found` gives for padded batches of pairs of similar length, for each pair in order."""
        order = sorted(range(len(pairs)), key=lambda i: max(map(len, pairs[i])), reverse=True)
        results: list[T] = []
        with _evaluating(self.models), torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            for batch in _cut([pairs[i] for i in order], batch_tokens, lambda pair: max(map(len, pair))):
                source, target = (_padded([pair[side] for pair in batch], self.device) for side in (0, 1))
                results += found(source, target)
        return _in_order(order, results)

    def _workers(self, batch_tokens: int) -> int:
        """Batches searched at the same time: several on the CPU, each large enough to be worth its operations."""
        if self.device.type != "cpu":
            return 1
        return max(1, min(torch.get_num_threads(), batch_tokens // _CELLS_A_WORKER))

    def _search_all(self, batches: list[list[Source]], options: Options, workers: int) -> list[list[list[Hypothesis]]]:
        """The hypotheses for each source of each batch.

        A step of decoding is many small operations. Threads that share every one of them wait for each
        other most of the time, so each has a batch to itself instead.
        """
        workers, threads = min(workers, len(batches)), torch.get_num_threads()
        if workers <= 1:
            return [self._search(batch, options) for batch in batches]
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
        try:
            return list(pool.map(self._search, batches, repeat(options)))
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # threads yet to come would take over the workers' number

    @torch.inference_mode()
    def _search(self, batch: list[Source], options: Options) -> list[list[Hypothesis]]:
        ids = _padded([source.ids for source in batch], self.device)  # [B, S]
        ids = F.pad(ids, (0, max(0, _NARROWEST - ids.shape[1])), value=PAD)
        limits = torch.tensor([max(source.longest, len(source.prefix)) for source in batch])  # [B]
        limiting, seeds = self._rules(batch, options), [source.seed for source in batch]
        required = [source.required for source in batch] if any(source.required for source in batch) else ()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            if len(self.models) > 1:
                return search(Ensemble(self.models), ids, limits, options, limiting, seeds, required)
            return search(self.models[0], ids, limits, options, limiting, seeds, required)

    def _rules(self, batch: list[Source], options: Options) -> list[LogitsProcessor]:
        """What outputs of these sentences may not hold; none where there is nothing."""
        found: list[LogitsProcessor] = []
        if any(source.shortest for source in batch):
            shortest = [min(source.shortest, source.longest) for source in batch]
            found.append(logits_processors.MinLength(torch.tensor(shortest, device=self.device), EOS))
        if options.no_repeat_ngram is not None:
            found.append(logits_processors.NoRepeatNgram(options.no_repeat_ngram, len(batch), self.device))
        if options.banned is not None:
            found.append(logits_processors.NoBannedWords(options.banned, len(batch), self.device))
        if any(source.prefix for source in batch):
            return [logits_processors.ForcedPrefix([source.prefix for source in batch], found, self.device)]
        return found


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Rows of ids, EOS behind each → [B, longest]."""
    tensors = [torch.tensor([*row, EOS]) for row in rows]
    return pad_sequence(tensors, batch_first=True, padding_value=PAD).to(device)


def _cut(items: list[T], cells: int, length: Callable[[T], int]) -> Iterator[list[T]]:
    """Batches of at most so many cells, of items that come longest first."""
    start = 0
    while start < len(items):
        size = max(1, cells // (length(items[start]) + 1))  # EOS
        yield items[start : start + size]
        start += size


def _in_order(order: list[int], results: Iterable[T]) -> list[T]:
    """Results that come in this order, back in their own."""
    return [result for _, result in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]


@contextmanager
def _evaluating(models: Sequence[Transformer]) -> Iterator[None]:
    """The models without dropout; in the mode that they were in, afterwards."""
    training = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for model, mode in zip(models, training, strict=True):
            model.train(mode)
