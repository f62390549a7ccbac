"""Chunks of lines that are translated together, and counts of the lines."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import islice, repeat
from typing import TypeVar

from nmt.decoding.engine_protocol import Engine
from nmt.decoding.engine_support import SETTINGS
from nmt.decoding.term_counts import TermCounts
from nmt.errors import NmtError

log = logging.getLogger("nmt")

T = TypeVar("T")
U = TypeVar("U")

CHUNK_LINES = 5000  # lines that are read, sorted by length and translated together on a CPU
_CHARACTERS = 500  # per line: a chunk with more characters ends early, so that long lines do not fill the memory


@dataclass
class LineCounts:
    """Counts of the lines read."""

    lines: int = 0
    empty: int = 0
    cut: int = 0
    skipped: int = 0
    split: int = 0
    several: int = 0  # split lines that are short enough for the model, but have several sentences
    parts: int = 0  # parts of the split lines
    unconstrained: int = 0  # lines or parts translated again without the settings that excluded all their outputs
    restored: int = 0  # lines whose translations lacked protected text (decoding.keep)
    prefixes: int = 0  # prefixes that the vocabulary changes
    terms: TermCounts | None = None  # of a glossary

    def __post_init__(self) -> None:
        if isinstance(self.terms, dict):  # from JSON
            self.terms = TermCounts(**self.terms)

    def __add__(self, other: "LineCounts") -> "LineCounts":
        numbers = {one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)[:-1]}
        both = [counts.terms for counts in (self, other) if counts.terms is not None]
        return LineCounts(**numbers, terms=sum(both, TermCounts()) if both else None)


def lines_together(batch_tokens: int, on_gpu: bool) -> int:
    """The number of lines of a chunk: 5,000, or on a GPU `batch_tokens` / 8 if that is more. These are several batches,
    so that most of them are full, and the sentences of each have similar lengths."""
    return max(CHUNK_LINES, batch_tokens // 8) if on_gpu else CHUNK_LINES


def chunked(lines: Iterable[str], chunk_lines: int = CHUNK_LINES) -> Iterator[list[str]]:
    """Split lines into chunks of `chunk_lines`, or fewer if they are very long. Translations do not depend on it."""
    chunk: list[str] = []
    characters, most = 0, _CHARACTERS * max(CHUNK_LINES, chunk_lines)
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == chunk_lines or characters >= most:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def with_prefixes(
    chunks: Iterable[list[str]], prefixes: Iterable[str] | None, first: int
) -> Iterator[tuple[int, list[str], list[str]]]:
    """For each chunk the line number of its first line, its lines, and a prefix for each line; None: empty prefixes.
    first: the line number of the first chunk's first line. Raises NmtError if there are fewer or more prefixes than
    lines."""
    remaining = repeat("") if prefixes is None else iter(prefixes)
    for chunk in chunks:
        chunk_prefixes = list(islice(remaining, len(chunk)))
        if (count := len(chunk_prefixes)) < len(chunk):
            raise NmtError(f"the prefixes end before line {first + count}: give one for each input line")
        yield first, chunk, chunk_prefixes
        first += len(chunk)
    if prefixes is not None and next(remaining, None) is not None:
        raise NmtError(f"the input ends before line {first}, but there are more prefixes: give one for each input line")


def results(items: Iterator[T], begin: Callable[[T], Callable[[], U]], ahead: bool) -> Iterator[U]:
    """Yield `begin(item)()` for each item. `begin` may start work in other threads.

    ahead: read and begin the next item before waiting for the current result. The threads of an engine then have work
    while this thread waits, and while the caller uses the result. An error in an item is raised after all results
    before it.
    """
    begun: Callable[[], U] | None = None
    while True:
        previous, begun = begun, None
        try:
            if (item := next(items, None)) is not None:
                begun = begin(item)
        except Exception:
            if previous is not None:
                yield previous()
            raise
        if previous is not None:
            yield previous()
        if begun is None:
            return
        if not ahead:
            finish, begun = begun, None
            yield finish()


@contextmanager
def reporting(engine: Engine, lines: int, sources: int, on_lines: Callable[[int], object]) -> Iterator[None]:
    """While an engine searches the sources of a chunk, report its lines to `on_lines`: the share of each batch, and at
    the end the rest."""
    searched = reported = 0

    def count(sentences: int) -> None:
        nonlocal searched, reported
        searched = min(searched + sentences, sources)  # some sources are searched twice
        more = lines * searched // sources - reported
        reported += more
        on_lines(more)

    engine.on_searched = count
    try:
        yield
    finally:
        engine.on_searched = None
    on_lines(lines - reported)


def log_counts(counts: LineCounts, limit: int | None) -> None:
    """Log how many lines were longer than `limit` subwords, and the other counts that a user should know."""
    lines = f"{counts.lines:,} {'line is' if counts.lines == 1 else 'lines are'} longer than {limit} subwords"
    if counts.split:
        longer, parts = counts.split - counts.several, f"{counts.parts:,}"
        if counts.several:
            log.info(
                "%s of %s lines: split into %s parts: %s with several sentences, %s longer than %s subwords",
                *(f"{counts.split:,}", f"{counts.lines:,}", parts, f"{counts.several:,}", f"{longer:,}", limit),
            )
        else:
            log.info("%s of %s: split into %s parts", f"{longer:,}", lines, parts)
    if counts.cut:
        log.warning("%s of %s: cut", f"{counts.cut:,}", lines)
    if counts.skipped:
        log.warning("%s of %s: not translated", f"{counts.skipped:,}", lines)
    if counts.unconstrained:
        excluding = [name for name, support in SETTINGS.items() if support.excludes]
        log.warning(
            "%d of %d lines have no translation that satisfies decoding.%s: translated without these settings",
            *(counts.unconstrained, counts.lines, ", ".join(excluding)),
        )
    if counts.terms is not None:
        counts.terms.log(counts.lines)
    if counts.restored:
        message = "%d of %d lines: the model omitted or changed protected text, which was restored (see decoding.keep)"
        log.info(message, counts.restored, counts.lines)
    if counts.prefixes:
        log.warning(
            "%d of %d prefixes cannot be written with the model's vocabulary: translations begin with a changed prefix",
            *(counts.prefixes, counts.lines),
        )
