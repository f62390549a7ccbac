"""Text in, text out: a model file as a translator."""

import dataclasses
import logging
import math
import re
import threading
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, repeat
from pathlib import Path
from typing import Literal

from torch import Tensor

from nmt import device as devices
from nmt.checkpoints import export_folder, model_file
from nmt.config import schema
from nmt.config.located_yaml import shortened
from nmt.data.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from nmt.decoding import long_input
from nmt.decoding.chunks import CHUNK_LINES, LineCounts, chunked
from nmt.decoding.ctranslate2_engine import CTranslate2Engine
from nmt.decoding.engine import Engine, Source, TransformerEngine
from nmt.decoding.glossary import Glossary, continues_word
from nmt.decoding.long_input import Part
from nmt.decoding.mbr import by_agreement
from nmt.decoding.quantize import prepared
from nmt.decoding.search.banned_words import Words
from nmt.decoding.search.interface import Hypothesis, Options, Sampling, length_penalties
from nmt.decoding.search.phrase_automaton import Group, holds
from nmt.errors import NmtError

log = logging.getLogger("nmt")

# Whatever some program takes for the end of a line, and the tab, which parts columns.
_BREAKS = re.compile("[\t\n\v\f\r\x1c-\x1e\x85\u2028\u2029]")
# One search at a time in a process, as all its threads share PyTorch's number of threads, and a model its mode and
# its counts. Nothing is lost by waiting: a search uses every core by itself.
_SEARCHING = threading.Lock()
_MOST_SAMPLES = 1000  # of a line, as the largest beam
_OUT_OF_MEMORY = re.compile("out of memory|not enough memory|can't allocate memory|bad_alloc", re.IGNORECASE)


@dataclass(frozen=True)
class Translation:
    """One translation of one line.

    score is log P(Y|X) over the length penalty; pieces are its subwords and the end of sentence, and
    token_scores the log P of each. The translation of a line without words is empty, with score 0 and no pieces.
    On request alignment tells how much each piece looks at each of source_pieces, the end of sentence last in both.
    Where a line was translated in parts, each has its end in pieces and source_pieces, and a row of the alignment
    is over the source pieces of its own part.
    """

    text: str
    score: float
    log_probability: float
    pieces: list[str]
    token_scores: list[float]
    source_pieces: list[str] | None = None
    alignment: list[list[float]] | None = None


Parts = dict[int, list[Source]]  # by a line's place in its chunk, what it is translated in: itself, most often


class Translator:
    """An engine, its vocabulary and how to search. `decoding` and `glossary` may be replaced; `counts` grow
    with each line read.

    Several threads may call it at once: they take turns, a chunk of lines each.
    """

    def __init__(self, engine: Engine, vocabulary: Vocabulary, decoding: schema.DecodingConfig):
        self.engine, self.vocabulary, self.decoding = engine, vocabulary, decoding
        self.counts = LineCounts()
        self.digests: dict[Path, str] = {}  # of the model files, by what was read of them
        self.glossary: Glossary | None = None  # see also use_glossary
        self._words: tuple[tuple[str, ...], Words] | None = None

    @classmethod
    def load(
        cls,
        path: str | Path,
        device: str = "auto",
        ensemble: Sequence[str | Path] = (),
        overrides: Sequence[str] = (),
        glossary: str | Path | None = None,
    ) -> "Translator":
        """The translator in a model file, the best one in a run's folder, or an exported CTranslate2 folder.

        ensemble: models of the same vocabulary, which translate together with it; overrides: `decoding.key=value`,
        over the model's own settings; glossary: a file of lines `source term TAB target term`.
        Raises NmtError where a file is missing, damaged or not a model, an override is wrong, the vocabularies
        differ, or the device is not there.
        """
        if export_folder.is_ctranslate2(Path(path)):
            if ensemble:
                raise NmtError(f"{path}: an exported folder translates alone: give model files for an ensemble")
            if glossary is not None:
                raise NmtError(f"{path}: an exported folder knows no glossary: translate with the model file")
            engine = CTranslate2Engine(Path(path), device)
            decoding = schema.override(engine.settings, overrides).search
            engine.check_precision(decoding.precision)
            return cls(engine, engine.vocabulary, decoding)
        chosen = devices.choose(device)
        paths = [model_file.locate(Path(one)) for one in (path, *ensemble)]
        loaded = [model_file.load(one) for one in paths]
        first = loaded[0]
        for other, name in zip(loaded[1:], ensemble, strict=True):
            if other.vocabulary.protos != first.vocabulary.protos:
                raise NmtError(
                    f"{name}: its vocabulary is not that of {path}: an ensemble needs models of one vocabulary"
                )
        decoding = schema.override(first.config, overrides).search
        models = [prepared(one.build(), chosen, decoding.precision) for one in loaded]
        trained_in = first.config.training.precision if decoding.precision == "model" else "float32"
        translator = cls(TransformerEngine(models, chosen, trained_in), first.vocabulary, decoding)
        translator.digests = {one: file.digest for one, file in zip(paths, loaded, strict=True)}
        if glossary is not None:
            translator.use_glossary(Glossary.load(Path(glossary)), str(glossary))
        return translator

    def use_glossary(self, glossary: Glossary, what: str) -> None:
        """Take a glossary, which `what` names in messages; those of its terms that the vocabulary cannot write are
        told of in a warning, and not looked for in the translations."""
        self.glossary = glossary
        targets = glossary.targets
        unwritable = [
            term for term, ids in zip(targets, self.vocabulary.target.encode(targets), strict=True) if UNK in ids
        ]
        if unwritable:
            log.warning(
                "%s: %s of %s target terms have characters that the model's vocabulary lacks, such as %r: "
                "translations cannot have them",
                *(what, f"{len(unwritable):,}", f"{len(targets):,}", unwritable[0]),
            )

    @property
    def longest_source(self) -> int | None:
        """The most subwords that are translated as they are: decoding.max_source_tokens, or fewer where the model
        has learned fewer positions; None: any number."""
        limits = (self.decoding.max_source_tokens, self.engine.positions)
        return min((limit for limit in limits if limit is not None), default=None)

    def translate(self, lines: Sequence[str]) -> list[str]:
        """The best translation of each line. Raises as `stream` does."""
        return list(self.stream(lines))

    def hypotheses(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        *,
        alignment: bool = False,
        prefixes: Sequence[str] | None = None,
    ) -> list[list[Translation]]:
        """The n best translations of each line, best first, with their scores, and on request their alignment.

        prefixes: for each line, text that its translations begin with. Raises as `stream` does.
        """
        return list(self.stream_hypotheses(lines, n_best, alignment=alignment, prefixes=prefixes))

    def stream(
        self,
        lines: Iterable[str],
        chunk_lines: int = CHUNK_LINES,
        *,
        prefixes: Iterable[str] | None = None,
        first: int = 1,
    ) -> Iterator[str]:
        """`translate` for any number of lines: one comes out for each that goes in, in order.

        At most chunk_lines are read before the first comes out: 1 answers line by line. `first` is the number of
        the first line, for messages. No translation holds a line break or a tab. Raises NmtError for a line over
        decoding.max_source_tokens where decoding.long_input is `error`, for prefixes that are more or fewer than the
        lines, and for a model whose scores are not numbers; TypeError for one text alone.
        """
        for _, chunk in self._chunks(lines, chunk_lines, 1, prefixes, first, scores=False):
            yield from self._texts([hypotheses[0].tokens for hypotheses in chunk])

    def stream_hypotheses(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        chunk_lines: int = CHUNK_LINES,
        *,
        alignment: bool = False,
        prefixes: Iterable[str] | None = None,
        first: int = 1,
    ) -> Iterator[list[Translation]]:
        """`hypotheses` for any number of lines, as `stream`.

        Raises NmtError too where n_best is above the beam, or above 1000.
        """
        decoding = self.decoding
        if decoding.method == "beam" and n_best > decoding.beam_size:
            raise NmtError(
                f"{n_best} best translations of a beam of {decoding.beam_size}: raise decoding.beam_size "
                "or ask for fewer"
            )
        if n_best > _MOST_SAMPLES:
            raise NmtError(f"{n_best} samples of each line: ask for at most {_MOST_SAMPLES}")
        for sources, chunk in self._chunks(lines, chunk_lines, n_best, prefixes, first):
            translations = [self._translations(hypotheses) for hypotheses in chunk]
            yield from self._aligned(sources, translations, chunk) if alignment else translations

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[Translation | None]:
        """Each target as a translation of its source: how probable the model finds it, subword by subword.

        None, and counted as skipped, where the source is longer than `longest_source`, or the target than an output
        for the longest source could be. An empty target of a source without words is its translation, with score 0;
        any other pair has the model's own probability, a target that no search would look at too.
        Raises NmtError where there are not as many targets as sources, or too little memory.
        """
        _several(sources)
        _several(targets)
        if len(sources) != len(targets):
            raise NmtError(f"{len(sources)} sources and {len(targets)} targets: there must be as many")
        both = list(
            zip(self.vocabulary.source.encode(list(sources)), self.vocabulary.target.encode(list(targets)), strict=True)
        )
        empty = {place for place, (ids, target) in enumerate(both) if not target and _is_empty(sources[place], ids)}
        fitting = {place: pair for place, pair in enumerate(both) if place not in empty and self._fits(*pair)}
        self.counts.lines += len(sources)
        self.counts.empty += len(empty)
        self.counts.skipped += len(sources) - len(empty) - len(fitting)
        pairs = list(fitting.values())
        with self._computing():
            scores = self.engine.score(pairs, self.decoding.batch_tokens)
        penalties = length_penalties(max(map(len, scores), default=0), self._options(1)).tolist()
        hypotheses = [
            Hypothesis.scored(target, token_scores, penalties)
            for (_, target), token_scores in zip(pairs, scores, strict=True)
        ]
        [nothing] = self._translations([_NOTHING])
        found = [
            dataclasses.replace(nothing, text=target) if place in empty else None
            for place, target in enumerate(targets)
        ]
        for place, one in zip(fitting, self._translations(hypotheses), strict=True):
            found[place] = dataclasses.replace(one, text=targets[place])
        return found

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """One thread at a time. Raises NmtError where there is too little memory."""
        with _SEARCHING:
            try:
                yield
            except (RuntimeError, MemoryError) as error:
                if not isinstance(error, MemoryError) and not _OUT_OF_MEMORY.search(str(error)):
                    raise
                raise NmtError(
                    f"out of memory with decoding.batch_tokens: {self.decoding.batch_tokens} and decoding.beam_size: "
                    f"{self.decoding.beam_size}: lower one"
                ) from None

    def _fits(self, source: list[int], target: list[int]) -> bool:
        longest = self.longest_source
        if longest is None:
            return True
        return len(source) <= longest and len(target) <= self.longest_output(longest)

    def longest_output(self, source: int) -> int:
        """The most subwords of an output for a source of so many."""
        decoding = self.decoding
        longest = int(source * decoding.max_length_ratio) + decoding.max_extra_tokens
        limits = (longest, decoding.max_length, self.engine.positions)
        return min(limit for limit in limits if limit is not None)

    def encode(self, lines: Sequence[str]) -> list[Tensor]:
        """The encoder's output for each line, float32 on the CPU, [subwords + 1, d_model], the end of sentence last.

        Of an ensemble it is the first model's. Raises NmtError for a line over `longest_source`, and for an exported
        folder.
        """
        _several(lines)
        sources = self.vocabulary.source.encode(list(lines))
        for number, ids in enumerate(sources, start=1):
            if self.longest_source is not None and len(ids) > self.longest_source:
                raise NmtError(
                    f"line {number}: {len(ids)} subwords, more than {self.longest_source}: shorten or split it"
                )
        with self._computing():
            return self.engine.encode(sources, self.decoding.batch_tokens)

    def _chunks(
        self,
        lines: Iterable[str],
        chunk_lines: int,
        n_best: int,
        prefixes: Iterable[str] | None,
        first: int,
        *,
        scores: bool = True,
    ) -> Iterator[tuple[Parts, list[list[Hypothesis]]]]:
        """What was translated, by its place in the chunk, and the hypotheses of each line; a chunk at a time."""
        _several(lines)
        remaining_prefixes = repeat("") if prefixes is None else iter(prefixes)
        for chunk in chunked(lines, chunk_lines):
            given = list(islice(remaining_prefixes, len(chunk)))
            if len(given) < len(chunk):
                raise NmtError(f"line {first + len(given)}: no prefix: there must be as many prefixes as lines")
            with self._computing():
                sources = self._sources(chunk, given, first)
                found = self._chunk(sources, len(chunk), first, n_best, scores)
            yield sources, found
            first += len(chunk)
        if prefixes is not None and next(remaining_prefixes, None) is not None:
            raise NmtError(f"line {first}: a prefix and no line: there must be as many prefixes as lines")

    def _chunk(self, sources: Parts, lines: int, first: int, n_best: int, scores: bool) -> list[list[Hypothesis]]:
        """The hypotheses for each of so many lines, at least one each; `first` is the number of the first line."""
        found = [[_NOTHING]] * lines
        results = iter(self._search([source for parts in sources.values() for source in parts], n_best, scores))
        for place, parts in sources.items():
            hypotheses = [next(results) for _ in parts]
            if not all(hypotheses):
                raise NmtError(
                    f"line {first + place}: the model's scores are not numbers: its weights are damaged, or too large "
                    "for its precision: translate with another checkpoint"
                )
            found[place] = long_input.joined(hypotheses)
        return found

    def _search(self, sources: list[Source], n_best: int, scores: bool) -> list[list[Hypothesis]]:
        decoding = self.decoding
        options = self._options(n_best, scores=scores)
        found = self.engine.search(sources, options, decoding.batch_tokens)
        lost = [place for place, hypotheses in enumerate(found) if not hypotheses]
        if lost and self._has_rules:
            free = dataclasses.replace(options, banned=None, no_repeat_ngram=None)
            again = [dataclasses.replace(sources[place], shortest=0) for place in lost]
            for place, hypotheses in zip(lost, self.engine.search(again, free, decoding.batch_tokens), strict=True):
                found[place] = hypotheses
                self.counts.unruly += bool(hypotheses)
        if decoding.consensus != "none":
            found = [self._agreed(hypotheses, n_best, decoding.consensus) for hypotheses in found]
        for source, hypotheses in zip(sources, found, strict=True):
            self.counts.terms += len(source.required)
            if hypotheses and source.required:
                said = hypotheses[0].tokens
                self.counts.unmet += sum(not holds(said, group, self._continuing) for group in source.required)
        return found

    @property
    def _has_rules(self) -> bool:
        decoding = self.decoding
        return bool(decoding.banned or decoding.no_repeat_ngram or decoding.min_length or decoding.min_length_ratio)

    def _agreed(self, hypotheses: list[Hypothesis], n_best: int, metric: Literal["chrf", "bleu"]) -> list[Hypothesis]:
        """The n best by agreement."""
        order = by_agreement(self._texts([one.tokens for one in hypotheses]), metric)
        return [hypotheses[i] for i in order[:n_best]]

    def _options(self, n_best: int, *, scores: bool = True) -> Options:
        decoding = self.decoding
        sampled = decoding.method == "sample"
        beam = decoding.beam_size
        if decoding.consensus != "none":
            n_best = max(n_best, decoding.candidates) if sampled else beam
            scores = True
        return Options(
            bos=BOS,
            eos=EOS,
            never=(PAD, UNK, BOS),
            beam_size=n_best if sampled else beam,
            length_penalty=decoding.length_penalty,
            normalization=decoding.normalization,
            n_best=n_best,
            scores=scores,
            sampling=Sampling(decoding.temperature, decoding.top_k, decoding.top_p) if sampled else None,
            no_repeat_ngram=decoding.no_repeat_ngram,
            banned=self._banned(decoding.banned) if decoding.banned else None,
            coverage_penalty=decoding.coverage_penalty,
            continuing=frozenset() if self.glossary is None else self._continuing,
        )

    @cached_property
    def _continuing(self) -> frozenset[int]:
        """The subwords that go on with the word before them: a term is to be a whole word."""
        pieces = self.vocabulary.target.every_piece()
        return frozenset(i for i, piece in enumerate(pieces) if continues_word(piece))

    def _banned(self, words: tuple[str, ...]) -> Words:
        """The automaton of these words, made once."""
        if self._words is None or self._words[0] != words:
            self._words = words, Words(words, self.vocabulary.target.spellings(), EOS)
        return self._words[1]

    def _sources(self, lines: list[str], prefixes: list[str], first: int) -> Parts:
        """By place, the parts to translate, counted; each at most as long as model and settings allow."""
        sources: Parts = {}
        limit = self.longest_source
        encoded = zip(lines, self.vocabulary.source.encode(lines), self._prefixes(prefixes, first), strict=True)
        for place, (line, ids, prefix) in enumerate(encoded):
            self.counts.lines += 1
            if self.engine.positions is not None and len(prefix) > self.engine.positions:
                raise NmtError(
                    f"line {first + place}: its prefix has {len(prefix)} subwords, more than model.max_positions - 1: "
                    f"{self.engine.positions}: shorten it"
                )
            if _is_empty(line, ids):
                self.counts.empty += 1
            elif limit is None or len(ids) <= limit:
                sources[place] = [self._source(Part(line, ids), prefix)]
            elif self.decoding.long_input == "split":
                parts = [part for part in long_input.split(line, limit, self.vocabulary.source.encode) if part.ids]
                begins = [prefix, *([] for _ in parts[1:])]
                if parts:
                    sources[place] = [self._source(*each) for each in zip(parts, begins, strict=True)]
                self.counts.split += 1
                self.counts.parts += len(parts)
            elif self.decoding.long_input == "cut":
                self.counts.cut += 1
                sources[place] = [self._source(Part(line, ids[:limit]), prefix)]
            elif self.decoding.long_input == "skip":
                self.counts.skipped += 1
            else:
                key = "model.max_positions - 1" if limit == self.engine.positions else "decoding.max_source_tokens"
                raise NmtError(
                    f"line {first + place}: {len(ids)} subwords, more than {key}: {limit}: shorten or split it, or set "
                    "decoding.long_input to split, cut or skip"
                )
        return sources

    def _prefixes(self, prefixes: list[str], first: int) -> list[list[int]]:
        """Their subwords. Characters that the vocabulary has not are left out, said and counted."""
        encoded = self.vocabulary.target.encode(prefixes)
        lacking = [place for place, ids in enumerate(encoded) if UNK in ids]
        if lacking:
            kept = [[token for token in ids if token != UNK] for ids in encoded]
            place, more = lacking[0], f" (and of {len(lacking) - 1:,} lines behind it)" if lacking[1:] else ""
            [shown] = self.vocabulary.target.decode([kept[place]])
            log.warning(
                "line %d: its prefix %r%s has characters that the model's vocabulary lacks: left out, as in %r",
                *(first + place, shortened(prefixes[place]), more, shortened(shown)),
            )
            self.counts.prefixes += len(lacking)
            return kept
        return encoded

    def _source(self, part: Part, prefix: list[int]) -> Source:
        decoding, ids = self.decoding, part.ids
        longest = self.longest_output(len(ids))
        shortest = min(longest, max(decoding.min_length, math.ceil(len(ids) * decoding.min_length_ratio)))
        return Source(
            ids,
            longest,
            shortest,
            tuple(prefix),
            zlib.crc32(part.text.encode(), decoding.seed),
            self._required(part.text),
        )

    def _required(self, line: str) -> tuple[Group, ...]:
        """For each term of the glossary in the line, its translations in subwords."""
        if self.glossary is None:
            return ()
        if self.decoding.method == "sample":
            raise NmtError("a glossary needs decoding.method: beam: samples cannot be made to hold its terms")
        self.counts.searched += 1
        return tuple(self.vocabulary.target.encode(targets) for targets in self.glossary.terms(line))

    def _aligned(
        self, sources: Parts, lines: list[list[Translation]], found: list[list[Hypothesis]]
    ) -> list[list[Translation]]:
        pairs = [
            (source.ids, output)
            for place, parts in sources.items()
            for one in found[place]
            for source, output in zip(parts, long_input.parted(one.tokens), strict=True)
        ]
        with self._computing():
            weights = iter(self.engine.align(pairs, self.decoding.batch_tokens))
        lines = list(lines)
        for place, parts in sources.items():
            pieces = [piece for source in parts for piece in self.vocabulary.source.pieces([*source.ids, EOS])]
            lines[place] = [
                dataclasses.replace(one, source_pieces=pieces, alignment=[row for _ in parts for row in next(weights)])
                for one in lines[place]
            ]
        return lines

    def _texts(self, outputs: list[list[int]]) -> list[str]:
        return [_BREAKS.sub(" ", text) for text in long_input.decode(outputs, self.vocabulary.target.decode)]

    def _translations(self, hypotheses: list[Hypothesis]) -> list[Translation]:
        texts = self._texts([hypothesis.tokens for hypothesis in hypotheses])
        return [
            Translation(
                text,
                found.score,
                found.log_probability,
                self.vocabulary.target.pieces([*found.tokens, EOS])[: len(found.token_scores)],
                found.token_scores,
            )
            for text, found in zip(texts, hypotheses, strict=True)
        ]


def _several(lines: Iterable[str]) -> None:
    if isinstance(lines, str):
        raise TypeError("one text, where lines are taken: [text] for one")


def files_of(*models: Path) -> list[Path]:
    """What Translator.load reads of each: a file, or those of a CTranslate2 folder. Raises NmtError where none is."""
    found: list[Path] = []
    for model in models:
        in_folder = export_folder.is_ctranslate2(model)
        found += sorted(filter(Path.is_file, model.iterdir())) if in_folder else [model_file.locate(model)]
    return found


def load_settings(path: Path) -> schema.Config:
    """The settings of what Translator.load opens, without its weights. Raises NmtError as it does."""
    if export_folder.is_ctranslate2(path):
        return export_folder.load_config(path)
    return model_file.load_config(model_file.locate(path))


def _is_empty(line: str, ids: list[int]) -> bool:
    """Whether a line has nothing to translate."""
    return not ids or not line.strip()


_NOTHING = Hypothesis([], score=0.0, log_probability=0.0, token_scores=[])
