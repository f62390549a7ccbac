"""nmt's own search, by CTranslate2 where its result is the same, else by PyTorch. Loads PyTorch when needed.

Both keep 2K candidates a step, of which those among the K best that end are ended and the K best others live on, and
both stop when K have ended. So the same hypotheses end at the same step, with the same log P, but for rounding. What
differs in CTranslate2:

- More than K may end in the last step. Then it returns the K likeliest, and ours ranks all of them by score. `certain`
  finds out whether one that is not returned could matter.
- Outputs at the length limit are cut; ours end there with EOS, at its price. The limit is one for a batch; ours is each
  source's own. `_at_limit` searches such sources again.
- It can forbid a subword only before the softmax. The three that are never produced are divided instead:
  `nmt.checkpoints.ctranslate2_files`. A part must never be among the 2K candidates. So it is with every model that has
  learned a little; where it is not, and the part is not in an output, this cannot be seen. Everything else that forbids
  subwords is left to PyTorch: `DIFFERENT`.
- Its length penalty is |Y|^α, also for `gnmt`. It is not used: what has ended is ranked here.

A source whose result is not certain is searched by PyTorch.
"""

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING

from nmt.checkpoints import ctranslate2_files, export_folder
from nmt.checkpoints.model_file import Arrays
from nmt.config.schema import DecodingConfig
from nmt.data.vocabulary import BOS, EOS
from nmt.decoding.ctranslate2_model import CTranslate2Model, Output, penalties_for, unsupported
from nmt.decoding.interface import AUTO_BATCH_TOKENS, Engine, Pair, SearchInput
from nmt.decoding.search.options import Hypothesis, Options, length_penalties

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger("nmt")

# The settings of `decoding` that CTranslate2 treats otherwise: the values that do not use them, and what it does.
# With all others its results are identical: they concern the sources, the length limits, and how outputs are ranked.
DIFFERENT: dict[str, tuple[tuple[object, ...], str]] = {
    "method": (("beam",), "it draws other samples"),
    "coverage_penalty": ((0.0,), "it has another coverage penalty"),
    "min_length": ((0,), "it changes the probabilities of other subwords too"),
    "min_length_ratio": ((0.0,), "it changes the probabilities of other subwords too"),
    "no_repeat_ngram": ((None,), "it changes the probabilities of other subwords too"),
    "banned": (((),), "it cannot ban words"),
    "precision": (("model", "float32"), "it rounds differently"),
}
# Longer sources are left to PyTorch. A table for them would take seconds to write; of rotary positions, CTranslate2
# computes the angles in float32, so that scores differ the more the further a token is from the start.
_MOST_POSITIONS, _MOST_ROTARY_POSITIONS = 10_000, 512
_Outputs = Iterator[tuple[int, list[Output]]]  # of sources, by their numbers, while they are being searched
_WORKER_TOKENS = 8_000  # decoding.batch_tokens: auto, for each thread: smaller batches would take more time per token


def difference(decoding: DecodingConfig) -> str | None:
    """The first setting that CTranslate2 does not do identically, and why; None if there is none."""
    for key, (without, why) in DIFFERENT.items():
        if (value := getattr(decoding, key)) not in without:
            shown = f": {value}" if isinstance(value, int | float | str) else ""
            return f"decoding.{key}{shown}: CTranslate2 is not used: {why}"
    return None


def is_installed() -> bool:
    """Whether there is a package ctranslate2, without loading it."""
    try:
        found = find_spec("ctranslate2")
    except ValueError:  # an entry without a specification in sys.modules
        return False
    return found is not None and found.origin is not None  # a folder of this name, such as an export, has no origin


class ExactEngine:
    """A model file in CTranslate2, converted in memory, and for the rest PyTorch's engine, which `load` opens."""

    aligns, on_cuda = True, False

    def __init__(self, name: str, loaded: Arrays, decoding: DecodingConfig, load: Callable[[], Engine]):
        """On the CPU. name: of the file, in messages; decoding: the search that is planned, which decides how many
        positions are converted. Raises NmtError where the weights do not belong to the settings."""
        longest = decoding.longest_output(decoding.max_source_tokens or 0)
        model = loaded.config.model
        limit = model.longest_position
        self.positions = None if limit is None else limit - 1
        rotary = model.architecture == "transformer" and model.positions == "rotary"
        most = _MOST_ROTARY_POSITIONS if rotary else _MOST_POSITIONS
        self._longest = limit or min(max(longest + 1, export_folder.longest_position(loaded.config)), most)

        def files() -> dict[str, bytes]:
            parts = loaded.config, loaded.vocabulary, loaded.weights, self._longest
            return ctranslate2_files.model_files(*parts, divided=True)

        self.model = CTranslate2Model(name, loaded.vocabulary, "cpu", files)
        self._tried = self.model.begin_score(([EOS + 1], [EOS + 1]))
        self.auto_batch_tokens = max(AUTO_BATCH_TOKENS, _WORKER_TOKENS * self.model.workers)
        self.on_searched: Callable[[int], object] | None = None
        self._load = load

    @cached_property
    def pytorch(self) -> Engine:
        """PyTorch's engine, loaded when it is first needed."""
        return self._load()

    @cached_property
    def _has_numbers(self) -> bool:
        """Whether the scores are numbers: weights may be too large for that. Greedy search would not notice."""
        return all(map(math.isfinite, self._tried()))

    def search(self, sources: Sequence[SearchInput], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        """As nmt.decoding.interface.Searcher."""
        return self.begin_search(sources, options, batch_tokens)()

    def begin_search(
        self, sources: Sequence[SearchInput], options: Options, batch_tokens: int
    ) -> Callable[[], list[list[Hypothesis]]]:
        """As nmt.decoding.interface.Engine: CTranslate2's own threads search."""
        useless = unsupported(options) or vars(self).get("_has_numbers") is False  # is known once a search has ended
        plain = [] if useless else [i for i, source in enumerate(sources) if self._is_plain(source)]
        batches = self.model.batches(sources, plain, options, batch_tokens)
        begun = self.model.search(sources, batches, options)
        return partial(self._finish, sources, begun, options, batch_tokens)

    def _finish(
        self, sources: Sequence[SearchInput], begun: _Outputs, options: Options, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        """The hypotheses for each source, of which some are being searched."""
        self.model.on_searched = self.on_searched
        found: dict[int, list[Hypothesis]] = {}
        if self._has_numbers:
            rank = self._greedy if options.beam_size == 1 else self._beam
            found = rank(sources, begun, options, batch_tokens)
        if options.scores and options.token_scores:
            places = [(i, j) for i, each in found.items() for j, one in enumerate(each) if not one.token_scores]
            scored = self._scored([(sources[i].ids, found[i][j].tokens) for i, j in places], options, batch_tokens)
            for (i, j), hypothesis in zip(places, scored, strict=True):
                found[i][j] = hypothesis
        if rest := [i for i in range(len(sources)) if i not in found]:
            if "pytorch" not in vars(self):
                uncertain = "for sentences for which CTranslate2's result is not certain"
                log.info("search: also PyTorch, %s", uncertain if self._has_numbers else "as scores are not numbers")
            self.pytorch.on_searched = self.on_searched
            found |= zip(rest, self.pytorch.search([sources[i] for i in rest], options, batch_tokens), strict=True)
        return [found[i] for i in range(len(sources))]

    def _is_plain(self, source: SearchInput) -> bool:
        """Whether there is nothing special about a source, and there are enough positions."""
        special = source.prefix or source.required or source.shortest or not source.longest
        return not special and max(len(source.ids), source.longest) < self._longest

    def _greedy(
        self, sources: Sequence[SearchInput], begun: _Outputs, options: Options, batch_tokens: int
    ) -> dict[int, list[Hypothesis]]:
        """The output of each source whose search has begun, if its scores are numbers."""
        by_length = penalties_for(sources, options)
        found, cut = dict[int, list[Hypothesis]](), dict[int, list[int]]()
        for i, outputs in begun:
            if not are_known(outputs):
                continue
            [(tokens, log_p, ended)], longest = outputs, sources[i].longest
            if options.scores and not (ended and len(tokens) <= longest):
                cut[i] = tokens[:longest]
            else:
                found[i] = [Hypothesis.ended(tokens[:longest], log_p, by_length)]
        pairs = [(sources[i].ids, tokens) for i, tokens in cut.items()]
        return found | {i: [one] for i, one in zip(cut, self._scored(pairs, options, batch_tokens), strict=True)}

    def _beam(
        self, sources: Sequence[SearchInput], begun: _Outputs, options: Options, batch_tokens: int
    ) -> dict[int, list[Hypothesis]]:
        """The n best of each source whose search has begun, for which they are certain."""
        by_length = penalties_for(sources, options)
        found, last = dict[int, list[Hypothesis] | None](), dict[int, int]()
        unsure, limited = list[int](), list[int]()
        for i, outputs in begun:
            last[i] = max((len(tokens) for tokens, _, _ in outputs), default=0)
            if last[i] >= sources[i].longest:
                limited.append(i)
            elif best := certain(outputs, last[i], by_length, options.n_best):
                found[i] = best
            else:
                unsure.append(i)
        # With twice the patience twice as many are returned, some of which ended later.
        batches = self.model.batches(sources, unsure, options, batch_tokens)
        again = self.model.search(sources, batches, options, patience=2)
        found |= self._at_limit(sources, limited, options, batch_tokens)
        found |= {i: certain(outputs, last[i], by_length, options.n_best) for i, outputs in again}
        return {i: hypotheses for i, hypotheses in found.items() if hypotheses is not None}

    def _at_limit(
        self, sources: Sequence[SearchInput], which: Sequence[int], options: Options, batch_tokens: int
    ) -> dict[int, list[Hypothesis]]:
        """The n best of sources whose search reached the length limit, for which they are certain.

        Fewer than K have ended there, and nmt's search ends all K live hypotheses with EOS. With twice the patience
        CTranslate2 returns all that have ended, and the live ones among the K best. If these are K, they are all.
        """
        in_order = sorted(which, key=lambda i: sources[i].longest)
        batches = list[list[int]]()
        for _, same in groupby(in_order, key=lambda i: sources[i].longest):
            batches += self.model.batches(sources, list(same), options, batch_tokens)
        by_length = penalties_for((sources[i] for i in which), options)
        found, live = dict[int, list[Hypothesis]](), list[tuple[int, list[int]]]()
        for i, outputs in self.model.search(sources, batches, options, patience=2):
            living = [(i, tokens) for tokens, _, ended in outputs if not ended]
            if are_known(outputs) and len(living) == options.beam_size and len(outputs) < 2 * options.beam_size:
                found[i] = [Hypothesis.ended(tokens, log_p, by_length) for tokens, log_p, ended in outputs if ended]
                live += living
        scored = self._scored([(sources[i].ids, tokens) for i, tokens in live], options, batch_tokens)
        for (i, _), hypothesis in zip(live, scored, strict=True):
            found[i].append(hypothesis)
        return {i: sorted(each, key=lambda one: -one.score)[: options.n_best] for i, each in found.items()}

    def _scored(self, pairs: Sequence[Pair], options: Options, batch_tokens: int) -> list[Hypothesis]:
        """The targets as hypotheses with token scores."""
        scores = self.model.score(pairs, batch_tokens)
        by_length = length_penalties(max(map(len, scores), default=0), options)
        found = zip(pairs, scores, strict=True)
        return [Hypothesis.scored(target, token_scores, by_length) for (_, target), token_scores in found]

    def score(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[float]]:
        """As nmt.decoding.interface.Searcher."""
        longest = max((max(map(len, pair)) for pair in pairs), default=0)
        divided = any(token <= BOS for _, target in pairs for token in target)
        if divided or longest >= self._longest or not self._has_numbers:
            return self.pytorch.score(pairs, batch_tokens)
        return self.model.score(pairs, batch_tokens)

    def align(self, pairs: Sequence[Pair], batch_tokens: int) -> list[list[list[float]]]:
        """As nmt.decoding.interface.Engine."""
        return self.pytorch.align(pairs, batch_tokens)

    def encode(self, sources: Sequence[list[int]], batch_tokens: int) -> list["Tensor"]:
        """As nmt.decoding.interface.Engine."""
        return self.pytorch.encode(sources, batch_tokens)


def certain(outputs: Sequence[Output], last: int, by_length: Sequence[float], n_best: int) -> list[Hypothesis] | None:
    """The n best that nmt's own search finds, best first, without token scores; None if that is not certain.

    outputs: what CTranslate2 returned: the likeliest of what had ended, at least K; last: the most tokens before EOS of
    what had ended when there were K. That is the longest of the K likeliest: as fewer than K had ended before the last
    step, one of it is among them. by_length: the length penalties.
    """
    if not are_known(outputs):
        return None
    ended = [one for one in outputs if len(one[0]) <= last]
    ranked = sorted(ended, key=lambda one: -one[1] / by_length[len(one[0]) + 1])  # by score
    best = [Hypothesis.ended(tokens, log_p, by_length) for tokens, log_p, _ in ranked[:n_best]]
    # What was not returned is at most as likely as anything that was.
    least = min(log_p for _, log_p, _ in outputs)
    if len(best) < n_best or best[-1].score < least / by_length[last + 1]:
        return None
    return best


def are_known(outputs: Sequence[Output]) -> bool:
    """Whether there are outputs, without a part of a divided subword: the first part has its id, the others none."""
    return bool(outputs) and all(min(tokens, default=EOS) > BOS for tokens, _, _ in outputs)
