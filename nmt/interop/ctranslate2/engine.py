"""nmt's own search by CTranslate2, for a model file and for an exported folder. Loads PyTorch when needed.

Both keep 2K candidates a step, of which those among the K best that end are ended and the K best others live on, and
both stop when K have ended. So the same hypotheses end at the same step, with the same log P, but for rounding. What
differs in CTranslate2:

- More than K may end in the last step. Then it returns the K likeliest, and ours ranks all of them by score. `certain`
  finds out whether one that is not returned could matter.
- Outputs at the length limit are cut; ours end there with EOS, at its price. The limit is one for a batch; ours is each
  source's own. `_at_limit` searches such sources again.
- It can forbid a subword only before the softmax. In a model file, the three that are never produced are divided
  instead: `nmt.interop.ctranslate2.files`. A part must never be among the 2K candidates. So it is with every model
  that has learned a little; where it is not, and the part is not in an output, this cannot be seen. Without byte
  fallback, a model writes the unknown subword where it reads one: such sources are left to PyTorch. So is everything
  else that forbids subwords: `nmt.decoding.engine_support`.
- Its length penalty is |Y|^α, also for `gnmt`. It is not used: what has ended is ranked here.
- After a start of the output (`SearchInput.start`) a beam never ends with the empty output, unless it is the likeliest
  of all. `_ends_first` finds out where ours would.

A source whose result is not certain is searched by PyTorch. A folder has no other engine: there, what CTranslate2 does
not have is refused, and the best of what it has found is the result.
"""

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

from torch import Tensor

from nmt.checkpoints.model_file import Checkpoint
from nmt.config.schema import DecodingConfig, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS, UNK
from nmt.decoding.engine_protocol import AUTO_BATCH_TOKENS, Engine, Pair, SearchInput
from nmt.decoding.engine_support import ctranslate2_differs, not_in_folder
from nmt.decoding.search.options import Hypothesis, SearchOptions, best_first, length_penalties
from nmt.errors import NmtError
from nmt.interop import export_folder
from nmt.interop.ctranslate2 import files as ctranslate2_files
from nmt.interop.ctranslate2.model import CTranslate2Model, Output

log = logging.getLogger("nmt")

# Longer sources are left to PyTorch. A table for them would take seconds to write; of rotary positions, CTranslate2
# computes the angles in float32, so that scores differ the more the further a token is from the start.
_MOST_POSITIONS, _MOST_ROTARY_POSITIONS = 10_000, 512
_Outputs = Iterator[tuple[int, list[Output]]]  # of sources, by their numbers, while they are being searched
_WORKER_TOKENS = 8_000  # decoding.batch_tokens: auto, for each thread: smaller batches would take more time per token


class CTranslate2Engine:
    """A model in CTranslate2, and for the rest PyTorch's engine, or none."""

    def __init__(
        self,
        model: CTranslate2Model,
        positions: int | None,
        longest: float,
        load: Callable[[], Engine] | None,
        unknown: frozenset[int] = frozenset(),
    ):
        """positions: as nmt.decoding.engine_protocol.Searcher; longest: a source or an output must be shorter to be
        searched here; load: opens PyTorch's engine; None: what would be left to it is refused; unknown: subwords of
        sources that are left to it."""
        self._unknown = unknown
        self.model, self.positions, self._longest, self._load = model, positions, longest, load
        self.aligns, self.on_cuda = load is not None, model.translator.device == "cuda"
        self.auto_batch_tokens = max(AUTO_BATCH_TOKENS, _WORKER_TOKENS * model.workers)
        self.on_searched: Callable[[int], object] | None = None
        self._tried = model.begin_score(([EOS + 1], [EOS + 1]))

    @classmethod
    def of_model_file(
        cls, name: str, loaded: Checkpoint, decoding: DecodingConfig, load: Callable[[], Engine]
    ) -> "CTranslate2Engine":
        """On the CPU. name: of the file, in messages; decoding: the search that is planned, which decides how many
        positions are converted; load: opens PyTorch's engine. Raises NmtError where the weights do not belong to the
        settings."""
        start = loaded.config.data.language_pairs.tag_count(side=1)
        output = decoding.longest_output(decoding.max_source_tokens or 0) + start
        model = loaded.config.model
        limit = model.longest_position
        rotary = isinstance(model, TransformerConfig) and model.rotates
        most = _MOST_ROTARY_POSITIONS if rotary else _MOST_POSITIONS
        longest = limit or min(max(output + 1, export_folder.longest_position(loaded.config)), most)

        try:
            with TemporaryDirectory(prefix="nmt-", ignore_cleanup_errors=True) as folder:
                weights = {name: weight.float().numpy() for name, weight in loaded.weights.items()}
                parts = loaded.config, loaded.vocabulary, weights, longest
                ctranslate2_files.write(Path(folder), *parts, divided=True)
                opened = CTranslate2Model(loaded.vocabulary, "cpu", Path(folder))
        except OSError as error:
            raise NmtError(
                f"{error.filename or gettempdir()}: {error.strerror or error}: CTranslate2 reads the model from a "
                "temporary folder: free some space there, or set TMPDIR to another folder"
            ) from None
        except (RuntimeError, ValueError) as error:
            raise NmtError(f"{name}: CTranslate2 cannot load it: {error}") from None
        unknown = frozenset[int]() if loaded.vocabulary.target.has_bytes else _unknown(loaded)
        return cls(opened, None if limit is None else limit - 1, longest, load, unknown)

    @cached_property
    def pytorch(self) -> Engine:
        """PyTorch's engine, loaded when it is first needed."""
        assert self._load is not None
        return self._load()

    @cached_property
    def _has_numbers(self) -> bool:
        """Whether the scores are numbers: weights may be too large for that. Greedy search would not notice."""
        return all(map(math.isfinite, self._tried()))

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """As nmt.decoding.engine_protocol.Searcher. Raises NmtError for what is refused."""
        return self.begin_search(sources, options, batch_tokens)()

    def begin_search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """As nmt.decoding.engine_protocol.Engine: CTranslate2's own threads search. Raises NmtError for what is
        refused."""
        here = list(self._searched_here(sources, options))
        batches = self.model.batches(sources, here, options, batch_tokens)
        first, begun = self._ends_first(sources, batches, options), self._begin(sources, batches, options)
        return partial(self._finish, sources, first, begun, options, batch_tokens)

    def _searched_here(self, sources: Sequence[SearchInput], options: SearchOptions) -> Iterable[int]:
        """The sources that are not left to PyTorch."""
        if self._load is None:
            if refused := not_in_folder(options.decoding):
                raise NmtError(refused)
            if any(source.prefix or source.required for source in sources):
                raise NmtError("a CTranslate2 folder takes no prefix: leave it out, or translate with the model file")
            return (i for i, source in enumerate(sources) if source.longest)
        if (
            ctranslate2_differs(options.decoding) or vars(self).get("_has_numbers") is False
        ):  # is known once a search has ended
            return ()
        return (i for i, source in enumerate(sources) if self._is_plain(source))

    def _is_plain(self, source: SearchInput) -> bool:
        """Whether there is nothing special about a source, and there are enough positions."""
        special = source.prefix or source.required or source.shortest or not source.longest
        known, output = self._unknown.isdisjoint(source.ids), len(source.start) + source.longest
        return not special and known and max(len(source.ids), output) < self._longest

    def _begin(
        self,
        sources: Sequence[SearchInput],
        batches: list[list[int]],
        options: SearchOptions,
        patience: int = 1,
        most: int | None = None,
    ) -> _Outputs:
        never = options.never if self._load is None else ()  # in a model file they are divided
        return self.model.search(sources, batches, options, patience=patience, never=never, most=most)

    def _ends_first(
        self, sources: Sequence[SearchInput], batches: list[list[int]], options: SearchOptions
    ) -> Iterator[int]:
        """The sources of which EOS is among the K best first tokens, but not the best: there CTranslate2 writes a
        token that no output contains, with hardly any probability. The search for one token begins at once."""
        if self._load is None or options.decoding.beam_size == 1 or not any(source.start for source in sources):
            return iter(())
        begun = self._begin(sources, batches, options, most=1)
        return (i for i, outputs in begun if not are_known(outputs))

    def _finish(
        self,
        sources: Sequence[SearchInput],
        first: Iterator[int],
        begun: _Outputs,
        options: SearchOptions,
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source, of which some are being searched. first: of `_ends_first`."""
        self.model.on_searched = None
        left = set(first)
        self.model.on_searched = self.on_searched
        results: dict[int, list[Hypothesis]] = {}
        if self._has_numbers:
            rank = self._greedy if options.decoding.beam_size == 1 else self._beam
            results = rank(sources, begun, options, batch_tokens)
            results = {i: hypotheses for i, hypotheses in results.items() if i not in left}
            if self._load is None:  # CTranslate2 searches for one token at least
                empty = [i for i, source in enumerate(sources) if not source.longest]
                only = self._scored([(sources[i], []) for i in empty], options, batch_tokens)
                results |= {i: [hypothesis] for i, hypothesis in zip(empty, only, strict=True)}
        # What is forbidden before the softmax makes the others more probable than they are.
        if options.scores and (options.token_scores or self._load is None):
            self._score(sources, results, options, batch_tokens)
        rest = [i for i in range(len(sources)) if i not in results]
        if rest and self._load is not None:
            if "pytorch" not in vars(self):
                uncertain = "for sentences for which CTranslate2's result is not certain"
                log.info("search: also PyTorch, %s", uncertain if self._has_numbers else "as scores are not numbers")
            self.pytorch.on_searched = self.on_searched
            results |= zip(rest, self.pytorch.search([sources[i] for i in rest], options, batch_tokens), strict=True)
        return [results.get(i, []) for i in range(len(sources))]

    def _score(
        self,
        sources: Sequence[SearchInput],
        results: dict[int, list[Hypothesis]],
        options: SearchOptions,
        batch_tokens: int,
    ) -> None:
        """Put the model's own token scores into the hypotheses that have none."""
        places = [
            (i, j)
            for i, hypotheses in results.items()
            for j, hypothesis in enumerate(hypotheses)
            if not hypothesis.token_scores
        ]
        scored = self._scored([(sources[i], results[i][j].tokens) for i, j in places], options, batch_tokens)
        for (i, j), hypothesis in zip(places, scored, strict=True):
            results[i][j] = hypothesis
        if self._load is None:
            results |= {i: best_first(hypotheses) for i, hypotheses in results.items()}

    def _greedy(
        self, sources: Sequence[SearchInput], begun: _Outputs, options: SearchOptions, batch_tokens: int
    ) -> dict[int, list[Hypothesis]]:
        """The output of each source whose search has begun, if its scores are numbers."""
        by_length = _penalties(sources, options)
        results, cut = dict[int, list[Hypothesis]](), dict[int, list[int]]()
        for i, outputs in begun:
            if not are_known(outputs):
                continue
            [(tokens, log_p, ended)], longest = outputs, sources[i].longest
            if options.scores and not (ended and len(tokens) <= longest):
                cut[i] = tokens[:longest]
            else:
                results[i] = [Hypothesis.ended(tokens[:longest], log_p, by_length)]
        pairs = [(sources[i], tokens) for i, tokens in cut.items()]
        return results | {
            i: [hypothesis] for i, hypothesis in zip(cut, self._scored(pairs, options, batch_tokens), strict=True)
        }

    def _beam(
        self, sources: Sequence[SearchInput], begun: _Outputs, options: SearchOptions, batch_tokens: int
    ) -> dict[int, list[Hypothesis]]:
        """The n best of each source whose search has begun, for which they are certain; of a folder, for all."""
        by_length = _penalties(sources, options)
        results, last = dict[int, list[Hypothesis]](), dict[int, int]()
        unsure, limited = list[int](), list[int]()
        for i, outputs in begun:
            last[i] = max((len(tokens) for tokens, _, _ in outputs), default=0)
            if last[i] >= sources[i].longest:
                limited.append(i)
            elif best := certain(outputs, last[i], by_length, options.n_best):
                results[i] = best
            else:
                unsure.append(i)
        # With twice the patience twice as many are returned, some of which ended later.
        again = self._begin(sources, self.model.batches(sources, unsure, options, batch_tokens), options, patience=2)
        results |= self._at_limit(sources, limited, options, batch_tokens)
        for i, outputs in again:
            if best := certain(outputs, last[i], by_length, options.n_best):
                results[i] = best
            elif self._load is None:
                results[i] = ranked(outputs, last[i], by_length)[: options.n_best]
        return results

    def _at_limit(
        self, sources: Sequence[SearchInput], which: Sequence[int], options: SearchOptions, batch_tokens: int
    ) -> dict[int, list[Hypothesis]]:
        """The n best of sources whose search reached the length limit, for which they are certain; of a folder, for
        all.

        Fewer than K have ended there, and nmt's search ends all K live hypotheses with EOS. With twice the patience
        CTranslate2 returns all that have ended, and the live ones among the K best. If these are K, they are all.
        """
        in_order = sorted(which, key=lambda i: sources[i].longest)
        batches = list[list[int]]()
        for _, same in groupby(in_order, key=lambda i: sources[i].longest):
            batches += self.model.batches(sources, same, options, batch_tokens)
        by_length = _penalties((sources[i] for i in which), options)
        results, live = dict[int, list[Hypothesis]](), list[tuple[int, list[int]]]()
        for i, outputs in self._begin(sources, batches, options, patience=2):
            ended = [Hypothesis.ended(tokens, log_p, by_length) for tokens, log_p, ended in outputs if ended]
            living = [(i, tokens) for tokens, _, ended in outputs if not ended]
            all_known = len(living) == options.decoding.beam_size and len(outputs) < 2 * options.decoding.beam_size
            if are_known(outputs) and (all_known or self._load is None):
                results[i] = ended
                live += living
        if self._load is None:  # then those that have ended compete with scores of the same kind
            self._score(sources, results, options, batch_tokens)
        scored = self._scored([(sources[i], tokens) for i, tokens in live], options, batch_tokens)
        for (i, _), hypothesis in zip(live, scored, strict=True):
            results[i].append(hypothesis)
        return {i: best_first(hypotheses)[: options.n_best] for i, hypotheses in results.items()}

    def _scored(
        self, outputs: Sequence[tuple[SearchInput, list[int]]], options: SearchOptions, batch_tokens: int
    ) -> list[Hypothesis]:
        """Outputs of sources as hypotheses with token scores."""
        scores = self.model.score([source.pair(tokens) for source, tokens in outputs], batch_tokens)
        by_length = length_penalties(max(map(len, scores), default=0), options.decoding)
        found = zip(outputs, scores, strict=True)
        return [Hypothesis.scored(tokens, each[len(source.start) :], by_length) for (source, tokens), each in found]

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.engine_protocol.Searcher."""
        longest = max((max(map(len, pair)) for pair in pairs), default=0)
        divided = any(token <= BOS for _, target in pairs for token in target)
        if self._load is not None and (divided or longest >= self._longest or not self._has_numbers):
            return self.pytorch.score(pairs, batch_tokens)
        return self.model.score(pairs, batch_tokens)

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        """As nmt.decoding.engine_protocol.Engine. Raises NmtError for a folder: CTranslate2 returns attention only from
        a search, and of other heads."""
        if self._load is None:
            raise NmtError("a CTranslate2 folder gives no alignment: use the model file")
        return self.pytorch.align(pairs, batch_tokens)

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list[Tensor]:
        """As nmt.decoding.engine_protocol.Engine. Raises NmtError for a folder: CTranslate2 does not return it."""
        if self._load is None:
            raise NmtError("a CTranslate2 folder gives no encoder output: use the model file")
        return self.pytorch.encode(sources, batch_tokens)


def _unknown(loaded: Checkpoint) -> frozenset[int]:
    """The subwords of the source that are unknown to the model: it cannot tell them from the unknown one."""
    weights = loaded.weights
    table = weights.get("source_embedding.weight", weights.get("target_embedding.weight"))
    if table is None:  # `ctranslate2_files.write` says what is missing
        return frozenset()
    rows = table.float().numpy()
    return frozenset((rows == rows[UNK]).all(axis=1).nonzero()[0].tolist())


def _penalties(sources: Iterable[SearchInput], options: SearchOptions) -> list[float]:
    """The length penalties of all outputs that these sources can have."""
    return length_penalties(max((source.longest for source in sources), default=0) + 1, options.decoding)


def certain(outputs: Sequence[Output], last: int, by_length: Sequence[float], n_best: int) -> list[Hypothesis] | None:
    """The n best that nmt's own search finds, best first, without token scores; None if that is not certain.

    outputs: what CTranslate2 returned: the likeliest of what had ended, at least K; last: the most tokens before EOS of
    what had ended when there were K. That is the longest of the K likeliest: as fewer than K had ended before the last
    step, one of it is among them. by_length: the length penalties.
    """
    if not are_known(outputs):
        return None
    best = ranked(outputs, last, by_length)[:n_best]
    # Every output not returned is no likelier than these.
    least = min(log_p for _, log_p, _ in outputs)
    if len(best) < n_best or best[-1].score < least / by_length[last + 1]:
        return None
    return best


def ranked(outputs: Sequence[Output], last: int, by_length: Sequence[float]) -> list[Hypothesis]:
    """The outputs of at most `last` tokens before EOS, best first, without token scores."""
    return best_first(Hypothesis.ended(tokens, log_p, by_length) for tokens, log_p, _ in outputs if len(tokens) <= last)


def are_known(outputs: Sequence[Output]) -> bool:
    """Whether there are outputs, without a part of a divided subword: the first part has its id, the others none."""
    return bool(outputs) and all(min(tokens, default=EOS) > BOS for tokens, _, _ in outputs)
