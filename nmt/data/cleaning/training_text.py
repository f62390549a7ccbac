"""The training corpora → cleaned text. It is made when it is first needed, and reused by its key."""

import logging
import shutil
import time
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, count, groupby, islice
from pathlib import Path

import numpy as np
from tqdm import tqdm

from nmt.config import schema, writer
from nmt.data.cleaning import cleaned_text
from nmt.data.cleaning.cleaned_text import CleanedText, find_kept, shard_name, shard_of, written
from nmt.data.cleaning.cleaner import CleanChunk, Cleaner, RawChunk
from nmt.data.cleaning.same_side import write_chosen
from nmt.data.cleaning.score_survey import Bounds, Survey, bounds_of, not_scored, survey
from nmt.data.cleaning.validation_overlap import Overlap, OverlapSearch, compared
from nmt.data.sources.corpus import Pair, read_pairs
from nmt.data.sources.pair_scores import next_scores, open_scores
from nmt.files import atomic
from nmt.files.text import content_key

log = logging.getLogger("nmt")

# Part of all names in the store. Increase it when the same text and settings give another result or another file
# format. Stored data is then made again.
FORMAT = 1


class TrainingText:
    """The corpora of data.train.

    Interrupted cleaning continues after the last complete shard. For this, the corpora are read from their beginning,
    because dropped pairs depend on earlier pairs. But only text that has changed, and the text after it, is cleaned
    again."""

    def __init__(
        self, data: schema.DataConfig, fingerprints: Sequence[str], store: Path, held_out: Sequence[Sequence[Pair]] = ()
    ) -> None:
        """fingerprints: of the corpora; it is an error if a corpus has another fingerprint when it is read. store: the
        folder for the text. held_out: the pairs of each validation set."""
        self.data, self.fingerprints, self.held_out, self._store = data, tuple(fingerprints), held_out, store
        # The overlap of each validation set with the text; None unless the text was cleaned by this object.
        self.overlaps: list[Overlap] | None = None

    @property
    def key(self) -> list[object]:
        """Everything that decides which pairs are in the text."""
        bounds = (self.data.clean and self.data.clean.scores) or {}  # their order counts, which mappings lose in keys
        return [FORMAT, self.fingerprints, writer.affecting(self.data, "text"), *bounds]

    @cached_property
    def cleaned(self) -> CleanedText:
        """The text, reused or made now. Raises NmtError as `read_pairs` does, and if a rule cannot be used."""
        folder = self._store / f"text-{content_key(self.key)}"
        start, unfinished = time.perf_counter(), self._store / f"{folder.name}.unfinished"
        if folder.exists():
            log.info("cleaned text: reused from %s", folder)
            shutil.rmtree(unfinished, ignore_errors=True)  # if it was killed after `same_side`
            return CleanedText.open(folder)
        surveys, bounds = zip(*self._surveyed(), strict=True)
        with atomic.reporting(folder, "data.store_dir"):
            atomic.make_folder(unfinished)
        search = OverlapSearch(self.held_out, compared(self.data) if self.held_out else [])
        notes = [list[str]() for _ in self.data.train]
        with tqdm(desc="cleaning", unit=" pairs", unit_scale=True, disable=None, leave=False) as bar:
            for chunk in self._chunks(unfinished, notes, bounds):
                search.add(chunk.raw.corpus, chunk.pairs)
                bar.update(len(chunk.raw.pairs))
        clean = self.data.clean or schema.CleaningConfig()
        for message in chain.from_iterable(map(partial(not_scored, clean), self.data.train, surveys)):
            log.warning("%s", message)
        with atomic.reporting(folder, "data.store_dir"):
            cleaned_text.complete(unfinished, notes, surveys)
            if clean.same_source or clean.same_target:  # the overlap is found in what these leave
                with atomic.new_folder(folder) as chosen:
                    write_chosen(CleanedText.open(unfinished), self.data, clean, chosen)
                    cleaned_text.complete(chosen, notes, surveys)
                shutil.rmtree(unfinished)
            else:
                self.overlaps = search.overlaps()
                unfinished.rename(folder)
        text = CleanedText.open(folder)
        read, kept = (sum(getattr(counts, name) for counts in text.counts) for name in ("read", "kept"))
        seconds = time.perf_counter() - start
        log.info("cleaned text: %s of %s pairs kept in %s (%.1f s)", f"{kept:,}", f"{read:,}", folder, seconds)
        return text

    def find_overlaps(self) -> list[Overlap]:
        """The overlap of each validation set with the text."""
        text = self.cleaned
        if self.overlaps is None and self.held_out:
            search = OverlapSearch(self.held_out, compared(self.data))
            for corpus, pairs in text.chunks():
                search.add(corpus, pairs)
            self.overlaps = search.overlaps()
        return self.overlaps or []

    def _surveyed(self) -> Iterator[tuple[dict[str, Survey], Bounds]]:
        """For each corpus its scores by name, and the rules on them. Corpora with scores are read to their end for
        this, so that wrong scores are an error before any work. Memory: 4 bytes for each score of a corpus."""
        for i, corpus in enumerate(self.data.train):
            parts = [chunk.scores for chunk in self._read(i, [])] if corpus.scores else []
            scores = {name: np.concatenate([part[name] for part in parts]) for name in corpus.named_scores}
            own = {name: survey(values) for name, values in scores.items()}
            yield own, bounds_of(self.data.clean or schema.CleaningConfig(), scores)

    def _chunks(self, folder: Path, notes: Sequence[list[str]], bounds: Sequence[Bounds]) -> Iterator[CleanChunk]:
        """Yield all chunks. Chunks that are not in the folder yet are written."""
        cleaner, reused = Cleaner(self.data, bounds), set[str]()
        read = chain.from_iterable(self._read(i, own) for i, own in enumerate(notes))
        shards: Iterator[list[RawChunk]] = (list(chunks) for _, chunks in groupby(read, shard_of))
        for chunks in shards:
            kept = find_kept(folder, chunks)
            if kept is None:
                shards = chain([chunks], shards)
                break
            if not reused:
                log.info("cleaned text: text cleaned before is reused from %s", folder)
            reused.add(shard_name(*shard_of(chunks[0])))
            for raw, pairs in zip(chunks, kept, strict=True):
                yield cleaner.skip(raw, pairs)
        with atomic.reporting(folder, "data.store_dir"):
            for path in folder.glob("[0-9]*-*.*"):
                if path.stem not in reused:  # it was made after other text
                    path.unlink()
        cleaned = cleaner.clean(chain.from_iterable(shards))
        for _, shard_chunks in groupby(cleaned, lambda chunk: shard_of(chunk.raw)):
            yield from written(folder, shard_chunks)

    def _read(self, i: int, notes: list[str]) -> Iterator[RawChunk]:
        corpus = self.data.train[i]
        pairs = read_pairs(corpus, self.data, "train", self.fingerprints[i], notes)
        scores = open_scores(corpus, self.data)
        for chunk_index in count():
            chunk = list(islice(pairs, cleaned_text.CHUNK_PAIRS))
            chunk_scores = next_scores(scores, len(chunk), corpus)
            if not chunk:
                break
            yield RawChunk(i, chunk_index, chunk, chunk_scores)
