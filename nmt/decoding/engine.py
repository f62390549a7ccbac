"""The engine for nmt's own models and search. It implements `nmt.decoding.engine_protocol.Engine`."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence

from nmt.data.subwords.vocabulary import EOS, PAD
from nmt.decoding import ensemble, search_thread
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Pair, SearchInput, token_batches
from nmt.decoding.search import logits_processors
from nmt.decoding.search.beam import SCORED_AT_ONCE
from nmt.decoding.search.decoder_model import DecoderModel, Hypothesis, LogitsProcessor, SearchOptions
from nmt.decoding.search.options import best_first
from nmt.decoding.search.search import search
from nmt.decoding.search.step_graphs import StepGraphs
from nmt.device import from_host, is_device_fault
from nmt.errors import NmtError, first_line
from nmt.machine import host_memory_within_reach
from nmt.models.translation_model import TranslationModel

log = logging.getLogger("nmt")

T = TypeVar("T")

_WORKER_TOKENS = 4000  # padded tokens of a batch on the CPU: smaller batches take more time per token
_MOST_AUTO_TOKENS = 128_000  # on CUDA: more is not faster, and the sentences of a batch would differ more in length
_NARROWEST = 16  # source positions of a batch: a softmax over fewer is ten times slower on a CPU
_SHORT = 8  # subwords of a short source: the shorter the sources, the more outputs in a batch
_computing = threading.Lock()  # on CUDA


class PyTorchEngine:
    """nmt's own models and search."""

    aligns = True

    def __init__(self, models: Sequence[TranslationModel], device: torch.device):
        """models: all with the same vocabulary, on `device`; they compute in the dtype of their weights. Several models
        translate as an ensemble. They may be in training: their mode (train or eval) is restored."""
        self.models, self.device = models, device
        self.on_cuda = device.type == "cuda"
        self._graphs = StepGraphs(device) if self.on_cuda else None
        self._reports = threading.local()

    @property
    def on_searched(self) -> Callable[[int], object] | None:
        """As in `Engine`. Each thread has its own."""
        return getattr(self._reports, "on_searched", None)

    @on_searched.setter
    def on_searched(self, report: Callable[[int], object] | None) -> None:
        self._reports.on_searched = report

    @property
    def positions(self) -> int | None:
        limits = [model.longest_position for model in self.models]
        return min((limit - 1 for limit in limits if limit is not None), default=None)

    @property
    def auto_batch_tokens(self) -> int:
        """16,000 on the CPU. On CUDA as many as fit into half of the free memory, at most 128,000."""
        if not self.on_cuda:
            return AUTO_BATCH_TOKENS
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        free = torch.cuda.mem_get_info(self.device)[0] + unused  # PyTorch can reuse what it has reserved
        needs = [model.search_bytes(1, 1) for model in self.models]
        # `search_bytes` is a lower bound: outputs have keys and values too, and each encoder layer has several results.
        token_bytes = 4 * sum(decoding for _, decoding in needs) + 4 * max(encoding for encoding, _ in needs)
        score_bytes = 3 * 4 * self.models[0].target_vocabulary // _SHORT  # in float32; three tensors at once
        return max(1, min(_MOST_AUTO_TOKENS, free // 2 // (token_bytes + score_bytes)))

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        if options.decoding.coverage_penalty:
            return self._search_for_coverage(sources, options, batch_tokens)
        workers = 1
        if self.device.type == "cpu":  # several batches at the same time, none too small to be efficient
            workers = max(1, min(torch.get_num_threads(), batch_tokens // _WORKER_TOKENS))
        order = sorted(range(len(sources)), key=lambda i: len(sources[i].ids), reverse=True)
        ordered, tokens = [sources[i] for i in order], batch_tokens // (workers * options.width)
        batches = list(token_batches(ordered, tokens, lambda source: len(source.ids)))
        self._check_memory(batches, options, workers, batch_tokens)
        with _eval_mode(self.models):
            results = self._search_all(batches, options, workers)
        return _in_order(order, chain(*results))

    def _check_memory(
        self, batches: list[list[SearchInput]], options: SearchOptions, workers: int, batch_tokens: int
    ) -> None:
        """Raise NmtError if the batches do not fit into this machine's memory: the system would kill the process,
        without an error message. On a GPU the allocator raises an error."""
        available = host_memory_within_reach() if self.device.type == "cpu" else None
        if available is None:
            return
        largest = sorted((self._least_bytes(batch, options) for batch in batches), reverse=True)[:workers]
        needed = sum(largest)
        if needed > available:
            raise NmtError(
                f"decoding.batch_tokens: {batch_tokens} with decoding.beam_size: {options.decoding.beam_size} needs at "
                f"least {needed / 2**30:,.1f} GiB of memory, and {available / 2**30:,.1f} GiB are available: lower one"
            )

    def _least_bytes(self, batch: list[SearchInput], options: SearchOptions) -> int:
        """A lower bound of the memory for searching a batch: the larger one of what the encoder and the decoder need.
        The decoder needs its keys and values of the source, and the scores of the next tokens, which some search
        methods compute for parts of the batch."""
        longest = self._width(len(batch[0].ids) + 1)
        needs = [model.search_bytes(len(batch), longest) for model in self.models]
        rows = len(batch) * options.width
        if options.decoding.method != "sample":
            rows = min(rows, max(SCORED_AT_ONCE, options.width))
        decoding = sum(decoder for _, decoder in needs) + 4 * rows * self.models[0].target_vocabulary
        return max(decoding, *(encoder for encoder, _ in needs))

    def _search_for_coverage(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """Search without the coverage penalty, then rank all hypotheses of the beam with it."""
        all_ended = replace(
            options, decoding=replace(options.decoding, coverage_penalty=0.0), n_best=options.width, scores=True
        )
        results = self.search(sources, all_ended, batch_tokens)
        pairs: list[Pair] = []
        for source, hypotheses in zip(sources, results, strict=True):
            pairs += [source.pair(hypothesis.tokens) for hypothesis in hypotheses]
        alignments = iter(self.align(pairs, batch_tokens))
        ranked = []
        for source, hypotheses in zip(sources, results, strict=True):
            output_rows = [next(alignments)[len(source.start) :] for _ in hypotheses]
            reranked = rank_by_coverage(hypotheses, output_rows, options.decoding.coverage_penalty)
            ranked.append(reranked[: options.n_best])
        return ranked

    def begin_search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """As in `Engine`. On CUDA a thread searches, and the calling thread can work on text meanwhile. Elsewhere text
        and search would need the same cores: the search runs when the returned function is called."""
        search = partial(self.search, sources, options, batch_tokens)
        # A model in training has its mode changed by each search, so that two searches would disturb each other.
        if not self.on_cuda or any(model.training for model in self.models):
            return search

        def in_thread(count: Callable[[int], None]) -> list[list[Hypothesis]]:
            self.on_searched = count
            try:
                with torch.cuda.device(self.device):  # each thread has its own current device
                    return search()
            finally:
                self.on_searched = None

        return search_thread.begin(in_thread, lambda sentences: self.on_searched and self.on_searched(sentences))

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        results = self._in_batches(partial(ensemble.token_scores, self.models), pairs, batch_tokens)
        return [scores[: len(target) + 1].tolist() for scores, (_, target) in zip(results, pairs, strict=True)]

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        results = self._in_batches(partial(ensemble.alignment, self.models), pairs, batch_tokens)
        return [
            weights[: len(target) + 1, : len(source) + 1].tolist()
            for weights, (source, target) in zip(results, pairs, strict=True)
        ]

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list[Tensor]:
        def compute(source: Tensor, _: Tensor) -> Tensor:
            return self.models[0].encode(source).states.float()

        states = self._in_batches(compute, [(source, []) for source in sources], batch_tokens)
        return [state[: len(source) + 1].clone() for state, source in zip(states, sources, strict=True)]

    def _in_batches(
        self, compute: Callable[[Tensor, Tensor], Tensor], pairs: Sequence[Pair], batch_tokens: int
    ) -> list[Tensor]:
        """Call `compute` on padded batches of pairs of similar length. Returns its row for each pair, on the CPU."""
        order = sorted(range(len(pairs)), key=lambda i: max(map(len, pairs[i])), reverse=True)
        rows: list[Tensor] = []
        with _eval_mode(self.models), _inference(self.device):
            for batch in token_batches([pairs[i] for i in order], batch_tokens, lambda pair: max(map(len, pair))):
                source, target = (_pad([pair[side] for pair in batch], self.device) for side in (0, 1))
                rows += compute(source, target).cpu().unbind()
        return _in_order(order, rows)

    def _search_all(
        self, batches: list[list[SearchInput]], options: SearchOptions, workers: int
    ) -> list[list[list[Hypothesis]]]:
        """The hypotheses for each source of each batch.

        A decoding step consists of many small operations. Threads that share each operation mostly wait for each other.
        So each thread searches its own batches.
        """
        workers, threads = min(workers, len(batches)), torch.get_num_threads()
        if workers <= 1:
            return self._counted(self._search(batch, options) for batch in batches)
        pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(threads // workers,))
        try:
            return self._counted(pool.map(self._search, batches, repeat(options)))
        finally:
            pool.shutdown(cancel_futures=True)
            torch.set_num_threads(threads)  # new threads would otherwise inherit the workers' number

    def _counted(self, results: Iterable[list[list[Hypothesis]]]) -> list[list[list[Hypothesis]]]:
        """All results. `on_searched` is called in this thread after each batch."""
        hypotheses = []
        for batch in results:
            hypotheses.append(batch)
            if self.on_searched is not None:
                self.on_searched(len(batch))
        return hypotheses

    def _search(self, batch: list[SearchInput], options: SearchOptions) -> list[list[Hypothesis]]:
        ids = _pad([source.ids for source in batch], self.device)  # [B, S]
        ids = F.pad(ids, (0, self._width(ids.shape[1]) - ids.shape[1]), value=PAD)
        limits = torch.tensor([max(source.longest, len(source.prefix)) for source in batch])  # [B]
        seeds = [source.seed for source in batch]
        starts = torch.tensor([source.start for source in batch], dtype=torch.long)  # [B, N]
        model: DecoderModel = self.models[0] if len(self.models) == 1 else ensemble.Ensemble(self.models)
        with _inference(self.device):
            processors = self._processors(batch, options)
            start_tokens = from_host(starts, self.device) if starts.numel() else None
            arguments = model, ids, limits, options, processors, seeds, start_tokens
            # A model with fewer subwords than a step has candidates does not keep the shapes of a step.
            if self._graphs is not None and 2 * options.width <= self.models[0].target_vocabulary:
                try:
                    return search(*arguments, self._graphs)
                except (NmtError, torch.OutOfMemoryError):
                    raise
                except Exception as error:  # of many types: kernels depend on versions of Triton and of the driver
                    if processors or is_device_fault(error):
                        raise
                    self._graphs = None
                    message = "search: CUDA graphs and their kernels do not work here, continuing without them (%s)"
                    log.warning(message, first_line(error))
            return search(*arguments)

    def _width(self, longest: int) -> int:
        """The width of a batch whose longest source has `longest` subwords, EOS included."""
        # On a GPU attention needs masks whose width is a multiple of 16: it would copy others.
        width = -(-longest // _NARROWEST) * _NARROWEST if self.device.type == "cuda" else max(longest, _NARROWEST)
        return width if self.positions is None else min(width, self.positions + 1)

    def _processors(self, batch: list[SearchInput], options: SearchOptions) -> list[LogitsProcessor]:
        shortest, prefixes = [source.shortest for source in batch], [source.prefix for source in batch]
        return logits_processors.build(options, shortest, prefixes, self.device)


def rank_by_coverage(
    hypotheses: Sequence[Hypothesis], alignments: Sequence[list[list[float]]], beta: float
) -> list[Hypothesis]:
    """Add β · Σ_i log(min(Σ_j p_ij, 1)) to the score of each hypothesis of one sentence. Returns them best first.

    This is the coverage penalty of Wu et al. 2016, equation 14. It prefers outputs that attend to all of the source.
    alignments: for each hypothesis p[j][i], how much its token j attends to source token i.
    """
    scored = []
    for hypothesis, rows in zip(hypotheses, alignments, strict=True):
        covered = [math.fsum(column) for column in zip(*rows, strict=True)]
        penalty = beta * math.fsum(math.log(min(max(share, 1e-30), 1.0)) for share in covered)
        scored.append(replace(hypothesis, score=hypothesis.score + penalty))
    return best_first(scored)


def _pad(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    """Rows of ids, EOS added to each → [B, longest]."""
    tensors = [torch.tensor([*row, EOS]) for row in rows]
    return from_host(pad_sequence(tensors, batch_first=True, padding_value=PAD), device)


def _in_order(order: list[int], results: Iterable[T]) -> list[T]:
    """The results in the order of the items. results[n] belongs to item order[n]."""
    return [result for _, result in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]


@contextmanager
def _inference(device: torch.device) -> Iterator[None]:
    """Inference mode without autocast: models compute in the dtype of their weights.

    On CUDA one thread at a time computes, because two batches may need more memory than there is. cuDNN's attention is
    off, because it needs a part of a second of planning for each new shape.
    """
    fused = sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    with (
        _computing if device.type == "cuda" else nullcontext(),
        torch.inference_mode(),
        torch.autocast(device.type, enabled=False),
        fused if device.type == "cuda" else nullcontext(),
    ):
        yield


@contextmanager
def _eval_mode(models: Sequence[TranslationModel]) -> Iterator[None]:
    """Put models in eval mode, without dropout. Their mode is restored at the end."""
    training = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for model, mode in zip(models, training, strict=True):
            model.train(mode)
