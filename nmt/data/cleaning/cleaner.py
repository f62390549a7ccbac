"""Which pairs of the training corpora are kept, and how many are dropped for each reason."""

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, compress
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config import reader, schema
from nmt.data.cleaning.rules import judge
from nmt.data.cleaning.rules.examples import DropExamples
from nmt.data.cleaning.rules.near_duplicates import folded_hashes, hashes
from nmt.data.cleaning.summary import CorpusCounts
from nmt.data.processes import mapped
from nmt.data.sources.corpus import Pair
from nmt.data.subwords.normalization import as_read
from nmt.errors import NmtError
from nmt.machine import usable_cores

log = logging.getLogger("nmt")

FIRST_CHUNKS = 64  # cleaned before other processes start: each of those needs seconds to load what it needs


class RawChunk(NamedTuple):
    """Pairs of one corpus as they were read."""

    corpus: int  # its number in data.train
    number: int  # of the chunk in its corpus
    pairs: list[Pair]
    scores: list[float] | None  # of the pairs; None: the corpus has none


class CleanChunk(NamedTuple):
    """What is left of a chunk."""

    raw: RawChunk
    pairs: list[Pair]
    counts: CorpusCounts
    examples: DropExamples  # of what was dropped


class _Candidates(NamedTuple):
    """A chunk without the pairs that are empty, and copies and duplicates where those are dropped."""

    raw: RawChunk
    places: list[int]  # of the pairs that are left
    counts: CorpusCounts
    examples: DropExamples

    def pairs(self) -> list[Pair]:
        return [self.raw.pairs[place] for place in self.places]


class _Job(NamedTuple):
    """A chunk of pairs and the rules for it, for another process."""

    pairs: Sequence[Pair]
    scores: npt.NDArray[np.float32] | None  # [pairs], for the rule on scores
    clean: schema.CleaningConfig
    languages: tuple[str, str]  # of source and target


class _Verdict(NamedTuple):
    """What the rules say of a chunk."""

    kept: npt.NDArray[np.bool_]  # [pairs]
    dropped: dict[str, int]  # by each rule
    examples: DropExamples
    hashes: npt.NDArray[np.uint64]  # of the pairs kept, for finding near-duplicates


class Cleaner:
    """Decides which pairs are kept, chunk by chunk in the order of the corpora. A pair that is dropped counts for the
    first reason: an empty side, data.drop_copies, data.drop_duplicates, the rules of data.clean, near-duplicates.

    Logs a warning for what the rules cannot check. Raises NmtError for a language code that they cannot use."""

    def __init__(self, data: schema.DataConfig) -> None:
        self._data = data
        self._seen = seen_pairs(data) if data.drop_duplicates else None
        self._seen_folded = seen_pairs(data)  # by their letters alone
        self._unscored = [0] * len(data.train)  # pairs of each corpus whose score is not a number
        for problem in not_checked(data):
            log.warning("%s", problem)

    def clean(self, chunks: Iterable[RawChunk]) -> Iterator[CleanChunk]:
        """What is left of each chunk."""
        clean, processes = self._data.clean, self._data.workers or usable_cores()
        candidates = map(self._without_repeats, chunks)
        if clean is None:
            for left in candidates:
                yield CleanChunk(left.raw, left.pairs(), left.counts, left.examples)
            return
        jobs = ((left, self._job(left, clean)) for left in candidates)
        for left, judged in mapped(_verdict, jobs, processes, serial_first=FIRST_CHUNKS, what="applies data.clean"):
            pairs, rules = list(compress(left.pairs(), judged.kept.tolist())), judged.dropped
            left.examples.merge(judged.examples)
            if clean.near_duplicates:
                new = self._seen_folded[left.raw.corpus].add_hashes(judged.hashes)
                left.examples.add_dropped("near_duplicates", list(compress(pairs, (~new).tolist())))
                pairs = list(compress(pairs, new.tolist()))
                rules = {**rules, "near_duplicates": int((~new).sum())}
            yield CleanChunk(left.raw, pairs, left.counts + CorpusCounts(rules=rules), left.examples)

    def skip(self, chunk: RawChunk, kept: list[Pair]) -> CleanChunk:
        """The next chunk, of which an earlier preparation kept these pairs: only what later chunks depend on is
        computed."""
        left = self._without_repeats(chunk)
        if self._data.clean and self._data.clean.near_duplicates:
            self._seen_folded[chunk.corpus].add_hashes(folded_hashes(kept))
        return CleanChunk(chunk, kept, left.counts, left.examples)

    def _without_repeats(self, chunk: RawChunk) -> _Candidates:
        pairs, examples, left = chunk.pairs, DropExamples(), list(range(len(chunk.pairs)))

        def drop(reason: str, keeps: Iterable[bool]) -> int:
            """Keep some of the pairs that are left; returns how many are dropped."""
            nonlocal left
            before, kept = left, list(keeps)
            left = list(compress(before, kept))
            if len(left) < len(before):
                dropped = [pairs[place] for place, keep in zip(before, kept, strict=True) if not keep]
                examples.add_dropped(reason, dropped)
            return len(before) - len(left)

        empty, copies, duplicates = drop("empty", map(is_full, pairs)), 0, 0
        if self._data.drop_copies:
            copies = drop("drop_copies", [pairs[place][0] != pairs[place][1] for place in left])
        if self._seen is not None:
            new = self._seen[chunk.corpus].add([pairs[place] for place in left])
            duplicates = drop("drop_duplicates", new.tolist())
        scores = [] if chunk.scores is None else [chunk.scores[place] for place in left]
        numbers = [score for score in scores if not math.isnan(score)]
        self._unscored[chunk.corpus] += len(scores) - len(numbers)
        extremes = (min(numbers), max(numbers)) if numbers else None
        counts = CorpusCounts(len(pairs), empty, copies, duplicates, scores=extremes)
        return _Candidates(chunk, left, counts, examples)

    def _job(self, left: _Candidates, clean: schema.CleaningConfig) -> _Job:
        """What the rules are to look at."""
        scores = None if left.raw.scores is None else np.array(left.raw.scores, np.float32)[left.places]
        return _Job(left.pairs(), scores, clean, self._data.pair_of(self._data.train[left.raw.corpus]))

    def report_unscored(self) -> None:
        """Log how many pairs of each corpus have no score."""
        if self._data.clean is None or self._data.clean.score is None:
            return
        for corpus, unscored in zip(self._data.train, self._unscored, strict=True):
            if corpus.scores is None:
                log.warning("data.clean.score: %s has no scores: it is not checked", corpus.label)
            elif unscored:
                log.warning(
                    "data.clean.score: %s: pairs not checked, as their score is nan: %d", corpus.scores, unscored
                )


def _verdict(job: _Job) -> _Verdict:
    """What the rules say of a chunk. It runs in other processes."""
    judgement, examples = judge.judge(job.pairs, _rules_of(job.clean, job.languages), job.scores), DropExamples()
    examples.add(job.pairs, judgement)
    dropped = {rule.name: int((judgement.dropped_by == number).sum()) for number, rule in enumerate(judgement.rules)}
    kept = list(compress(job.pairs, judgement.kept.tolist()))
    hashes = folded_hashes(kept if job.clean.near_duplicates else [])
    return _Verdict(judgement.kept, dropped, examples, hashes)


_rules_of = cache(judge.rules_of)  # in each process, as rules cannot be sent to another


def not_checked(data: schema.DataConfig) -> list[str]:
    """What the rules of data.clean cannot check of the languages, one line each. Raises NmtError for a language code
    that they cannot use."""
    if data.clean is None:
        return []
    pairs = dict.fromkeys(map(data.pair_of, data.train))
    lines = (judge.not_checked(judge.rules_of(data.clean, pair), pair) for pair in pairs)
    return list(dict.fromkeys(chain.from_iterable(lines)))  # each is said once


def keeps(given: list[tuple[str | None, str | None]], languages: tuple[str, str], clean: tuple[str, ...]) -> list[bool]:
    """As `nmt.keeps`."""
    pairs = [(source or "", target or "") for source, target in given]
    kept, places = np.zeros(len(pairs), np.bool_), [place for place, pair in enumerate(pairs) if is_full(pair)]
    kept[places] = judge.judge([pairs[place] for place in places], _rules(languages, clean)).kept
    return kept.tolist()


@cache  # it is called for each batch of a text
def _rules(languages: tuple[str, str], clean: tuple[str, ...]) -> tuple[judge.Rule, ...]:
    """Logs a warning for what the rules cannot check. Raises NmtError where a rule cannot be used."""
    settings = reader.parse(schema.CleaningConfig, "{}", "clean", clean)
    if settings.score is not None:
        raise NmtError("clean: score: needs the scores of a model: give them to data.train, where the text is used")
    rules = judge.rules_of(settings, languages)
    for problem in judge.not_checked(rules, languages):
        log.warning("%s", problem)
    return rules


def without_empty(pairs: list[Pair]) -> list[Pair]:
    """The pairs with text on both sides; white space is no text."""
    return [pair for pair in pairs if is_full(pair)]


def is_full(pair: Pair) -> bool:
    """Whether both sides have text."""
    return bool(pair[0].strip() and pair[1].strip())


def hashes_of(pairs: list[Pair]) -> npt.NDArray[np.uint64]:
    """A hash of each pair [pairs], the same for pairs that a model reads as equal: in NFC, without invisible characters
    that mean nothing, with single spaces. Case and punctuation are different, as a model can learn them."""
    return hashes("\n".join(map(as_read, pair)).encode("utf-8", "surrogatepass") for pair in pairs)


class SeenPairs:
    """A set of pairs that takes 8 to 20 bytes for each, a tenth of a Python set: 8-byte hashes in sorted arrays whose
    sizes double. The probability that two of 10 million pairs have the same hash is 3e-6."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[np.uint64]] = []  # largest first

    def add(self, pairs: list[Pair]) -> npt.NDArray[np.bool_]:
        """Add the pairs; returns which of them are new: bool [pairs]."""
        return self.add_hashes(hashes_of(pairs))

    def add_hashes(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """The same for pairs that are given by their hashes."""
        new = np.zeros(len(hashes), dtype=np.bool_)
        new[np.unique(hashes, return_index=True)[1]] = True  # the first of those that are equal here
        for array in self.arrays:
            places = np.searchsorted(array, hashes).clip(max=len(array) - 1)
            new &= array[places] != hashes
        added = np.sort(hashes[new])
        while self.arrays and len(self.arrays[-1]) <= len(added):
            added = np.concatenate((self.arrays.pop(), added))
            added.sort()
        if len(added):
            self.arrays.append(added)
        return new


def seen_pairs(data: schema.DataConfig) -> list[SeenPairs]:
    """For each training corpus the set that its pairs are put into: one for all corpora of the same languages."""
    of_languages = {pair: SeenPairs() for pair in data.language_pairs.pairs}
    return [of_languages[data.pair_of(corpus)] for corpus in data.train]
