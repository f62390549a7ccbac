"""A translator: an engine with a vocabulary, from text to text."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, islice
from typing import NoReturn

from torch import Tensor

from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.config.schema import DecodingConfig
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding import translation, unwritable
from nmt.decoding.capitals import in_capitals
from nmt.decoding.chunks import LineCounts, chunked, lines_together, reporting, results, with_prefixes
from nmt.decoding.confidence import Calibration
from nmt.decoding.engine_protocol import Engine, Pair, batch_tokens
from nmt.decoding.language_choice import LanguageChoice
from nmt.decoding.long_input import Splitter, shortest
from nmt.decoding.markup import masking
from nmt.decoding.markup.blocks import Markup
from nmt.decoding.markup.marked_text import MarkedLine, MarkedText
from nmt.decoding.n_best import NBestSelector
from nmt.decoding.search.banned_words import banned_words
from nmt.decoding.search.options import Hypothesis, length_penalties
from nmt.decoding.search_inputs import InputBuilder, Inputs, is_empty
from nmt.decoding.term_counts import counted
from nmt.decoding.term_placement import TermPlacer
from nmt.decoding.translate_request import TranslateRequest
from nmt.decoding.translation import Rated
from nmt.decoding.translation import Translation as Translation
from nmt.device import explaining_out_of_memory
from nmt.errors import NmtError
from nmt.terms.glossary import Glossary

_MOST_SAMPLES = 1000  # for a line
_Searched = tuple[Inputs, list[list[Hypothesis]]]  # a chunk, and the hypotheses for each of its lines
_computing = threading.Lock()  # one thread at a time: all share PyTorch's number of threads and the model's mode


class Translator:
    """An engine, its vocabulary and the settings for decoding. `decoding` and `glossary` may be replaced between calls;
    `counts` grow with each translated chunk. Several threads may call a translator at once: they take turns, chunk by
    chunk. A translator works only in the process that loaded it: each process calls `nmt.load`.

    to, from_: codes of languages. A model of several pairs needs them if there is a choice: in each call, or once in
    `languages.use`."""

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        decoding: DecodingConfig,
        languages: LanguagePairs | None = None,
        source_text: SourceText | None = None,
        calibration: Calibration | None = None,
    ):
        """source_text: statistics of the training text: longer lines are split; calibration: for the confidence."""
        self.engine, self.vocabulary, self.decoding, self.source_text = engine, vocabulary, decoding, source_text
        self._banned_words = lru_cache(1)(partial(banned_words, vocabulary.target))
        self.languages = LanguageChoice(languages, vocabulary)
        self.calibration, self.counts = calibration, LineCounts()
        self.on_lines: Callable[[int], object] = _ignore  # called with the number of lines searched since the last call
        self.glossary: Glossary | None = None  # see use_glossary
        self._process = os.getpid()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a translator cannot be pickled: call nmt.load in each process")

    def use_glossary(self, glossary: Glossary, name: str) -> None:
        """Translate with a glossary. Messages call it `name`. A warning names the target terms that the vocabulary
        changes."""
        self.glossary = glossary
        unwritable.warn(f"{name}: target terms", glossary.targets, self.vocabulary.target)

    @property
    def longest_source(self) -> int | None:
        """The most subwords of a source that is not split or cut: decoding.max_source_tokens, or fewer if the model
        has fewer positions; None: no limit. Language tokens are not counted."""
        positions, tags = self.engine.positions, self.languages.tag_count()
        return shortest((self.decoding.max_source_tokens, positions and positions - tags))

    @property
    def longest_part(self) -> int | None:
        """The most subwords of a source that is translated in one piece: `longest_source`, or the longest source of the
        training text if longer lines are split."""
        longest = self.source_text.longest if self.source_text and self.decoding.long_input == "split" else None
        return shortest((self.longest_source, longest))

    def splitter(self, source: str) -> Splitter:
        """A splitter for lines of this language."""
        several, first_words = None, frozenset[str]()
        if self.source_text is not None:
            several, first_words = self.source_text.several, frozenset(self.source_text.first_words.get(source, ()))
        return Splitter(self.longest_part, several, source, first_words, self.vocabulary.source.encode)

    @property
    def positions(self) -> int | None:
        """The longest output that the model has positions for, without language tokens; None: no limit."""
        positions = self.engine.positions
        return positions and positions - self.languages.tag_count(side=1)

    @property
    def batch_tokens(self) -> int:
        """decoding.batch_tokens as a number."""
        return batch_tokens(self.engine, self.decoding)

    def longest_output(self, source: int) -> int:
        """The most subwords of an output for a source of `source` subwords."""
        return self.decoding.longest_output(source, self.positions)

    def translate(
        self, lines: Sequence[str], *, markup: Markup | None = None, to: str | None = None, from_: str | None = None
    ) -> list[str]:
        """The best translation of each line. markup: each line is a text with tags, such as a sentence or a document,
        and so is its translation; it can have line breaks. Raises as `stream` does."""
        return list(self.stream(lines, markup=markup, read_ahead=True, to=to, from_=from_))

    def hypotheses(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        *,
        alignment: bool = False,
        token_scores: bool = True,
        prefixes: Sequence[str] | None = None,
        keep: Sequence[str] = (),
        glossary: Glossary | None = None,
        to: str | None = None,
        from_: str | None = None,
    ) -> list[list[Translation]]:
        """The n best translations of each line, best first. Beam search gives different texts, and fewer than n where
        the beam has fewer; samples may be equal. prefixes: for each line, the text that its translations begin with.
        token_scores: if False, `pieces` and `token_scores` may be empty, which saves CTranslate2 a second pass. keep:
        protected text, besides decoding.keep. glossary: in place of the translator's. Raises as `stream_hypotheses`."""
        stream = partial(self.stream_hypotheses, prefixes=prefixes, keep=keep, glossary=glossary, to=to, from_=from_)
        return list(stream(lines, n_best, alignment=alignment, token_scores=token_scores, read_ahead=True))

    def stream(
        self,
        lines: Iterable[str],
        chunk_lines: int | None = None,
        *,
        markup: Markup | None = None,
        prefixes: Iterable[str] | None = None,
        first: int = 1,
        read_ahead: bool = False,
        to: str | None = None,
        from_: str | None = None,
    ) -> Iterator[str]:
        """`translate` for any number of lines: yields one translation for each, in order.

        At most chunk_lines (default: `lines_together`) are read before the first translation is yielded; with 1, each
        line is answered at once. read_ahead: a second chunk may be read before that, so that an engine with its own
        threads always has work. first: the line number of the first line, for messages. Without markup, no translation
        contains a line break or a tab.

        Raises NmtError for a line over decoding.max_source_tokens if decoding.long_input is `error`, if there are more
        or fewer prefixes than lines, for languages as `LanguagePairs.choose`, if memory runs out, and for a model whose
        scores are not numbers; TypeError for a string in place of lines.
        """
        _check_lines(lines)
        pair = self.languages.choose(to, from_)
        if markup is not None:
            if prefixes is not None:
                raise NmtError("texts with tags cannot have prefixes: leave out one of the two")
            yield from self._marked(lines, chunk_lines, markup, to, from_)
            return
        request = TranslateRequest(
            self.decoding,
            pair,
            scores=False,
            chunk_lines=chunk_lines,
            prefixes=prefixes,
            glossary=self.glossary,
            first=first,
            read_ahead=read_ahead,
        )
        for translations in self._translations(lines, request):
            yield translations[0].text

    def stream_hypotheses(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        chunk_lines: int | None = None,
        *,
        alignment: bool = False,
        token_scores: bool = True,
        prefixes: Iterable[str] | None = None,
        keep: Sequence[str] = (),
        glossary: Glossary | None = None,
        first: int = 1,
        read_ahead: bool = False,
        to: str | None = None,
        from_: str | None = None,
    ) -> Iterator[list[Translation]]:
        """`hypotheses` for any number of lines, as `stream`. Also raises NmtError if n_best is above the beam size or
        1000."""
        if self.decoding.method == "beam" and n_best > (beam := self.decoding.beam_size):
            raise NmtError(f"n_best of {n_best} is above decoding.beam_size: {beam}: raise decoding.beam_size")
        if n_best > _MOST_SAMPLES:
            raise NmtError(f"{n_best} samples of each line: ask for at most {_MOST_SAMPLES}")
        request = TranslateRequest(
            replace(self.decoding, keep=(*self.decoding.keep, *keep)),
            self.languages.choose(to, from_),
            n_best,
            token_scores=token_scores or alignment,
            alignment=alignment,
            chunk_lines=chunk_lines,
            prefixes=prefixes,
            glossary=glossary or self.glossary,
            first=first,
            read_ahead=read_ahead,
        )
        yield from self._translations(lines, request)

    def _translations(self, lines: Iterable[str], request: TranslateRequest) -> Iterator[list[Translation]]:
        """The n best translations of each line."""
        # Asked before the first search begins, because a search takes memory.
        tokens = self.batch_tokens
        begin, glossary, target = partial(self._begin, request, tokens), request.glossary, self.vocabulary.target
        for inputs, hypotheses in results(self._inputs(lines, request, tokens), begin, request.read_ahead):
            translations = translation.line_translations(hypotheses, target, inputs.parts, glossary is not None)
            if self.calibration is not None and request.scores:
                translations = [list(map(self.calibration.rated, line)) for line in translations]
            for i in inputs.capitals:
                language = request.pair.target
                translations[i] = [replace(one, text=in_capitals(one.text, language)) for one in translations[i]]
            if request.alignment:
                with self._searching(tokens):
                    weights = self.engine.align(translation.alignment_pairs(inputs.parts, hypotheses), tokens)
                translation.add_alignment(translations, weights, inputs.parts, self.vocabulary.source)
            if inputs.protected:
                self._restore(inputs, translations, request)
            if glossary is not None and request.counted:
                first = inputs.first if request.numbered else None
                self.counts += LineCounts(terms=counted(inputs.parts, translations, glossary, first))
            yield from translations

    def _restore(self, inputs: Inputs, translations: list[list[Translation]], request: TranslateRequest) -> None:
        """Translate the lines whose translations lack protected text again, without that text, and restore it."""
        without, aligns = replace(request.decoding, keep=()), self.engine.aligns
        again = TranslateRequest(
            without, request.pair, request.n_best, alignment=aligns, glossary=request.glossary, counted=False
        )
        translate = partial(self._translations, request=again)
        self.counts.restored += masking.restore(inputs.protected, translations, request.decoding.keep, translate)

    def _marked(
        self, lines: Iterable[str], chunk_lines: int | None, markup: Markup, to: str | None, from_: str | None
    ) -> Iterator[str]:
        """The translation of each text with tags."""
        source = self.languages.choose(to, from_).source
        for chunk in chunked(lines, chunk_lines or lines_together(self.batch_tokens, self.engine.on_cuda)):
            texts = [MarkedText(line, source, markup) for line in chunk]
            marked_lines = list(chain(*(text.lines for text in texts)))
            written = (line for line, _ in self.with_tags(marked_lines, to=to, from_=from_))
            for text in texts:
                yield text.with_lines(list(islice(written, len(text.lines))))

    def with_tags(self, lines: Sequence[MarkedLine], *, to: str | None = None, from_: str | None = None) -> list[Rated]:
        """The translations of lines of a MarkedText, with their tags. Raises as `stream` does."""
        written, patterns = dict[int, Rated](), (*self.decoding.keep, "verbatim")
        pair, glossary = self.languages.choose(to, from_), self.glossary
        request = TranslateRequest(self.decoding, pair, glossary=glossary, numbered=False, read_ahead=True)
        for with_elements in (False, True):  # only lines with elements need an alignment
            indices = [i for i, line in enumerate(lines) if bool(line.elements) == with_elements]
            request = replace(request, alignment=with_elements and self.engine.aligns, token_scores=with_elements)
            translations = self._translations([lines[i].text for i in indices], request)
            for i, [best] in zip(indices, translations, strict=True):
                written[i] = lines[i].translated(best, patterns), best.confidence
        return [written[i] for i in range(len(lines))]

    def as_read(self, lines: Sequence[str], pair: LanguagePair) -> list[str]:
        """The lines as the model reads them (see decoding.capitals)."""
        builder = self._builder(TranslateRequest(self.decoding, pair, glossary=self.glossary))
        lower_case = builder.lower_case(list(lines), [""] * len(lines))
        return [lower_case.get(i, line) for i, line in enumerate(lines)]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, to: str | None = None, from_: str | None = None
    ) -> list[Translation | None]:
        """Score each target as a translation of its source: log P of every subword.

        Returns None, and counts the pair as skipped, if the source is longer than `longest_source`, or the target is
        longer than any output for the longest source, with these settings or the defaults. An empty target of a source
        without words has score 0. Any other pair has the model's own probability, also a target that the settings of
        decoding exclude.
        Raises NmtError if there are not as many targets as sources, or memory runs out.
        """
        _check_lines(sources)
        _check_lines(targets)
        if len(sources) != len(targets):
            raise NmtError(f"{len(sources)} sources and {len(targets)} targets: give one target for each source")
        source_ids = self.vocabulary.source.encode(list(sources))
        target_ids = self.vocabulary.target.encode(list(targets))
        pair, longest = self.languages.choose(to, from_), self.longest_source
        tags, start = (self.languages.tags(pair, side) for side in (0, 1))
        default = DecodingConfig().longest_output(longest or 0, self.positions)
        longest_target = max(default, self.longest_output(longest or 0))
        translations: list[Translation | None] = [None for _ in targets]
        pairs: dict[int, Pair] = {}
        for i, (ids, target) in enumerate(zip(source_ids, target_ids, strict=True)):
            self.counts.lines += 1
            if not target and is_empty(sources[i], ids):
                self.counts.empty += 1
                translations[i] = Translation(targets[i], 0.0, 0.0, [], [])
            elif longest is None or (len(ids) <= longest and len(target) <= longest_target):
                pairs[i] = tags + ids, start + target
            else:
                self.counts.skipped += 1
        with self._searching():
            scores = self.engine.score(list(pairs.values()), self.batch_tokens)
        penalties = length_penalties(max(map(len, scores), default=0), self.decoding)
        for i, token_scores in zip(pairs, scores, strict=True):
            hypothesis = Hypothesis.scored(target_ids[i], token_scores[len(start) :], penalties)  # not language tokens
            text, length = [targets[i]], len(pairs[i][0]) + 1
            [translations[i]] = translation.translations([hypothesis], text, self.vocabulary.target, length, False)
        return translations

    def encode(self, lines: Sequence[str], *, to: str | None = None, from_: str | None = None) -> list[Tensor]:
        """The encoder's output for each line, float32 on the CPU, [subwords + 1, width], the end of sentence last;
        language tokens are subwords too. With an ensemble, it is the output of the first model.

        Raises NmtError for a line over `longest_source`, and for an exported folder.
        """
        _check_lines(lines)
        sources = self.vocabulary.source.encode(list(lines))
        longest, tags = self.longest_source, self.languages.tags(self.languages.choose(to, from_))
        for line_number, ids in enumerate(sources, start=1):
            if longest is not None and len(ids) > longest:
                raise NmtError(f"line {line_number}: {len(ids)} subwords, more than {longest}: shorten or split it")
        with self._searching():
            return self.engine.encode([tags + ids for ids in sources], self.batch_tokens)

    def _builder(self, request: TranslateRequest) -> InputBuilder:
        pair = request.pair
        limits = self.positions, self.longest_source, self.splitter(pair.source)
        tags, start = (self.languages.tags(pair, side) for side in (0, 1))
        glossary, decoding = request.glossary, request.decoding
        return InputBuilder(self.vocabulary, decoding, *limits, glossary, LineCounts(), tags, start, pair)

    @contextmanager
    def _searching(self, batch_tokens: int | None = None) -> Iterator[None]:
        """Only one thread at a time searches. Waiting costs no time, because one search uses every core; an engine's
        own threads continue. Raises NmtError if memory runs out, or if another process loaded the model: its threads
        and GPU memory do not exist in this process. batch_tokens: for the message; None: `self.batch_tokens`."""
        if os.getpid() != self._process:
            raise NmtError("this process was forked after the model was loaded: call nmt.load in each process")
        tokens, beam = batch_tokens or self.batch_tokens, self.decoding.beam_size
        message = f"out of memory with decoding.batch_tokens: {tokens} and decoding.beam_size: {beam}: lower one"
        with _computing, explaining_out_of_memory(lambda: message):
            yield

    def _inputs(self, lines: Iterable[str], request: TranslateRequest, batch_tokens: int) -> Iterator[Inputs]:
        """The inputs of each chunk of lines."""
        _check_lines(lines)
        if request.prefixes is not None:
            _check_lines(request.prefixes)
        chunk_lines = request.chunk_lines or lines_together(batch_tokens, self.engine.on_cuda)
        for start, chunk, prefixes in with_prefixes(chunked(lines, chunk_lines), request.prefixes, request.first):
            with self._searching(batch_tokens):
                inputs = self._builder(request).build(chunk, prefixes, start)
            yield inputs

    def _begin(self, request: TranslateRequest, batch_tokens: int, inputs: Inputs) -> Callable[[], _Searched]:
        """Begin to search a chunk. The returned function gives the hypotheses of each line."""
        sources, options = inputs.sources, request.search_options(self._banned_words(request.decoding.banned))
        with self._searching(batch_tokens):
            finish_search = self.engine.begin_search(sources, options, batch_tokens)
        selector = NBestSelector(self.engine, self.vocabulary.target, options, request.n_best, batch_tokens)

        def finish() -> _Searched:
            on_lines = self.on_lines if request.counted else _ignore
            with self._searching(batch_tokens), reporting(self.engine, inputs.lines, len(sources), on_lines):
                hypotheses = selector.select(inputs, finish_search())
                if request.glossary is not None:
                    placer = TermPlacer(self.engine, self.vocabulary, options, batch_tokens, request.pair.target)
                    hypotheses = placer.placed(sources, hypotheses)
                if request.counted:
                    self.counts += inputs.counts
            return inputs, selector.join(inputs, hypotheses)

        return finish


def _ignore(count: int) -> None:
    """Report nothing."""


def _check_lines(lines: Iterable[str]) -> None:
    if isinstance(lines, str):
        raise TypeError("expected a list of lines, not a string: for one line, give [line]")
