"""Decide which pairs of the training corpora are kept, and count the dropped pairs by reason."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import reader, schema
from nmt.data.cleaning.rules import judge
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.rules.near_duplicates import folded_hashes, hashes
from nmt.data.cleaning.score_survey import Bounds, Values
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.processes import mapped
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.normalization import as_read
from nmt.errors import NmtError
from nmt.machine import usable_cores

log = logging.getLogger("nmt")

FIRST_CHUNKS = 64  # cleaned before other processes start, because each of them takes seconds to start


class RawChunk(NamedTuple):
    """Pairs of one corpus as they were read."""

    corpus: int  # its number in data.train
    position: int  # of the chunk in its corpus
    pairs: list[Pair]
    scores: Mapping[str, Values]  # of the pairs [pairs], by name


class CleanChunk(NamedTuple):
    """The kept pairs of a chunk."""

    raw: RawChunk
    pairs: list[Pair]
    counts: CorpusCounts
    examples: DropExamples  # of dropped pairs
    ranks: Values = np.empty(0, np.float32)  # for `same_side`: higher is better [pairs]; [0]: the first is


class _Candidates(NamedTuple):
    """A chunk without empty pairs, and without copies and duplicates if the settings drop them."""

    raw: RawChunk
    indices: list[int]  # of the remaining pairs
    counts: CorpusCounts
    examples: DropExamples

    def pairs(self) -> list[Pair]:
        return [self.raw.pairs[i] for i in self.indices]


class _Job(NamedTuple):
    """A chunk of pairs and the rules for it, for another process."""

    pairs: Sequence[Pair]
    scores: Mapping[str, Values]  # [pairs], for the rules on scores
    clean: schema.CleaningConfig  # without bounds of scores
    languages: tuple[str, str]  # of source and target
    bounds: Bounds  # of the corpus's scores


class _Verdict(NamedTuple):
    """The result of the rules for a chunk."""

    kept: npt.NDArray[np.bool_]  # [pairs]
    dropped: dict[str, int]  # by each rule
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept, for finding near-duplicates


class Cleaner:
    """Decides which pairs are kept, chunk by chunk in the order of the corpora.

    A dropped pair counts for the first reason that applies: an empty side, data.drop_copies, data.drop_duplicates, the
    rules of data.clean, near-duplicates. Logs a warning for each language that the rules cannot check. Raises NmtError
    for a language code that they cannot use.
    """

    def __init__(self, data: schema.DataConfig, bounds: Sequence[Bounds]) -> None:
        """bounds: of the scores of each corpus."""
        self._data, self._bounds, self._choosing_score = data, bounds, data.choosing_score
        self._clean = data.clean and replace(data.clean.applied, scores=None)
        self._seen = seen_pairs(data) if data.drop_duplicates else None
        self._seen_folded = seen_pairs(data)  # by letters only, for near-duplicates
        for problem in not_checked(data):
            log.warning("%s", problem)

    def clean(self, chunks: Iterable[RawChunk]) -> Iterator[CleanChunk]:
        """Yield the kept pairs of each chunk."""
        clean, processes = self._clean, self._data.workers or usable_cores()
        without_repeats = map(self._without_repeats, chunks)
        if clean is None:
            for chunk in without_repeats:
                yield CleanChunk(chunk.raw, chunk.pairs(), chunk.counts, chunk.examples)
            return
        jobs = ((chunk, self._job(chunk, clean)) for chunk in without_repeats)
        for chunk, verdict in mapped(_verdict, jobs, processes, serial_first=FIRST_CHUNKS, task="applies data.clean"):
            pairs, rules = list(compress(chunk.pairs(), verdict.kept.tolist())), verdict.dropped
            kept = np.flatnonzero(verdict.kept)
            chunk.examples.merge(verdict.examples)
            if clean.near_duplicates:
                new = self._seen_folded[chunk.raw.corpus].add_hashes(verdict.hashes)
                chunk.examples.add_dropped("near_duplicates", list(compress(pairs, (~new).tolist())))
                pairs, kept = list(compress(pairs, new.tolist())), kept[new]
                rules = {**rules, "near_duplicates": int((~new).sum())}
            counts = chunk.counts + CorpusCounts(rules=rules)
            yield CleanChunk(chunk.raw, pairs, counts, chunk.examples, self._ranks(chunk, kept))

    def skip(self, chunk: RawChunk, kept: list[Pair]) -> CleanChunk:
        """Process the next chunk, of which an earlier preparation kept these pairs. It computes only the state that
        later chunks depend on."""
        candidates = self._without_repeats(chunk)
        if self._clean and self._clean.near_duplicates:
            self._seen_folded[chunk.corpus].add_hashes(folded_hashes(kept))
        return CleanChunk(chunk, kept, candidates.counts, candidates.examples)

    def _without_repeats(self, chunk: RawChunk) -> _Candidates:
        pairs, examples, remaining = chunk.pairs, DropExamples(), list(range(len(chunk.pairs)))

        def drop(reason: str, keeps: Iterable[bool]) -> int:
            """Keep some of the remaining pairs. Returns the number of dropped pairs."""
            nonlocal remaining
            before, kept = remaining, list(keeps)
            remaining = list(compress(before, kept))
            if len(remaining) < len(before):
                dropped = [pairs[i] for i, keep in zip(before, kept, strict=True) if not keep]
                examples.add_dropped(reason, dropped)
            return len(before) - len(remaining)

        empty, copies, duplicates = drop("empty", map(is_full, pairs)), 0, 0
        if self._data.drop_copies:
            copies = drop("drop_copies", [pairs[i][0] != pairs[i][1] for i in remaining])
        if self._seen is not None:
            new = self._seen[chunk.corpus].add([pairs[i] for i in remaining])
            duplicates = drop("drop_duplicates", new.tolist())
        return _Candidates(chunk, remaining, CorpusCounts(len(pairs), empty, copies, duplicates), examples)

    def _job(self, chunk: _Candidates, clean: schema.CleaningConfig) -> _Job:
        """The input of the rules."""
        corpus, bounds = chunk.raw.corpus, self._bounds[chunk.raw.corpus]
        scores = {bound.score: chunk.raw.scores[bound.score][chunk.indices] for bound in bounds}
        return _Job(chunk.pairs(), scores, clean, self._data.pair_of(self._data.train[corpus]), bounds)

    def _ranks(self, chunk: _Candidates, kept: npt.NDArray[np.int64]) -> Values:
        """See `CleanChunk`. kept: indices of candidates. A pair without a score comes after those with one."""
        if self._choosing_score is None:
            return np.empty(0, np.float32)
        name, sign = self._choosing_score
        scores = chunk.raw.scores.get(name, np.full(len(chunk.raw.pairs), np.nan, np.float32))
        return np.nan_to_num(sign * scores[chunk.indices][kept], nan=-np.inf)


def _verdict(job: _Job) -> _Verdict:
    """Apply the rules to a chunk. It runs in other processes."""
    rules, examples = _rules_of(job.clean, job.languages, job.bounds), DropExamples()
    judgement = judge.judge(job.pairs, rules, job.scores)
    examples.add(job.pairs, judgement)
    dropped = {rule.name: int((judgement.dropped_by == i).sum()) for i, rule in enumerate(judgement.rules)}
    kept = list(compress(job.pairs, judgement.kept.tolist()))
    hashes = folded_hashes(kept if job.clean.near_duplicates else [])
    return _Verdict(judgement.kept, dropped, examples, hashes)


_rules_of = cache(judge.rules_of)  # in each process, because rules cannot be pickled


def not_checked(data: schema.DataConfig) -> list[str]:
    """Messages on the languages that rules of data.clean cannot check. Raises NmtError for a language code that the
    rules cannot use."""
    if data.clean is None:
        return []
    pairs = dict.fromkeys(map(data.pair_of, data.train))
    lines = (judge.not_checked(judge.rules_of(data.clean, pair), pair) for pair in pairs)
    return list(dict.fromkeys(chain.from_iterable(lines)))  # each message once


def keeps(rows: list[tuple[str | None, str | None]], languages: tuple[str, str], clean: tuple[str, ...]) -> list[bool]:
    """See `nmt.keeps`."""
    pairs = [(source or "", target or "") for source, target in rows]
    kept, full = np.zeros(len(pairs), np.bool_), [i for i, pair in enumerate(pairs) if is_full(pair)]
    kept[full] = judge.judge([pairs[i] for i in full], _rules(languages, clean)).kept
    return kept.tolist()


@cache  # it is called for each batch of a text
def _rules(languages: tuple[str, str], clean: tuple[str, ...]) -> tuple[judge.Rule, ...]:
    """Logs a warning for each language that the rules cannot check. Raises NmtError if a rule cannot be used."""
    settings = reader.parse(schema.CleaningConfig, "{}", "clean", clean)
    for name in ("score", "scores", "same_source", "same_target"):
        if getattr(settings, name) is not None:
            raise NmtError(f"clean: {name}: needs more than the text of a pair: give it to data.clean instead")
    rules = judge.rules_of(settings, languages)
    for problem in judge.not_checked(rules, languages):
        log.warning("%s", problem)
    return rules


def without_empty(pairs: list[Pair]) -> list[Pair]:
    """The pairs with text on both sides. White space does not count as text."""
    return [pair for pair in pairs if is_full(pair)]


def is_full(pair: Pair) -> bool:
    """Whether both sides have text."""
    return bool(pair[0].strip() and pair[1].strip())


def hashes_of(pairs: list[Pair]) -> npt.NDArray[np.uint64]:
    """A hash of each pair [pairs]. Pairs that are equal to a model have the same hash: text is compared in NFC, without
    invisible characters that have no meaning, with single spaces. Case and punctuation make a difference."""
    return hashes("\n".join(map(as_read, pair)).encode("utf-8", "surrogatepass") for pair in pairs)


class SeenPairs:
    """A set of pairs that takes 8 to 20 bytes for each pair, a tenth of a Python set. It holds 8-byte hashes in sorted
    arrays whose sizes double. The probability that two of 10 million pairs have the same hash is 3e-6."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[np.uint64]] = []  # largest first

    def add(self, pairs: list[Pair]) -> npt.NDArray[np.bool_]:
        """Add pairs. Returns whether each pair is new: bool [pairs]."""
        return self.add_hashes(hashes_of(pairs))

    def add_hashes(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """As `add`, from the hashes of the pairs."""
        new = np.zeros(len(hashes), dtype=np.bool_)
        new[np.unique(hashes, return_index=True)[1]] = True  # the first of several equal pairs
        for array in self.arrays:
            positions = np.searchsorted(array, hashes).clip(max=len(array) - 1)
            new &= array[positions] != hashes
        added = np.sort(hashes[new])
        while self.arrays and len(self.arrays[-1]) <= len(added):
            added = np.concatenate((self.arrays.pop(), added))
            added.sort()
        if len(added):
            self.arrays.append(added)
        return new


def seen_pairs(data: schema.DataConfig) -> list[SeenPairs]:
    """The set of pairs for each training corpus. Corpora of the same languages share one set."""
    by_languages = {pair: SeenPairs() for pair in data.language_pairs.pairs}
    return [by_languages[data.pair_of(corpus)] for corpus in data.train]
