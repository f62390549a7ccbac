"""Lines that are translated together, and what became of them."""

import logging
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass

log = logging.getLogger("nmt")

CHUNK_LINES = 2000  # read, sorted by length and translated together
_CHUNK_CHARACTERS = 1_000_000  # so that lines as long as books do not fill the memory


@dataclass
class LineCounts:
    """What became of the lines read; `parts` are those that the `split` ones were translated in."""

    lines: int = 0
    empty: int = 0
    cut: int = 0
    skipped: int = 0
    split: int = 0
    parts: int = 0
    unruly: int = 0  # lines or parts for which no output met the rules: translated without them
    terms: int = 0  # of the glossary, found in the lines
    unmet: int = 0  # of these, without any of their translations in the best one found
    searched: int = 0  # lines or parts in which terms of a glossary were looked for
    prefixes: int = 0  # of which characters were left out that the vocabulary lacks

    def __add__(self, other: "LineCounts") -> "LineCounts":
        return LineCounts(*(mine + others for mine, others in zip(astuple(self), astuple(other), strict=True)))


def chunked(lines: Iterable[str], chunk_lines: int = CHUNK_LINES) -> Iterator[list[str]]:
    """Lines that are translated together: so many, or fewer very long ones. The chunks of a chunk are itself."""
    chunk: list[str] = []
    characters = 0
    for line in lines:
        chunk.append(line)
        characters += len(line)
        if len(chunk) == chunk_lines or characters >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def say_counts(counts: LineCounts, limit: int | None) -> None:
    """Say which lines were not translated as they are, longer than `limit` subwords, and what else was not done."""
    lines = f"{counts.lines:,} {'line is' if counts.lines == 1 else 'lines are'} longer than {limit} subwords"
    if counts.split:
        log.info("%s of %s: split into %s parts", f"{counts.split:,}", lines, f"{counts.parts:,}")
    if counts.cut:
        log.warning("%s of %s: cut", f"{counts.cut:,}", lines)
    if counts.skipped:
        log.warning("%s of %s: left empty", f"{counts.skipped:,}", lines)
    if counts.unruly:
        log.warning(
            "%d of %d lines have no translation that obeys decoding.banned, no_repeat_ngram and min_length: "
            "translated without",
            counts.unruly,
            counts.lines,
        )
    if counts.terms:
        log.info("glossary: %d terms found, %d of them not in the translation", counts.terms, counts.unmet)
    elif counts.searched:
        log.warning("glossary: none of its source terms is in any of %d lines", counts.lines)
    if counts.prefixes:
        log.warning(
            "%d of %d prefixes have characters that the model's vocabulary lacks: translated with these left out",
            counts.prefixes,
            counts.lines,
        )
