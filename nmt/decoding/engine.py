"""The engine of nmt's own models and search: see `nmt.decoding.engine_protocol`."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import chain, groupby, repeat
from typing import TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pad_sequence

from nmt.data.subwords.vocabulary import EOS, PAD
from nmt.decoding import ensemble
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Pair, SearchInput, token_batches
from nmt.decoding.search import logits_processors
from nmt.decoding.search.beam import SCORED_AT_ONCE
from nmt.decoding.search.constrained import beam_width
from nmt.decoding.search.decoder_model import DecoderModel, Hypothesis, LogitsProcessor, SearchOptions
from nmt.decoding.search.options import best_first
from nmt.decoding.search.search import search
from nmt.device import from_host
from nmt.errors import NmtError
from nmt.machine import host_memory_within_reach
from nmt.models.translation_model import TranslationModel

T = TypeVar("T")

_WORKER_TOKENS = 4000  # in a batch on the CPU, padding included: smaller batches take more time per token
_MOST_AUTO_TOKENS = 128_000  # on CUDA: more would not be faster, and sentences of a batch would differ more in length
_NARROWEST = 16  # source positions of a batch: a softmax over fewer is ten times slower on a CPU
_SHORT = 8  # subwords of a short source: the shorter sources are, the more outputs a batch has


class PyTorchEngine:
    """nmt's own models and search."""

    aligns = True

    def __init__(self, models: Sequence[TranslationModel], device: torch.device):
        """models: with one vocabulary, on `device`, which compute in the type of their weights; several translate as an
        ensemble. They may be in training: their mode (train or eval) is restored."""
        self.models, self.device = models, device
        self.on_cuda = device.type == "cuda"
        self.on_searched: Callable[[int], object] | None = None

    @property
    def positions(self) -> int | None:
        limits = [model.longest_position for model in self.models]
        return min((limit - 1 for limit in limits if limit is not None), default=None)

    @property
    def auto_batch_tokens(self) -> int:
        """16,000 on the CPU. On CUDA what half of the free memory holds, at most 128,000."""
        if not self.on_cuda:
            return AUTO_BATCH_TOKENS
        unused = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
        free = torch.cuda.mem_get_info(self.device)[0] + unused  # what PyTorch reserved it can use again
        needs = [model.search_bytes(1, 1) for model in self.models]
        # `search_bytes` is the least: outputs have keys and values too, and the encoder's layers several results.
        for_a_token = 4 * sum(kept for _, kept in needs) + 4 * max(encoding for encoding, _ in needs)
        scores = 3 * 4 * self.models[0].target_vocabulary // _SHORT  # in float32; three tensors at once
        return max(1, min(_MOST_AUTO_TOKENS, free // 2 // (for_a_token + scores)))

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        if options.decoding.coverage_penalty:
            return self._search_for_coverage(sources, options, batch_tokens)
        workers = 1
        if self.device.type == "cpu":  # several batches at the same time, none too small to be efficient
            workers = max(1, min(torch.get_num_threads(), batch_tokens // _WORKER_TOKENS))
        order = sorted(range(len(sources)), key=lambda i: len(sources[i].ids), reverse=True)
        order.sort(key=lambda i: not sources[i].required)  # required phrases need wider beams and their own search
        batches: list[list[SearchInput]] = []
        for bound, group in groupby([sources[i] for i in order], key=lambda source: bool(source.required)):
            together = list(group)
            widths = [beam_width(source.required, source.longest, options) for source in together] if bound else []
            width = max(widths, default=options.width)
            batches += token_batches(together, batch_tokens // (workers * width), lambda source: len(source.ids))
        self._check_memory(batches, options, workers, batch_tokens)
        with _eval_mode(self.models):
            results = self._search_all(batches, options, workers)
        return _in_order(order, chain(*results))

    def _check_memory(
        self, batches: list[list[SearchInput]], options: SearchOptions, workers: int, batch_tokens: int
    ) -> None:
        """Raise NmtError if batches cannot fit into this machine's memory: the system would kill this process, which
        cannot be caught. On a GPU the allocator raises an error."""
        within = host_memory_within_reach() if self.device.type == "cpu" else None
        if within is None:
            return
        together = sorted((self._least_bytes(batch, options) for batch in batches), reverse=True)[:workers]
        if sum(together) > within:
            raise NmtError(
                f"decoding.batch_tokens: {batch_tokens} with decoding.beam_size: {options.decoding.beam_size} needs at "
                f"least {sum(together) / 2**30:,.1f} GiB of memory here, and there are {within / 2**30:,.1f} GiB: "
                "lower one"
            )

    def _least_bytes(self, batch: list[SearchInput], options: SearchOptions) -> int:
        """The least memory that searching a batch needs: to encode it; or for what decoding keeps of the source, and
        the scores of the next tokens, computed for parts of the batch where the search allows that."""
        longest = self._width(len(batch[0].ids) + 1)
        needs = [model.search_bytes(len(batch), longest) for model in self.models]
        rows = len(batch) * options.width
        if not (options.decoding.method == "sample" or any(source.required for source in batch)):
            rows = min(rows, max(SCORED_AT_ONCE, options.width))
        decoding = sum(kept for _, kept in needs) + 4 * rows * self.models[0].target_vocabulary
        return max(decoding, *(encoding for encoding, _ in needs))

    def _search_for_coverage(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """Search without the coverage penalty, then rank all hypotheses of the beam with it."""
        all_ended = replace(
            options, decoding=replace(options.decoding, coverage_penalty=0.0), n_best=options.width, scores=True
        )
        results = self.search(sources, all_ended, batch_tokens)
        each = [(source, one) for source, found in zip(sources, results, strict=True) for one in found]
        rows = self.align([source.pair(hypothesis.tokens) for source, hypothesis in each], batch_tokens)
        alignments = iter([row[len(source.start) :] for row, (source, _) in zip(rows, each, strict=True)])
        ranked = [
            rank_by_coverage(hypotheses, [next(alignments) for _ in hypotheses], options.decoding.coverage_penalty)
            for hypotheses in results
        ]
        return [hypotheses[: options.n_best] for hypotheses in ranked]

    def begin_search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """As nmt.decoding.engine_protocol.Engine. Nothing is searched before the result is asked for."""
        return partial(self.search, sources, options, batch_tokens)

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

        A decoding step is many small operations. Threads that share each operation mostly wait for each other, so
        each thread searches batches of its own instead.
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
        """All results; `on_searched` is called in this thread for each."""
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
        required = [source.required for source in batch] if any(source.required for source in batch) else []
        starts = torch.tensor([source.start for source in batch], dtype=torch.long)  # [B, N]
        model: DecoderModel = self.models[0] if len(self.models) == 1 else ensemble.Ensemble(self.models)
        with _inference(self.device):
            processors = self._processors(batch, options)
            following = from_host(starts, self.device) if starts.numel() else None
            return search(model, ids, limits, options, processors, seeds, required, following)

    def _width(self, longest: int) -> int:
        """The positions of a batch whose longest source has `longest`, EOS counted."""
        # On a GPU attention needs masks of such widths: others it would copy.
        width = -(-longest // _NARROWEST) * _NARROWEST if self.device.type == "cuda" else max(longest, _NARROWEST)
        return width if self.positions is None else min(width, self.positions + 1)

    def _processors(self, batch: list[SearchInput], options: SearchOptions) -> list[LogitsProcessor]:
        shortest, prefixes = [source.shortest for source in batch], [source.prefix for source in batch]
        return logits_processors.build(options, shortest, prefixes, self.device)


def rank_by_coverage(
    hypotheses: Sequence[Hypothesis], alignments: Sequence[list[list[float]]], beta: float
) -> list[Hypothesis]:
    """Hypotheses of one sentence, each score with β · Σ_i log(min(Σ_j p_ij, 1)) added, best first.

    The coverage penalty of Wu et al. 2016, equation 14, which prefers outputs that attend to all of the source.
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
    """results[n] belongs to item order[n]: the results by item."""
    return [result for _, result in sorted(zip(order, results, strict=True), key=lambda pair: pair[0])]


@contextmanager
def _inference(device: torch.device) -> Iterator[None]:
    """For what computes in the type of a model's weights, also inside a caller's autocast.

    On CUDA without cuDNN's attention, which plans for a part of a second for each new shape.
    """
    fused = sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    with (
        torch.inference_mode(),
        torch.autocast(device.type, enabled=False),
        fused if device.type == "cuda" else nullcontext(),
    ):
        yield


@contextmanager
def _eval_mode(models: Sequence[TranslationModel]) -> Iterator[None]:
    """Models in eval mode, without dropout; afterwards their mode is restored."""
    training = [model.training for model in models]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for model, mode in zip(models, training, strict=True):
            model.train(mode)
