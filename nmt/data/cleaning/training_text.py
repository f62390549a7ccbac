"""The training corpora → cleaned text. It is made when it is first needed, and reused by its key."""

import logging
import math
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, count, groupby, islice
from pathlib import Path

from tqdm import tqdm

from nmt.config import schema, writer
from nmt.data.cleaning import cleaned_text
from nmt.data.cleaning.cleaned_text import CleanedText, find_kept, shard_name, shard_of, written
from nmt.data.cleaning.cleaner import CleanChunk, Cleaner, RawChunk
from nmt.data.cleaning.validation_overlap import Overlap, OverlapSearch, compared
from nmt.data.sources.corpus import Pair, read_pairs
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.text import content_key, read_lines

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
        self,
        data: schema.DataConfig,
        fingerprints: Sequence[str],
        store: Path,
        held_out: Sequence[Sequence[Pair]] = (),
    ) -> None:
        """fingerprints: of the corpora; it is an error if a corpus has another fingerprint when it is read. store: the
        folder for the text. held_out: the pairs of each validation set."""
        self.data, self.fingerprints, self.held_out, self._store = data, tuple(fingerprints), held_out, store
        # The overlap of each validation set with the text; None unless the text was cleaned by this object.
        self.overlaps: list[Overlap] | None = None

    @property
    def key(self) -> list[object]:
        """Everything that decides which pairs are in the text."""
        return [FORMAT, self.fingerprints, writer.affecting(self.data, "text")]

    @cached_property
    def cleaned(self) -> CleanedText:
        """The text, reused or made now. Raises NmtError as `read_pairs` does, and if a rule cannot be used."""
        folder = self._store / f"text-{content_key(self.key)}"
        if folder.exists():
            log.info("cleaned text: reused from %s", folder)
            return CleanedText.open(folder)
        start, unfinished = time.perf_counter(), self._store / f"{folder.name}.unfinished"
        with atomic.reporting(folder, "data.store_dir"):
            atomic.make_folder(unfinished)
        search = OverlapSearch(self.held_out, compared(self.data) if self.held_out else [])
        notes = [list[str]() for _ in self.data.train]
        with tqdm(desc="cleaning", unit=" pairs", unit_scale=True, disable=None, leave=False) as bar:
            for chunk in self._chunks(unfinished, notes):
                search.add(chunk.raw.corpus, chunk.pairs)
                bar.update(len(chunk.raw.pairs))
        self.overlaps = search.overlaps()
        text = cleaned_text.finish(unfinished, folder, notes)
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

    def _chunks(self, folder: Path, notes: Sequence[list[str]]) -> Iterator[CleanChunk]:
        """Yield all chunks. Chunks that are not in the folder yet are written."""
        cleaner, reused = Cleaner(self.data), set[str]()
        shards: Iterator[list[RawChunk]] = (list(chunks) for _, chunks in groupby(self._read(notes), shard_of))
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
        cleaner.report_unscored()

    def _read(self, notes: Sequence[list[str]]) -> Iterator[RawChunk]:
        for i, (corpus, expected) in enumerate(zip(self.data.train, self.fingerprints, strict=True)):
            pairs = read_pairs(corpus, self.data, "train", expected, notes[i])
            scores = _read_scores(Path(corpus.scores)) if corpus.scores else None
            for chunk_index in count():
                chunk = list(islice(pairs, cleaned_text.CHUNK_PAIRS))
                chunk_scores = None if scores is None else _next_scores(scores, len(chunk), corpus)
                if not chunk:
                    break
                yield RawChunk(i, chunk_index, chunk, chunk_scores)


def _read_scores(path: Path) -> Iterator[float]:
    """Yield the scores of a corpus's pairs from a file of `nmt score`: the last column of each line, log P(target |
    source) per subword. NaN stands for a pair that was too long for the model.

    Raises NmtError for a file that cannot be read, and for a line that does not end in a number."""
    for line_number, line in enumerate(read_lines(path), start=1):
        last = line.rpartition("\t")[2]
        try:
            score = float(last)
        except ValueError:
            score = math.inf
        if math.isinf(score):
            expected = "expected a score in the last column, as nmt score writes it in its text format"
            raise NmtError(f"{path}:{line_number}: {expected}; found {last[:40]!r}")
        yield score


def _next_scores(scores: Iterator[float], count: int, corpus: schema.Corpus) -> list[float]:
    """The scores of the next pairs of a corpus. count: their number; 0 at the end of the corpus. Raises NmtError if the
    file of scores has fewer or more lines than the corpus has pairs."""
    taken = list(islice(scores, max(1, count)))
    if len(taken) == count:
        return taken
    fewer = "fewer" if len(taken) < count else "more"
    raise NmtError(
        f"{corpus.scores}: has {fewer} lines than {corpus.label} has pairs: score the same text with nmt score again"
    )
