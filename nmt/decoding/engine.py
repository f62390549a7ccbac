"""What translates ids: the seam between text and search, and the engine that searches with our own model."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Protocol

import torch
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence

from nmt.data.vocabulary import EOS, PAD
from nmt.decoding.hypothesis import Hypothesis, Options
from nmt.decoding.search import search
from nmt.model.transformer import Transformer

_CELLS_A_WORKER = 4000  # of a batch on the CPU: smaller ones spend more time per cell
_NARROWEST = 16  # positions of a batch: a softmax over fewer is ten times slower on a CPU


@dataclass(frozen=True)
class Source:
    """One sentence to translate: its subwords and the most subwords of an output, both without EOS."""

    ids: list[int]
    longest: int


class Engine(Protocol):
    """Searches for the translations of sentences, as many at once as it likes."""

    @property
    def positions(self) -> int | None:
        """The longest source or output, EOS left out, that the model has positions for; None: any."""

    def search(self, sources: Sequence[Source], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        """The hypotheses for each source, in order, best first; none where the model has no probabilities.

        At most batch_tokens cells are searched at once: sentences × beam × source subwords.
        """


class TransformerEngine:
    """Our own model and search."""

    def __init__(self, model: Transformer, device: torch.device, precision: str = "float32"):
        """A model on `device`, live in training or loaded, left in the mode (train or eval) that it is in;
        `precision` is what it was trained in: on CUDA a bfloat16 model translates in bfloat16."""
        self.model, self.device = model, device
        self.bfloat16 = precision == "bfloat16" and device.type == "cuda"

    @property
    def positions(self) -> int | None:
        sizes = self.model.sizes
        return sizes.max_positions - 1 if sizes.positions == "learned" else None

    def search(self, sources: Sequence[Source], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        workers = self._workers(batch_tokens)
        order = sorted(range(len(sources)), key=lambda i: len(sources[i].ids), reverse=True)
        cells = batch_tokens // (workers * options.beam_size)
        batches = list(_cut([sources[i] for i in order], cells))
        with _evaluating(self.model):
            results = self._search_all(batches, options, workers)
        found: list[list[Hypothesis]] = [[]] * len(sources)
        for i, hypotheses in zip(order, chain(*results), strict=True):
            found[i] = hypotheses
        return found

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
        rows = [torch.tensor([*source.ids, EOS]) for source in batch]
        source = pad_sequence(rows, batch_first=True, padding_value=PAD)
        source = F.pad(source, (0, max(0, _NARROWEST - source.shape[1])), value=PAD)  # [B, S]
        limits = torch.tensor([source.longest for source in batch])  # [B]
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16):
            return search(self.model, source.to(self.device), limits, options)


def _cut(sources: list[Source], cells: int) -> Iterator[list[Source]]:
    """Batches of at most so many cells, of sources that come longest first."""
    start = 0
    while start < len(sources):
        width = len(sources[start].ids) + 1  # EOS
        size = max(1, cells // width)
        yield sources[start : start + size]
        start += size


@contextmanager
def _evaluating(model: Transformer) -> Iterator[None]:
    """The model without dropout; in the mode that it was in, afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)
