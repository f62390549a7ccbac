"""The text that is trained on: which pairs of the corpora are kept, and how many are dropped for each reason."""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain, compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from nmt.config import reader, schema, writer
from nmt.data import pair_scores
from nmt.data.corpus import Pair, read_pairs
from nmt.data.processes import mapped
from nmt.data.report import CorpusCounts
from nmt.data.rules import judge
from nmt.data.rules.examples import DropExamples
from nmt.data.rules.verdicts import Job, Verdict, verdict
from nmt.data.validation_overlap import Overlap, OverlapSearch, compared
from nmt.device import usable_cores
from nmt.errors import NmtError
from nmt.files.journal import Journal
from nmt.files.text import content_key

log = logging.getLogger("nmt")

FIRST_CHUNKS = 64  # cleaned before other processes start: each of those needs seconds to load what it needs
CHUNK_PAIRS = 4096  # pairs that are cleaned, encoded and written together: this bounds the memory


class Chunk(NamedTuple):
    """Pairs of one corpus."""

    corpus: int  # its number in data.train
    pairs: list[Pair]  # those kept
    counts: CorpusCounts  # of the pairs read for it


class Read(NamedTuple):
    """Pairs of one corpus as they were read."""

    corpus: int
    pairs: list[Pair]
    scores: list[float] | None  # of the pairs; None: the corpus has none


class Left(NamedTuple):
    """What is left of a chunk without the pairs that are empty, and copies and duplicates where those are dropped."""

    chunk: Read
    places: npt.NDArray[np.int64]  # of the pairs that are left
    counts: CorpusCounts

    @property
    def pairs(self) -> list[Pair]:
        return [self.chunk.pairs[place] for place in self.places]


class Decision(NamedTuple):
    """Which pairs of a chunk are kept."""

    bits: bytes  # one for each pair
    counts: CorpusCounts

    @classmethod
    def of(cls, places: npt.NDArray[np.int64], counts: CorpusCounts) -> "Decision":
        """places: of the pairs that are kept."""
        kept = np.zeros(counts.read, np.bool_)
        kept[places] = True
        return cls(np.packbits(kept).tobytes(), counts)

    def kept(self, pairs: list[Pair]) -> list[Pair]:
        return list(compress(pairs, np.unpackbits(np.frombuffer(self.bits, np.uint8), count=len(pairs)).tolist()))


@dataclass(frozen=True)
class TrainingText:
    """The training corpora. They are read each time that their chunks are iterated over; which pairs are kept is
    decided the first time, and remembered: a bit per pair."""

    data: schema.DataConfig
    fingerprints: tuple[str, ...]  # of the corpora: reading one with another fingerprint is an error
    held_out: Sequence[Sequence[Pair]] = ()  # the pairs of each validation set
    store: Path | None = None  # the folder where what the rules say is kept
    # Of what is dropped of each corpus, and what each validation set has in common with the pairs that are kept; empty
    # until all chunks were read.
    examples: list[DropExamples] = field(default_factory=list, init=False, compare=False)
    overlaps: list[Overlap] = field(default_factory=list, init=False, compare=False)
    notes: list[list[str]] = field(default_factory=list, init=False, compare=False)  # of each corpus, by `read_pairs`
    _decisions: list[Decision] = field(default_factory=list, init=False, compare=False)  # of each chunk

    @property
    def key(self) -> list[object]:
        """What decides which pairs there are."""
        return [self.fingerprints, writer.affecting(self.data, "text"), *([judge.FORMAT] if self.data.clean else [])]

    def chunks(self, progress: str) -> Iterator[Chunk]:
        """The pairs in their order. `progress` heads the progress bar. Raises NmtError as `read_pairs` does, and where
        a rule cannot be used."""
        with tqdm(desc=progress, unit=" pairs", unit_scale=True, disable=None, leave=False) as bar:
            for chunk in self._remembered() if self._decisions else self._decided():
                bar.update(chunk.counts.read)
                yield chunk

    def _decided(self) -> Iterator[Chunk]:
        cleaner, decisions = Cleaner(self.data, self._verdicts()), list[Decision]()
        notes = [list[str]() for _ in self.data.train]
        search = OverlapSearch(self.held_out, compared(self.data) if self.held_out else [])
        for corpus, pairs, decision in cleaner.decisions(self._read(with_scores=True, notes=notes)):
            decisions.append(decision)
            chunk = Chunk(corpus, decision.kept(pairs), decision.counts)
            search.add(corpus, chunk.pairs)
            yield chunk
        self._decisions[:], self.examples[:], self.overlaps[:] = decisions, cleaner.examples, search.overlaps()
        self.notes[:] = notes

    def _verdicts(self) -> Journal[Job, Verdict] | None:
        if self.store is None or self.data.clean is None:
            return None
        path = self.store / f"verdicts-{content_key(self.key)}"
        if path.exists() and path.stat().st_size:
            log.info("data.clean: decisions made before are reused from %s", path)
        return Journal(path, Job.digest, Verdict.pack, Verdict.unpack)

    def _remembered(self) -> Iterator[Chunk]:
        known = iter(self._decisions)
        for corpus, pairs, _ in self._read(with_scores=False):
            # A corpus that has become longer has none for its last chunks; `read_pairs` raises an error at its end.
            decision = next(known, Decision(b"", CorpusCounts()))
            yield Chunk(corpus, decision.kept(pairs), decision.counts)

    def _read(self, with_scores: bool, notes: Sequence[list[str]] | None = None) -> Iterator[Read]:
        for number, (corpus, expected) in enumerate(zip(self.data.train, self.fingerprints, strict=True)):
            pairs = read_pairs(corpus, self.data, "train", expected, None if notes is None else notes[number])
            scores = pair_scores.read_scores(Path(corpus.scores)) if corpus.scores and with_scores else None
            while True:
                chunk = list(islice(pairs, CHUNK_PAIRS))
                given = None if scores is None else pair_scores.next_scores(scores, len(chunk), corpus)
                if not chunk:
                    break
                yield Read(number, chunk, given)


class Cleaner:
    """Decides which pairs are kept, chunk by chunk in the order of the corpora. A pair that is dropped counts for the
    first reason: an empty side, data.drop_copies, data.drop_duplicates, the rules of data.clean, near-duplicates.

    Logs a warning for what the rules cannot check. Raises NmtError for a language code that they cannot use."""

    def __init__(self, data: schema.DataConfig, verdicts: Journal[Job, Verdict] | None = None) -> None:
        """verdicts: those of an earlier preparation; new ones are added."""
        self.data, self._verdicts = data, verdicts
        self.seen = seen_pairs(data) if data.drop_duplicates else None
        self.seen_folded = seen_pairs(data)  # by their letters alone
        self.examples = [DropExamples() for _ in data.train]  # of each corpus
        self._unscored = [0] * len(data.train)  # pairs of each corpus whose score is not a number
        for problem in not_checked(data):
            log.warning("%s", problem)

    def decisions(self, chunks: Iterable[Read]) -> Iterator[tuple[int, list[Pair], Decision]]:
        """The decision on each chunk, after its corpus and its pairs."""
        clean, processes = self.data.clean, self.data.workers or usable_cores()
        left = map(self._without_repeats, chunks)
        if clean is None:
            yield from ((chunk.corpus, chunk.pairs, Decision.of(places, counts)) for chunk, places, counts in left)
            return
        jobs = ((one, self._job(one, clean)) for one in left)
        judged = partial(mapped, verdict, processes=processes, alone=FIRST_CHUNKS, what="applies data.clean")
        for (chunk, places, counts), found in self._verdicts.results(jobs, judged) if self._verdicts else judged(jobs):
            kept, rules, examples = places[found.kept], found.dropped, self.examples[chunk.corpus]
            examples.merge(found.examples)
            if clean.near_duplicates:
                new = self.seen_folded[chunk.corpus].add_hashes(found.hashes)
                examples.add_dropped("near_duplicates", [chunk.pairs[place] for place in kept[~new]])
                kept, rules = kept[new], {**rules, "near_duplicates": int((~new).sum())}
            yield chunk.corpus, chunk.pairs, Decision.of(kept, counts + CorpusCounts(rules=rules))
        if clean.score is not None:
            self._report_unscored()

    def _without_repeats(self, chunk: Read) -> Left:
        pairs, examples, left = chunk.pairs, self.examples[chunk.corpus], list(range(len(chunk.pairs)))

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
        if self.data.drop_copies:
            copies = drop("drop_copies", [pairs[place][0] != pairs[place][1] for place in left])
        if self.seen is not None:
            duplicates = drop("drop_duplicates", self.seen[chunk.corpus].add([pairs[place] for place in left]).tolist())
        return Left(chunk, np.array(left, np.int64), CorpusCounts(len(pairs), empty, copies, duplicates))

    def _job(self, left: Left, clean: schema.CleaningConfig) -> Job:
        """What the rules are to look at."""
        scores = None if left.chunk.scores is None else np.array(left.chunk.scores, np.float32)[left.places]
        if scores is not None:
            self._unscored[left.chunk.corpus] += int(np.isnan(scores).sum())
        return Job(left.pairs, scores, clean, self.data.pair_of(self.data.train[left.chunk.corpus]))

    def _report_unscored(self) -> None:
        """Log how many pairs of each corpus have no score."""
        for corpus, unscored in zip(self.data.train, self._unscored, strict=True):
            if corpus.scores is None:
                log.warning("data.clean.score: %s has no scores: it is not checked", corpus.label)
            elif unscored:
                log.warning(
                    "data.clean.score: %s: pairs not checked, as their score is nan: %d", corpus.scores, unscored
                )


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
    found, places = np.zeros(len(pairs), np.bool_), [place for place, pair in enumerate(pairs) if is_full(pair)]
    found[places] = judge.judge([pairs[place] for place in places], _rules(languages, clean)).kept
    return found.tolist()


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
    """A hash of each pair [pairs]."""
    digests = [
        hashlib.blake2b("\n".join(pair).encode("utf-8", "surrogatepass"), digest_size=8).digest() for pair in pairs
    ]
    return np.frombuffer(b"".join(digests), dtype=np.uint64)


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
