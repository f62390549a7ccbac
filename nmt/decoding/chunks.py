"""Chunks of lines that are translated together, and counts of what happened to the lines."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from itertools import islice, repeat
from typing import TypeVar

from nmt.decoding.engine_protocol import Engine
from nmt.decoding.engine_support import SETTINGS
from nmt.errors import NmtError

log = logging.getLogger("nmt")

T = TypeVar("T")
U = TypeVar("U")

CHUNK_LINES = 5000  # that are read, sorted by length and translated together, unless a GPU translates
_CHARACTERS = 500  # for each line: a chunk with more characters ends early, so that long lines do not fill the memory


@dataclass
class LineCounts:
    """Counts of the lines read."""

    lines: int = 0
    empty: int = 0
    cut: int = 0
    skipped: int = 0
    split: int = 0
    several: int = 0  # of the split lines, those that would not be too long as one sentence
    parts: int = 0  # that the split lines were translated in
    unconstrained: int = 0  # lines or parts translated without the settings that exclude outputs: no output is left
    terms: int = 0  # glossary terms found in the lines
    missing: int = 0  # of these terms, those without any of their translations in the best output
    searched: int = 0  # lines or parts searched for glossary terms
    restored: int = 0  # lines of whose translations some lacked what decoding.keep names
    prefixes: int = 0  # prefixes that the vocabulary cannot write as they are given

    def __add__(self, other: "LineCounts") -> "LineCounts":
        return LineCounts(*(mine + others for mine, others in zip(astuple(self), astuple(other), strict=True)))


def lines_together(batch_tokens: int, on_gpu: bool) -> int:
    """The number of lines of a chunk: 5,000; for a GPU that searches `batch_tokens` at once an eighth of them, if that
    is more. These are a few batches, so that most of them are full, and its sentences have similar lengths."""
    return max(CHUNK_LINES, batch_tokens // 8) if on_gpu else CHUNK_LINES


def chunked(lines: Iterable[str], chunk_lines: int = CHUNK_LINES) -> Iterator[list[str]]:
    """Split lines into chunks of `chunk_lines`, or fewer if they are very long. Splitting a chunk changes nothing."""
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
    """The number of the first line of each chunk, its lines, and a prefix for each; None: empty ones. The first chunk
    begins with the number `first`. Raises NmtError where there are fewer prefixes than lines, or more."""
    remaining = repeat("") if prefixes is None else iter(prefixes)
    for chunk in chunks:
        given = list(islice(remaining, len(chunk)))
        if len(given) < len(chunk):
            raise NmtError(f"the prefixes end before line {first + len(given)}: there must be one for each input line")
        yield first, chunk, given
        first += len(chunk)
    if prefixes is not None and next(remaining, None) is not None:
        raise NmtError(f"the input ends before line {first}, the prefixes go on: there must be one for each input line")


def results(items: Iterator[T], begin: Callable[[T], Callable[[], U]], ahead: bool) -> Iterator[U]:
    """For each item its result, which `begin(item)()` is: `begin` may begin work that needs nothing of this thread.

    ahead: the next item is read and begun before the result of one is waited for. So threads that search go on with it
    at the end of that one, and while the caller uses the result. An error in an item is raised after all results before
    it.
    """
    begun: Callable[[], U] | None = None
    while True:
        before, begun = begun, None
        try:
            if (item := next(items, None)) is not None:
                begun = begin(item)
        except Exception:
            if before is not None:
                yield before()
            raise
        if before is not None:
            yield before()
        if begun is None:
            return
        if not ahead:
            finish, begun = begun, None
            yield finish()


@contextmanager
def reporting(engine: Engine, lines: int, sources: int, on_lines: Callable[[int], object]) -> Iterator[None]:
    """While an engine searches the sources of a chunk, report its lines to `on_lines`: each batch adds its share, and
    the end the rest."""
    searched = reported = 0

    def count(sentences: int) -> None:
        nonlocal searched, reported
        searched = min(searched + sentences, sources)  # some are searched twice
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
    """Log how many lines were longer than `limit` subwords, and every other count that a user should know."""
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
        log.warning(
            "%d of %d lines have no translation that satisfies decoding.%s: translated without these settings",
            *(counts.unconstrained, counts.lines, ", ".join(name for name, of in SETTINGS.items() if of.excludes)),
        )
    if counts.terms:
        found = "1 term" if counts.terms == 1 else f"{counts.terms} terms"
        log.info("glossary: %s found, %d of them not in the translation", found, counts.missing)
    elif counts.searched:
        log.warning("glossary: none of its source terms occurs in the %d lines", counts.lines)
    if counts.restored:
        message = "%d of %d lines: the model left out or changed what decoding.keep names: it was put back"
        log.info(message, counts.restored, counts.lines)
    if counts.prefixes:
        log.warning(
            "%d of %d prefixes cannot be written as given: translations begin with what the vocabulary makes of them",
            *(counts.prefixes, counts.lines),
        )
