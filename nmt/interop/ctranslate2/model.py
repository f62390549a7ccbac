"""A model in CTranslate2: subword ids in, the outputs of its searches and its scores out. Loads no PyTorch.

Source: src/decoding.cc of CTranslate2 4.8.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.decoding.engine_protocol import Pair, SearchInput, token_batches
from nmt.decoding.search.options import SearchOptions
from nmt.errors import NmtError
from nmt.files.packages import install_command
from nmt.machine import cpu_threads

if TYPE_CHECKING:
    import ctranslate2

_ALMOST_ZERO = 1e-9  # a length penalty of |Y|^this is 1 in float32; with exactly 0 CTranslate2 ends searches early
_IMPOSSIBLE = -1e30  # CTranslate2's value for -inf is below this
_SENTENCES_AT_ONCE, _HYPOTHESES_AT_ONCE = 256, 512  # at most, on the CPU: what is fastest depends on its caches
_BEGUN_AT_ONCE = 2  # batches for each thread: enough that none waits while Python ranks the outputs of one
TOKENS_SCORED = 1000  # at once: each needs the scores of the complete vocabulary

UNKNOWN = -1  # for what is not in the vocabulary
Output = tuple[list[int], float, bool]  # tokens without EOS, log P, whether EOS ended it: then log P includes EOS
_Begun = tuple[Sequence[int], Sequence["ctranslate2.AsyncTranslationResult"]]  # the sources of a batch; its results


class _Search:
    """The batches of a search: those that have begun, and those that begin when they are taken."""

    def __init__(self, remaining: Iterator[_Begun]):
        self.begun, self._remaining = deque[_Begun](), remaining

    def begin(self, count: int) -> int:
        """Begin `count` more batches, or as many as remain; returns how many."""
        more = list(islice(self._remaining, max(0, count)))
        self.begun.extend(more)
        return len(more)

    @property
    def running(self) -> int:
        """The number of batches that have begun and are not searched yet."""
        return sum(not results[0].done() for _, results in self.begun)


def load_package() -> Any:
    """The ctranslate2 package. Raises NmtError if it is not installed."""
    try:
        import ctranslate2
    except Exception as error:  # of many types: a missing library, a damaged installation
        raise NmtError(f"CTranslate2 cannot be loaded ({error}): {install_command('ctranslate2')}") from None
    return ctranslate2


class _Ids(dict[str, int]):
    """The ids of subwords. A dictionary that answers for missing keys is read without a Python call for each key."""

    def __missing__(self, piece: str) -> int:
        return UNKNOWN


class CTranslate2Model:
    """A model on a device; `on_searched` is called with the number of sentences of each batch."""

    def __init__(self, vocabulary: Vocabulary, device: str, folder: Path):
        """folder: of the model, which is not needed after that; device: `cpu`, `cuda`, `cuda:N` or `auto`: CUDA if
        CTranslate2 finds it. Raises NmtError if the package or the device is missing, and RuntimeError or ValueError
        if CTranslate2 cannot load the model."""
        package = load_package()
        kind, index = _device(package, device)
        # One batch for each thread: the operations of one batch are too small to share.
        self.workers = cpu_threads() if kind == "cpu" else 1
        self.translator: ctranslate2.Translator = package.Translator(
            str(folder),
            kind,
            device_index=index,
            inter_threads=self.workers,
            intra_threads=1,
            max_queued_batches=-1,  # no limit: `search` limits them without waiting
        )
        self.on_searched: Callable[[int], object] | None = None
        self._searches: list[ref[_Search]] = []  # one that nobody waits for any more does not go on
        self.source_pieces = vocabulary.source.every_piece()
        self.target_pieces = vocabulary.target.every_piece()
        self.target_ids = _Ids({piece: i for i, piece in enumerate(self.target_pieces)})

    @property
    def compute_type(self) -> str:
        return str(self.translator.compute_type)

    def batches(
        self, sources: Sequence[SearchInput], which: Iterable[int], options: SearchOptions, tokens: int
    ) -> list[list[int]]:
        """The numbers `which` of sources, sorted and cut into batches; tokens: as batch_tokens of Searcher.search. All
        sources of a batch have one shortest length of an output, as it is one for a batch."""
        most = None
        if self.translator.device == "cpu":
            most = max(1, min(_SENTENCES_AT_ONCE, _HYPOTHESES_AT_ONCE // options.decoding.beam_size))
        in_order = sorted(which, key=lambda i: (sources[i].shortest, -len(sources[i].ids)))
        batch_tokens = tokens // (self.workers * options.decoding.beam_size)
        batches = list[list[int]]()
        for _, alike in groupby(in_order, key=lambda i: sources[i].shortest):
            batches += token_batches(list(alike), batch_tokens, lambda i: len(sources[i].ids), most, self.workers)
        return batches

    def search(
        self,
        sources: Sequence[SearchInput],
        batches: Sequence[Sequence[int]],
        options: SearchOptions,
        *,
        patience: int = 1,
        never: Sequence[int] = (),
        most: int | None = None,
    ) -> Iterator[tuple[int, list[Output]]]:
        """The number of each source and its outputs: the likeliest beam_size · patience of those that had ended when
        that many had ended, or were cut at the length limit, which is one for a batch. No outputs for scores that are
        not numbers. Batches are searched at the same time, each with the shortest length of its first source.

        The search begins with this call, or when those before leave threads free, and goes on while the caller uses
        what it has found so far. CTranslate2 is given a few batches at a time, of all searches together, because a
        process can only end when it has searched all that it was given.

        never: subwords that are forbidden before the softmax, which gives their probability to the others. most: the
        length limit, if it is not that of the sources.
        """
        beam, start = options.decoding.beam_size, len(sources[0].start) if sources else 0
        suppressed = [[self.target_pieces[i]] for i in never] or None

        def begin(batch: Sequence[int]) -> _Begun:
            longest = max(sources[i].longest for i in batch) if most is None else most
            prefixes = [[self.target_pieces[i] for i in sources[number].start] for number in batch]
            results = self.translator.translate_batch(
                [[self.source_pieces[i] for i in sources[number].ids] for number in batch],
                prefixes if start else None,
                asynchronous=True,
                beam_size=beam,
                patience=patience,
                num_hypotheses=beam * patience if beam > 1 else 1,
                length_penalty=_ALMOST_ZERO,
                suppress_sequences=suppressed,
                max_input_length=0,
                min_decoding_length=start + sources[batch[0]].shortest,
                max_decoding_length=start + longest,
                return_end_token=True,
                return_scores=beam > 1 or options.scores,
            )
            return batch, results

        search = _Search(map(begin, batches))
        self._searches = [reference for reference in self._searches if reference() is not None] + [ref(search)]
        self._begin_more()
        return self._found(search, start)

    def _begin_more(self, first: _Search | None = None) -> None:
        """Begin batches until there are enough for each thread: of the search `first`, then of the oldest ones."""
        searches = [search for reference in self._searches if (search := reference()) is not None]
        free = _BEGUN_AT_ONCE * self.workers - sum(search.running for search in searches)
        for search in sorted(searches, key=lambda reference: reference is not first):
            free -= search.begin(free)

    def _found(self, search: _Search, start: int) -> Iterator[tuple[int, list[Output]]]:
        """start: of each output, the number of tokens that are no part of it."""
        while search.begun or search.begin(1):  # one at least, also where other searches have taken all threads
            batch, results = search.begun.popleft()
            searched = [result.result() for result in results]
            self._begin_more(search)
            yield from zip(batch, [self._outputs(result, start) for result in searched], strict=True)
            if self.on_searched is not None:
                self.on_searched(len(batch))

    def _outputs(self, result: "ctranslate2.TranslationResult", start: int) -> list[Output]:
        ids, outputs = self.target_ids, list[Output]()
        for pieces, score in zip(result.hypotheses, result.scores or [0.0], strict=True):
            ended = pieces[-1:] == [self.target_pieces[EOS]]
            if score > _IMPOSSIBLE:  # NaN is not
                outputs.append((list(map(ids.__getitem__, pieces[start : len(pieces) - ended])), score, ended))
        return outputs

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher."""
        results = self.translator.score_batch(
            [[self.source_pieces[i] for i in source] for source, _ in pairs],
            [[self.target_pieces[i] for i in target] for _, target in pairs],
            max_batch_size=min(batch_tokens, TOKENS_SCORED),
            batch_type="tokens",
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]

    def begin_score(self, pair: Pair) -> Callable[[], list[float]]:
        """Begin to score one pair; what is returned waits for its result, as `score` gives it."""
        source, target = pair
        [result] = self.translator.score_batch(
            [[self.source_pieces[i] for i in source]],
            [[self.target_pieces[i] for i in target]],
            max_input_length=0,
            asynchronous=True,
        )
        return lambda: list(result.result().log_probs)


def _device(package: Any, name: str) -> tuple[str, int]:
    """CTranslate2's device name and device index for --device."""
    count = package.get_cuda_device_count()
    if name == "auto":
        return "cuda" if count else "cpu", 0
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", name):
        raise NmtError(f"--device {name}: CTranslate2 knows cpu, cuda, cuda:N and auto")
    kind, _, index = name.partition(":")
    if kind == "cuda" and int(index or 0) >= count:
        raise NmtError(f"--device {name}: CTranslate2 finds {count} CUDA devices here: choose another, or auto")
    return kind, int(index or 0)
