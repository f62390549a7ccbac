"""Builds the inputs of the search from lines of text: subwords, length limits, prefixes and glossary terms."""

import logging
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import assert_never

from nmt.config.language_pairs import LanguagePair
from nmt.config.located_yaml import shortened
from nmt.config.schema import DecodingConfig
from nmt.config.special_subwords import TERM_TAGS
from nmt.data.subwords.term_marks import tagged
from nmt.data.subwords.vocabulary import UNK, Vocabulary
from nmt.decoding.capitals import as_sentences, is_in_capitals
from nmt.decoding.chunks import LineCounts
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.long_input import SourcePart, Splitter
from nmt.decoding.markup.elements import overlap
from nmt.decoding.protected_text import protected_spans
from nmt.errors import NmtError
from nmt.machine import cpu_threads
from nmt.terms.glossary import FoundTerm, Glossary

log = logging.getLogger("nmt")

_LINES_OF_A_THREAD = 100  # at least: to encode them takes a millisecond, much longer than to start a thread


@dataclass(frozen=True)
class Inputs:
    """The inputs for a chunk of lines. Dictionaries and sets are by the index of a line in the chunk."""

    first: int  # line number of the first line
    lines: int  # number of lines
    parts: dict[int, list[SearchInput]]  # the parts of each line with words: mostly one
    spaces: dict[int, list[str]]  # for the lines that are split, the white space after each part
    capitals: frozenset[int]  # the lines whose translations will be put in capitals
    protected: dict[int, str]  # the lines with protected text
    counts: LineCounts  # of this chunk
    languages: LanguagePair

    @property
    def sources(self) -> list[SearchInput]:
        """All parts of all lines, in order."""
        return list(chain(*self.parts.values()))


@dataclass(frozen=True)
class InputBuilder:
    """Builds the inputs for the lines of one chunk, and counts the lines in `counts`."""

    vocabulary: Vocabulary
    decoding: DecodingConfig
    positions: int | None  # as `Translator.positions`
    longest_source: int | None  # as `Translator.longest_source`
    splitter: Splitter
    glossary: Glossary | None
    counts: LineCounts
    tags: list[int]  # tokens before each source; they do not count for any length limit
    start: list[int]  # tokens before each output, likewise
    languages: LanguagePair

    def build(self, lines: list[str], prefixes: list[str], first: int) -> Inputs:
        """The inputs for lines with a prefix each, none longer than the model and the settings allow.

        first: the line number of the first line. Raises NmtError for a line that is too long if decoding.long_input is
        `error`, and for a prefix longer than any output can be.
        """
        inputs: dict[int, list[SearchInput]] = {}
        spaces: dict[int, list[str]] = {}
        lower_case = self.lower_case(lines, prefixes)
        protected = {}
        if patterns := self.decoding.keep:
            without_prefix = (i for i, prefix in enumerate(prefixes) if not prefix)
            protected = {i: lines[i] for i in without_prefix if protected_spans(lines[i], patterns)}
        lines = [lower_case.get(i, line) for i, line in enumerate(lines)]
        threads = max(1, min(cpu_threads(), len(lines) // _LINES_OF_A_THREAD))
        sources = self.vocabulary.source.encode(lines, threads)
        rows = zip(lines, sources, self._encode_prefixes(prefixes, first), strict=True)
        for i, (line, ids, prefix) in enumerate(rows):
            self.counts.lines += 1
            if self.positions is not None and len(prefix) > self.positions:
                raise NmtError(
                    f"line {first + i}: its prefix has {len(prefix)} subwords, more than model.max_positions - 1: "
                    f"{self.positions}: shorten it"
                )
            if is_empty(line, ids):
                self.counts.empty += 1
            elif parts := self._parts(line, ids, first + i, bool(prefix)):
                inputs[i] = [self._input(parts[0], prefix), *(self._input(part, []) for part in parts[1:])]
                if len(parts) > 1:
                    spaces[i] = [part.space for part in parts]
        return Inputs(first, len(lines), inputs, spaces, frozenset(lower_case), protected, self.counts, self.languages)

    def lower_case(self, lines: list[str], prefixes: list[str]) -> dict[int, str]:
        """For the lines in capitals that the model reads in lower case, by index, the text in lower case."""
        if {"keep": True, "restore": False}[self.decoding.capitals]:
            return {}
        in_capitals = (i for i, prefix in enumerate(prefixes) if not prefix and is_in_capitals(lines[i]))
        lower_case = {i: as_sentences(lines[i], self.languages.source) for i in in_capitals}
        if self.glossary is not None:  # a term such as IBM is not found in lower case
            entries = self.glossary.entries
            lower_case = {i: line for i, line in lower_case.items() if entries(line) == entries(lines[i])}
        return lower_case

    def _parts(self, line: str, ids: list[int], line_number: int, has_prefix: bool) -> list[SourcePart]:
        """The parts of a line that are translated: the whole line if it is not too long, else as decoding.long_input
        says. A line with a prefix is split only if it is too long: the prefix may have several sentences."""
        limit, long_input = self.longest_source, self.decoding.long_input
        if long_input == "split":
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
        match long_input:
            case "cut":
                self.counts.cut += 1
                [text] = self.vocabulary.source.decode([ids[:limit]])  # without the terms of the rest, for a glossary
                return [SourcePart(text, ids[:limit], cut=len(ids) - limit)]
            case "skip":
                self.counts.skipped += 1
                return []
            case "error":
                key = "model.max_positions - 1" if limit == self.positions else "decoding.max_source_tokens"
                raise NmtError(
                    f"line {line_number}: {len(ids)} subwords, more than {key}: {limit}: shorten or split it, or set "
                    "decoding.long_input to split, cut or skip"
                )
            case _:
                assert_never(long_input)

    def _encode_prefixes(self, prefixes: list[str], first: int) -> list[list[int]]:
        """The prefixes' subwords. Characters that are not in the vocabulary are left out. Changed prefixes are counted,
        and a warning names the first."""
        if not any(prefixes):
            return [[] for _ in prefixes]
        target = self.vocabulary.target
        encoded = [[token for token in ids if token != UNK] for ids in target.encode(prefixes)]
        changed = target.changed(prefixes)
        if changed_lines := [i for i, prefix in enumerate(prefixes) if prefix in changed]:
            i, others = changed_lines[0], len(changed_lines) - 1
            more = f" (and those of {others:,} later lines)" if others else ""
            [written] = target.decode([encoded[i]])
            log.warning(
                "line %d: its prefix %r%s cannot be written with the model's vocabulary: it becomes %r",
                *(first + i, shortened(prefixes[i]), more, shortened(written)),
            )
            self.counts.prefixes += len(changed_lines)
        return encoded

    def _input(self, part: SourcePart, prefix: list[int]) -> SearchInput:
        length, decoding = len(part.ids), self.decoding
        longest = decoding.longest_output(length, self.positions)
        shortest = max(decoding.min_length, decoding.least_output(length))
        seed = zlib.crc32(part.text.encode(), decoding.seed)
        keep = self.decoding.keep
        terms = () if self.glossary is None else tuple(self.glossary.find(part.text))
        if terms and keep:
            fixed = protected_spans(part.text, keep)
            terms = tuple(found for found in terms if not any(overlap((found.start, found.stop), one) for one in fixed))
        limits, start = (longest, min(longest, shortest)), tuple(self.start)
        ids = self.tags + (self._with_translations(part, terms) if terms else part.ids)
        length += len(self.tags) + part.cut
        return SearchInput(ids, *limits, tuple(prefix), seed, start, part.text, terms, length)

    def _with_translations(self, part: SourcePart, terms: Sequence[FoundTerm]) -> list[int]:
        """The subwords of a part with the translation of each term after it, for a model that learned this with
        data.augment.terms; without it where the part would be too long."""
        source, ids = self.vocabulary.source, list(part.ids)
        if source.tag(TERM_TAGS[0]) is not None:
            marks = [(found.stop, found.term.target) for found in terms]
            for position, new in reversed(tagged(source, part.text, part.ids, marks)):
                if self.longest_source is None or len(ids) + len(new) <= self.longest_source:
                    ids[position:position] = new
        return ids


def is_empty(line: str, ids: list[int]) -> bool:
    """Whether a line has nothing to translate."""
    return not ids or not line.strip()
