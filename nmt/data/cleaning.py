"""The text that is trained on: which pairs of the corpora are kept, and how many are dropped for each reason."""

import hashlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from nmt.config import reader, schema
from nmt.data import pair_scores
from nmt.data.corpus import Pair, read_pairs
from nmt.data.report import CorpusCounts
from nmt.data.rules import judge
from nmt.data.rules.examples import DropExamples
from nmt.data.rules.near_duplicates import folded_hashes
from nmt.data.validation_overlap import Overlap, OverlapSearch

log = logging.getLogger("nmt")

CHUNK_PAIRS = 4096  # pairs that are cleaned, encoded and written together: this bounds the memory


class Chunk(NamedTuple):
    """Pairs of one corpus."""

    corpus: int  # its number in data.train
    pairs: list[Pair]  # those kept
    counts: CorpusCounts  # of the pairs read for it


class Decision(NamedTuple):
    """Which pairs of a chunk are kept."""

    bits: bytes  # one for each pair
    counts: CorpusCounts

    def kept(self, pairs: list[Pair]) -> list[Pair]:
        return list(compress(pairs, np.unpackbits(np.frombuffer(self.bits, np.uint8), count=len(pairs)).tolist()))


@dataclass(frozen=True)
class TrainingText:
    """The training corpora. They are read each time that their chunks are iterated over; which pairs are kept is
    decided the first time, and remembered: a bit per pair."""

    data: schema.DataConfig
    fingerprints: tuple[str, ...]  # of the corpora: reading one with another fingerprint is an error
    held_out: Sequence[Sequence[Pair]] = ()  # the pairs of each validation set
    # Of what is dropped of each corpus, and what each validation set has in common with the pairs that are kept; empty
    # until all chunks were read.
    examples: list[DropExamples] = field(default_factory=list, init=False, compare=False)
    overlaps: list[Overlap] = field(default_factory=list, init=False, compare=False)
    _decisions: list[Decision] = field(default_factory=list, init=False, compare=False)  # of each chunk

    @property
    def key(self) -> list[object]:
        """What decides which pairs there are."""
        data = self.data
        rules = [judge.FORMAT, reader.to_dict(data.clean)] if data.clean else []
        names = data.source_language, data.target_language
        return [self.fingerprints, *names, data.drop_copies, data.drop_duplicates, *rules]

    def chunks(self, progress: str) -> Iterator[Chunk]:
        """The pairs in their order. `progress` heads the progress bar. Raises NmtError as `read_pairs` does, and where
        a rule cannot be used."""
        cleaner = None if self._decisions else Cleaner(self.data)
        search = OverlapSearch(self.held_out, len(self.data.train))
        decided, known = list[Decision](), iter(self._decisions)
        with tqdm(desc=progress, unit=" pairs", unit_scale=True, disable=None, leave=False) as bar:
            for corpus, pairs, scores in self._read(with_scores=cleaner is not None):
                bar.update(len(pairs))
                if cleaner:
                    decision = cleaner.decide(corpus, pairs, scores)
                    decided.append(decision)
                else:  # `read_pairs` raises an error at the end of a corpus that has become longer
                    decision = next(known, Decision(b"", CorpusCounts()))
                kept = decision.kept(pairs)
                if cleaner:
                    search.add(corpus, kept)
                yield Chunk(corpus, kept, decision.counts)
        if cleaner:
            cleaner.report_unscored()
            self._decisions[:], self.examples[:], self.overlaps[:] = decided, cleaner.examples, search.overlaps()

    def _read(self, with_scores: bool) -> Iterator[tuple[int, list[Pair], list[float] | None]]:
        """Chunks of pairs: the number of the corpus, the pairs, and their scores if the corpus has some."""
        for number, (corpus, expected) in enumerate(zip(self.data.train, self.fingerprints, strict=True)):
            pairs = read_pairs(corpus, self.data, "train", expected)
            scores = pair_scores.read_scores(Path(corpus.scores)) if corpus.scores and with_scores else None
            while True:
                chunk = list(islice(pairs, CHUNK_PAIRS))
                given = None if scores is None else pair_scores.next_scores(scores, len(chunk), corpus)
                if not chunk:
                    break
                yield number, chunk, given


class Cleaner:
    """Decides which pairs are kept, chunk by chunk in the order of the corpora. A pair that is dropped counts for the
    first reason: an empty side, data.drop_copies, data.drop_duplicates, the rules of data.clean, its near-duplicates.

    Logs a warning for what the rules cannot check. Raises NmtError for a language code that they cannot use."""

    def __init__(self, data: schema.DataConfig) -> None:
        self.data, clean = data, data.clean
        languages = data.source_language, data.target_language
        self.rules = judge.rules_of(clean, languages) if clean else ()
        self.seen = SeenPairs() if data.drop_duplicates else None
        self.seen_folded = SeenPairs() if clean and clean.near_duplicates else None
        self.examples = [DropExamples() for _ in data.train]  # of each corpus
        self._unscored = [0] * len(data.train)  # pairs of each corpus whose score is not a number
        for problem in judge.not_checked(self.rules, languages):
            log.warning("%s", problem)

    def decide(self, corpus: int, pairs: list[Pair], scores: Sequence[float] | None = None) -> Decision:
        """corpus: its number. scores: of the pairs, for data.clean.score."""
        left = list(range(len(pairs)))

        def drop(reason: str, keeps: Iterable[bool]) -> int:
            """Keep some of the pairs that are left; returns how many are dropped."""
            nonlocal left
            kept = list(keeps)
            dropped = [pairs[place] for place, keep in zip(left, kept, strict=True) if not keep]
            left = list(compress(left, kept))
            self.examples[corpus].add_dropped(reason, dropped)
            return len(dropped)

        empty, copies, duplicates = drop("empty", map(is_full, pairs)), 0, 0
        if self.data.drop_copies:
            copies = drop("drop_copies", (pairs[place][0] != pairs[place][1] for place in left))
        if self.seen is not None:
            duplicates = drop("drop_duplicates", self.seen.add([pairs[place] for place in left]).tolist())
        places, rules = np.array(left, np.int64), dict[str, int]()
        if self.data.clean:
            given = None if scores is None else np.array(scores, np.float32)[places]
            fine, rules = self._apply_rules(corpus, [pairs[place] for place in left], given)
            places = places[fine]
        kept = np.zeros(len(pairs), np.bool_)
        kept[places] = True
        return Decision(np.packbits(kept).tobytes(), CorpusCounts(len(pairs), empty, copies, duplicates, rules=rules))

    def _apply_rules(
        self, corpus: int, pairs: list[Pair], scores: npt.NDArray[np.float32] | None
    ) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
        """Which pairs the rules of data.clean keep, and how many each of them drops."""
        judgement, examples = judge.judge(pairs, self.rules, scores), self.examples[corpus]
        examples.add(pairs, judgement)
        dropped = {rule.name: int((judgement.dropped_by == number).sum()) for number, rule in enumerate(self.rules)}
        kept = judgement.kept
        if scores is not None:
            self._unscored[corpus] += int(np.isnan(scores).sum())
        if self.seen_folded is not None:
            left = np.flatnonzero(kept)
            again = left[~self.seen_folded.add_hashes(folded_hashes([pairs[place] for place in left]))]
            examples.add_dropped("near_duplicates", [pairs[place] for place in again])
            kept[again], dropped["near_duplicates"] = False, len(again)
        return kept, dropped

    def report_unscored(self) -> None:
        """Log how many pairs of each corpus have no score, if there is a rule on scores."""
        if self.data.clean is None or self.data.clean.score is None:
            return
        for corpus, unscored in zip(self.data.train, self._unscored, strict=True):
            if corpus.scores is None:
                log.warning("data.clean.score: %s has no scores: it is not checked", corpus.label)
            elif unscored:
                what = f"{unscored:,} pairs have the score nan"
                log.warning("data.clean.score: %s: %s: they are not checked", corpus.scores, what)


def without_empty(pairs: list[Pair]) -> list[Pair]:
    """The pairs with text on both sides; white space is no text."""
    return [pair for pair in pairs if is_full(pair)]


def is_full(pair: Pair) -> bool:
    """Whether both sides have text."""
    return bool(pair[0].strip() and pair[1].strip())


def count_repeats(pairs: list[Pair], seen: "SeenPairs | None") -> CorpusCounts:
    """Counts copies and duplicates among pairs that are kept. seen: None if duplicates were dropped before."""
    copies = sum(source == target for source, target in pairs)
    return CorpusCounts(kept_copies=copies, kept_duplicates=0 if seen is None else int((~seen.add(pairs)).sum()))


class SeenPairs:
    """A set of pairs that takes 8 to 16 bytes for each, a tenth of a Python set: 8-byte hashes in sorted arrays whose
    sizes double. The probability that two of 10 million pairs have the same hash is 3e-6."""

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[np.uint64]] = []  # largest first

    def add(self, pairs: list[Pair]) -> npt.NDArray[np.bool_]:
        """Add the pairs; returns which of them are new: bool [pairs]."""
        if not pairs:
            return np.zeros(0, dtype=np.bool_)
        digests = [hashlib.blake2b("\n".join(pair).encode(), digest_size=8).digest() for pair in pairs]
        return self.add_hashes(np.frombuffer(b"".join(digests), dtype=np.uint64))

    def add_hashes(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """The same for pairs that are given by their hashes."""
        new = np.zeros(len(hashes), dtype=np.bool_)
        new[np.unique(hashes, return_index=True)[1]] = True  # the first of those that are equal here
        for array in self.arrays:
            places = np.searchsorted(array, hashes).clip(max=len(array) - 1)
            new &= array[places] != hashes
        added = np.sort(hashes[new])
        while self.arrays and len(self.arrays[-1]) <= len(added):
            added = np.sort(np.concatenate((self.arrays.pop(), added)), kind="stable")  # merges sorted arrays
        if len(added):
            self.arrays.append(added)
        return new
