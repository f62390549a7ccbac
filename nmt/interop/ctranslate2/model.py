"""A CTranslate2 model that takes subword ids, and returns outputs of search or scores.

Source: src/decoding.cc of CTranslate2 4.8.
"""

import re
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nmt.config.schema import DecodingConfig
from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.decoding.engine_protocol import Pair, SearchInput, token_batches
from nmt.decoding.search.options import SearchOptions
from nmt.errors import NmtError
from nmt.files.packages import install_command
from nmt.interop.ctranslate2.files import SHORTLIST
from nmt.machine import cpu_threads

if TYPE_CHECKING:
    import ctranslate2

_DEFAULTS, _LIMITS = DecodingConfig(), ("max_extra_tokens", "max_length_ratio", "max_length")
_ALMOST_ZERO = 1e-9  # as length penalty |Y|^this is 1 in float32; with exactly 0, CTranslate2 ends searches early
_IMPOSSIBLE = -1e30  # CTranslate2's value for -inf is below this
_SENTENCES_AT_ONCE, _HYPOTHESES_AT_ONCE = 256, 512  # at most, on the CPU: the best size depends on its caches
_RUNNING_AT_ONCE = 2  # batches for each thread, so that no thread waits while Python ranks outputs
_TOKENS_SCORED = 1000  # in a batch: each token needs the scores of the complete vocabulary


class Output(NamedTuple):
    """An output of search."""

    tokens: list[int]  # without EOS
    log_probability: float  # includes EOS if the output has ended
    has_ended: bool  # with EOS; other outputs were cut at the length limit


Batch = list[tuple[int, list[Output]]]  # the index of each source in it, and its outputs
_RunningBatch = tuple[list[int], Sequence["ctranslate2.AsyncTranslationResult"]]  # the sources of a batch; its results


def load_package() -> Any:
    """The ctranslate2 package. Raises NmtError if it is not installed."""
    try:
        import ctranslate2
    except Exception as error:  # many types: a missing library, a damaged installation
        raise NmtError(f"CTranslate2 cannot be loaded ({error}): {install_command('ctranslate2')}") from None
    return ctranslate2


class CTranslate2Model:
    """A model on a device."""

    def __init__(self, vocabulary: Vocabulary, device: str, folder: Path):
        """folder: of the model, which is not needed afterwards; device: `cpu`, `cuda`, `cuda:N`, or `auto` for CUDA if
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
        self._has_shortlist = (folder / SHORTLIST).is_file()
        self.source_pieces = vocabulary.source.every_piece()
        self.target_pieces = vocabulary.target.every_piece()
        self.target_ids = {piece: i for i, piece in enumerate(self.target_pieces)}

    def uses_shortlist(self, source: SearchInput, options: SearchOptions) -> bool:
        """Whether only the subwords of a shortlist are computed. With scores all are: probabilities are those of the
        whole vocabulary, and computing them afterwards takes longer. So are they with terms, which a shortlist may
        lack, and with a prefix, which CTranslate2 4.8 looks up in the shortlist of an earlier batch."""
        is_text_only = not (options.scores or source.terms or source.start)
        return self._has_shortlist and options.decoding.shortlist == "auto" and is_text_only

    @property
    def compute_type(self) -> str:
        return str(self.translator.compute_type)

    def search(self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int) -> Iterator[Batch]:
        """The outputs of each source, batch by batch. K is the beam size. A search ends when K hypotheses have ended or
        reach the length limit of the batch; the K outputs with the highest log P are returned. There are none if the
        scores are not numbers.

        The search begins with this call and continues while the caller uses the batches. CTranslate2 gets only a few
        batches at a time, because the process cannot end before CTranslate2 has searched all that it has got.
        """
        most = None
        if self.translator.device == "cpu":
            most = max(1, min(_SENTENCES_AT_ONCE, _HYPOTHESES_AT_ONCE // options.decoding.beam_size))
        tokens = batch_tokens // (self.workers * options.decoding.beam_size)
        # A batch has one shortest length. It also has one longest length if the user's limits may be near the natural
        # length: CTranslate2 has one limit for a batch, so that other lines' outputs would be too long and be cut.
        has_own_limits = any(getattr(options.decoding, name) != getattr(_DEFAULTS, name) for name in _LIMITS)

        def limits(i: int) -> tuple[int, int, bool]:
            longest = sources[i].longest if has_own_limits else 0
            return sources[i].shortest, longest, self.uses_shortlist(sources[i], options)

        order = sorted(range(len(sources)), key=lambda i: (limits(i), -len(sources[i].ids)))
        batches = list[list[int]]()
        for _, group in groupby(order, key=limits):
            batches += token_batches(list(group), tokens, lambda i: len(sources[i].ids), most, self.workers)
        remaining = (self._begin(batch, sources, options) for batch in batches)
        running = deque(islice(remaining, _RUNNING_AT_ONCE * self.workers))
        return self._finish(running, remaining, len(sources[0].start) if sources else 0)

    def _source(self, ids: Sequence[int]) -> list[str]:
        """The subwords of a source."""
        return [self.source_pieces[i] for i in ids]

    def _target(self, ids: Sequence[int]) -> list[str]:
        """The subwords of a target."""
        return [self.target_pieces[i] for i in ids]

    def _begin(self, batch: list[int], sources: Sequence[SearchInput], options: SearchOptions) -> _RunningBatch:
        start, longest = len(sources[batch[0]].start), max(1, *(sources[i].longest for i in batch))
        results = self.translator.translate_batch(
            [self._source(sources[i].ids) for i in batch],
            [self._target(sources[i].start) for i in batch] if start else None,
            asynchronous=True,
            beam_size=options.decoding.beam_size,
            num_hypotheses=options.decoding.beam_size,
            length_penalty=_ALMOST_ZERO,
            suppress_sequences=[[self.target_pieces[token]] for token in options.never],
            max_input_length=0,
            min_decoding_length=start + sources[batch[0]].shortest,
            max_decoding_length=start + longest,
            return_end_token=True,
            use_vmap=self.uses_shortlist(sources[batch[0]], options),
            return_scores=options.decoding.beam_size > 1 or options.scores,
        )
        return batch, results

    def _finish(self, running: deque[_RunningBatch], remaining: Iterator[_RunningBatch], start: int) -> Iterator[Batch]:
        """The outputs of all batches. start: the number of prefix tokens in each output, which are removed."""
        while running:
            batch, pending = running.popleft()
            results = [future.result() for future in pending]
            running.extend(islice(remaining, 1))
            yield [(i, self._outputs(result, start)) for i, result in zip(batch, results, strict=True)]

    def _outputs(self, result: "ctranslate2.TranslationResult", start: int) -> list[Output]:
        outputs = list[Output]()
        for pieces, score in zip(result.hypotheses, result.scores or [0.0], strict=True):
            has_ended = pieces[-1:] == [self.target_pieces[EOS]]
            if score > _IMPOSSIBLE:  # NaN is not
                tokens = [self.target_ids[piece] for piece in pieces[start : len(pieces) - has_ended]]
                outputs.append(Output(tokens, score, has_ended))
        return outputs

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher."""
        results = self.translator.score_batch(
            [self._source(source) for source, _ in pairs],
            [self._target(target) for _, target in pairs],
            max_batch_size=min(batch_tokens, _TOKENS_SCORED),
            batch_type="tokens",
            max_input_length=0,
        )
        return [list(result.log_probs) for result in results]


def _device(package: Any, name: str) -> tuple[str, int]:
    """CTranslate2's device name and device index for --device."""
    count = package.get_cuda_device_count()
    if name == "auto":
        return "cuda" if count else "cpu", 0
    if not re.fullmatch(r"cpu|cuda(:[0-9]+)?", name):
        raise NmtError(f"--device {name}: CTranslate2 supports cpu, cuda, cuda:N and auto")
    kind, _, index = name.partition(":")
    if kind == "cuda" and int(index or 0) >= count:
        raise NmtError(f"--device {name}: CTranslate2 finds {count} CUDA devices here: choose another, or auto")
    return kind, int(index or 0)
