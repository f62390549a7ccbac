"""From lines of text to inputs of the search: their subwords, length limits, prefixes and required phrases."""

import logging
import zlib
from dataclasses import dataclass
from typing import assert_never

from nmt.config.language_pairs import LanguagePair
from nmt.config.located_yaml import shortened
from nmt.config.schema import DecodingConfig
from nmt.config.unspaced_scripts import is_unspaced
from nmt.data.subwords.vocabulary import UNK, Vocabulary
from nmt.decoding.capitals import as_sentences, is_in_capitals
from nmt.decoding.chunks import LineCounts
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.glossary import Glossary
from nmt.decoding.long_input import SourcePart, Splitter
from nmt.decoding.protected_text import protected_spans
from nmt.decoding.search.phrase_automaton import Group
from nmt.errors import NmtError
from nmt.machine import cpu_threads

log = logging.getLogger("nmt")

_LINES_OF_A_THREAD = 100  # at least: they take a millisecond to encode, many times as long as starting a thread


@dataclass(frozen=True)
class Inputs:
    """Of a chunk of lines."""

    first: int  # the number of the first line
    lines: int
    parts: dict[int, list[SearchInput]]  # of each line with words, by its place in the chunk: most often one
    spaces: dict[int, list[str]]  # after each part, of the lines that are split
    capitals: frozenset[int]  # the places of the lines whose translations are to be put in capitals
    kept: dict[int, str]  # the lines with something that is to be kept
    counts: LineCounts  # of these lines
    languages: LanguagePair

    @property
    def sources(self) -> list[SearchInput]:
        """All parts of all lines, in order."""
        return [source for parts in self.parts.values() for source in parts]


@dataclass(frozen=True)
class InputBuilder:
    """Builds the inputs for the lines of one chunk, and counts what happens to them in `counts`."""

    vocabulary: Vocabulary
    decoding: DecodingConfig
    positions: int | None  # as `Translator.positions`
    longest_source: int | None  # as `Translator.longest_source`
    splitter: Splitter
    glossary: Glossary | None
    counts: LineCounts
    # Before each source and each output; they count neither for its length nor for that of its outputs.
    tags: list[int]
    start: list[int]
    languages: LanguagePair

    def build(self, lines: list[str], prefixes: list[str], first: int) -> Inputs:
        """The inputs for lines with a prefix each, none longer than model and settings allow.

        first: the number of the first line. Raises NmtError for a line that is too long if decoding.long_input is
        `error`, and for a prefix longer than any output can be.
        """
        inputs: dict[int, list[SearchInput]] = {}
        spaces: dict[int, list[str]] = {}
        small = self.small(lines, prefixes)
        kept = {}
        if patterns := self.decoding.keep:
            whole = (place for place, prefix in enumerate(prefixes) if not prefix)
            kept = {place: lines[place] for place in whole if protected_spans(lines[place], patterns)}
        lines = [small.get(place, line) for place, line in enumerate(lines)]
        threads = max(1, min(cpu_threads(), len(lines) // _LINES_OF_A_THREAD))
        sources = self.vocabulary.source.encode(lines, threads)
        given = zip(lines, sources, self._encode_prefixes(prefixes, first), strict=True)
        for place, (line, ids, prefix) in enumerate(given):
            self.counts.lines += 1
            if self.positions is not None and len(prefix) > self.positions:
                raise NmtError(
                    f"line {first + place}: its prefix has {len(prefix)} subwords, more than model.max_positions - 1: "
                    f"{self.positions}: shorten it"
                )
            if is_empty(line, ids):
                self.counts.empty += 1
            elif parts := self._parts(line, ids, first + place, bool(prefix)):
                inputs[place] = [self._input(part, [] if number else prefix) for number, part in enumerate(parts)]
                if len(parts) > 1:
                    spaces[place] = [part.space for part in parts]
        return Inputs(first, len(lines), inputs, spaces, frozenset(small), kept, self.counts, self.languages)

    def small(self, lines: list[str], prefixes: list[str]) -> dict[int, str]:
        """The lines in capitals that the model reads in small letters, so written, by their places."""
        if {"keep": True, "restore": False}[self.decoding.capitals]:
            return {}
        plain = (place for place, prefix in enumerate(prefixes) if not prefix and is_in_capitals(lines[place]))
        small = {place: as_sentences(lines[place], self.languages.source) for place in plain}
        if self.glossary is not None:  # a term such as IBM is not found in small letters
            find = self.glossary.terms
            small = {place: line for place, line in small.items() if find(line) == find(lines[place])}
        return small

    def _parts(self, line: str, ids: list[int], number: int, has_prefix: bool) -> list[SourcePart]:
        """The parts to translate of a line: itself if it is not too long, else what decoding.long_input says. One with
        a prefix, which may have several sentences itself, is not split for its sentences alone."""
        limit, how = self.longest_source, self.decoding.long_input
        if how == "split":
            longest = self.splitter.longest
            if self.splitter.fits(line, ids) or (has_prefix and longest is not None and len(ids) <= longest):
                return [SourcePart(line, ids)]
            parts = [part for part in self.splitter.split(line, ids) if part.ids]
            self.counts.split += 1
            self.counts.parts += len(parts)
            self.counts.several += len(ids) <= (longest or 0)
            return parts
        if limit is None or len(ids) <= limit:
            return [SourcePart(line, ids)]
        match how:
            case "cut":
                self.counts.cut += 1
                [kept] = self.vocabulary.source.decode([ids[:limit]])  # a glossary finds no terms in the rest
                return [SourcePart(kept, ids[:limit])]
            case "skip":
                self.counts.skipped += 1
                return []
            case "error":
                key = "model.max_positions - 1" if limit == self.positions else "decoding.max_source_tokens"
                raise NmtError(
                    f"line {number}: {len(ids)} subwords, more than {key}: {limit}: shorten or split it, or set "
                    "decoding.long_input to split, cut or skip"
                )
            case _:
                assert_never(how)

    def _encode_prefixes(self, prefixes: list[str], first: int) -> list[list[int]]:
        """The prefixes' subwords. Characters that the vocabulary lacks are left out. What it changes is said in
        a warning, and counted."""
        if not any(prefixes):
            return [[] for _ in prefixes]
        target = self.vocabulary.target
        encoded = [[token for token in ids if token != UNK] for ids in target.encode(prefixes)]
        changed = target.changed(prefixes)
        if places := [place for place, prefix in enumerate(prefixes) if prefix in changed]:
            place, more = places[0], f" (and those of {len(places) - 1:,} later lines)" if places[1:] else ""
            [kept] = target.decode([encoded[place]])
            log.warning(
                "line %d: its prefix %r%s cannot be written as given, because of the model's vocabulary: it becomes %r",
                *(first + place, shortened(prefixes[place]), more, shortened(kept)),
            )
            self.counts.prefixes += len(places)
        return encoded

    def _input(self, part: SourcePart, prefix: list[int]) -> SearchInput:
        length, decoding = len(part.ids), self.decoding
        longest = decoding.longest_output(length, self.positions)
        shortest = max(decoding.min_length, decoding.least_output(length))
        seed = zlib.crc32(part.text.encode(), decoding.seed)
        required: tuple[Group, ...] = ()
        if self.glossary is not None:
            if decoding.method == "sample":
                raise NmtError("a glossary needs decoding.method: beam: samples cannot be forced to contain its terms")
            self.counts.searched += 1
            required = tuple(map(self._phrases, self.glossary.terms(part.text)))
        limits, start = (longest, min(longest, shortest)), tuple(self.start)
        return SearchInput(self.tags + part.ids, *limits, tuple(prefix), seed, required, start)

    def _phrases(self, terms: list[str]) -> Group:
        """The subwords of each term; also without a space before it, where its script has none."""
        target = self.vocabulary.target
        unspaced = [term for term in terms if is_unspaced(term[0])]
        return [*target.encode(terms), *filter(None, map(target.encode_inside, unspaced))]


def is_empty(line: str, ids: list[int]) -> bool:
    """Whether a line has nothing to translate."""
    return not ids or not line.strip()
