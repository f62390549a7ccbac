"""The interface of an engine: source ids in; hypotheses, scores and alignments out. Loads no PyTorch."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from nmt.config.schema import DecodingConfig
from nmt.decoding.search.options import Hypothesis, SearchOptions
from nmt.terms.glossary import FoundTerm

if TYPE_CHECKING:
    from torch import Tensor

Pair = tuple[list[int], list[int]]  # a source and a target, EOS left out
T = TypeVar("T")
AUTO_BATCH_TOKENS = 16_000  # decoding.batch_tokens: auto, on the CPU


@dataclass(frozen=True)
class SearchInput:
    """One sentence to translate: its subwords, and constraints on its outputs. EOS is not counted in any length.

    longest, shortest: length of an output in subwords; prefix: subwords that it starts with; seed: for sampling;
    start: tokens that the decoder reads between BOS and the output, which does not contain them: the same number for
    every sentence; text: the sentence; terms: the terms of a glossary in `text`; length: the subwords of
    the source, with those that were cut, without the translations of terms.
    """

    ids: list[int]
    longest: int
    shortest: int = 0
    prefix: tuple[int, ...] = ()
    seed: int = 0
    start: tuple[int, ...] = ()
    text: str = ""
    terms: tuple[FoundTerm, ...] = ()
    length: int = 0

    def pair(self, tokens: Sequence[int]) -> Pair:
        """The source and `start` + output, as the engines score and align them."""
        return self.ids, [*self.start, *tokens]


class Searcher(Protocol):
    """Searches for translations and scores them."""

    @property
    def positions(self) -> int | None:
        """The longest source or output, without EOS, that the model has positions for; None: no limit."""

    @property
    def auto_batch_tokens(self) -> int:
        """The value of decoding.batch_tokens: auto."""

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source, in order, best first; none if the model gives no probabilities.

        batch_tokens: the most padded tokens that are searched at once: sentences × beam size × source subwords.
        """

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """log P of each token of each target, given its source and the tokens before it; EOS last."""


class Engine(Searcher, Protocol):
    """The engine of a translator."""

    aligns: bool  # whether `align` works
    on_cuda: bool  # whether a GPU searches, many sentences at once
    # Called after each batch with its number of sentences, in the thread that asked for the result.
    on_searched: Callable[[int], object] | None

    def begin_search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """Begin a search if the engine has its own threads, as on CUDA; other engines search when the returned function
        is called. The function returns the result of `search`, and may be called once. `on_searched` is called only
        then."""

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        """For each pair the attention of each target token to each source token, [T + 1, S + 1]. Rows sum to 1; EOS is
        last on both sides."""

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list["Tensor"]:
        """The encoder's output for each source, EOS last: float32 on the CPU, [source length + 1, width]."""


def batch_tokens(engine: Searcher, decoding: DecodingConfig) -> int:
    """decoding.batch_tokens as a number."""
    return engine.auto_batch_tokens if decoding.batch_tokens == "auto" else decoding.batch_tokens


def token_batches(
    items: list[T], tokens: int, length: Callable[[T], int], most: int | None = None, workers: int = 1
) -> Iterator[list[T]]:
    """Batches of at most `tokens` tokens, padding and EOS included, and at most `most` items; items must be sorted,
    longest first.

    workers: number of threads that take the batches one by one. A batch has at most 1 / workers of the remaining items.
    So the last batches are small, and all threads end at about the same time (guided self-scheduling, Polychronopoulos
    and Kuck 1987)."""
    start = 0
    while start < len(items):
        share = math.ceil((len(items) - start) / workers)
        size = min(most or len(items), share, max(1, tokens // (length(items[start]) + 1)))  # EOS
        yield items[start : start + size]
        start += size
