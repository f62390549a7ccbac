"""Text in, text out: a model as a translator."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from nmt.config import schema
from nmt.config.language_pairs import LanguagePair, LanguagePairs
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.decoding import forked, translation, unwritable
from nmt.decoding.capitals import in_capitals
from nmt.decoding.choice import Choice
from nmt.decoding.chunks import LineCounts, chunked, lines_together, reporting, results, with_prefixes
from nmt.decoding.engine_protocol import Engine, Pair, batch_tokens
from nmt.decoding.glossary import Glossary
from nmt.decoding.kept_items import is_kept
from nmt.decoding.language_choice import LanguageChoice
from nmt.decoding.long_input import Splitter, shortest
from nmt.decoding.search.options import Hypothesis, Options, length_penalties
from nmt.decoding.search_inputs import InputBuilder, Inputs, is_empty, search_options
from nmt.decoding.target_words import TargetWords
from nmt.decoding.translation import Translation as Translation
from nmt.device import explaining_out_of_memory
from nmt.errors import NmtError

if TYPE_CHECKING:
    from torch import Tensor

    from nmt.decoding.markup.blocks import Markup
    from nmt.decoding.markup.marked_text import MarkedLine


_MOST_SAMPLES = 1000  # of a line; also the largest beam
_Searched = tuple[Inputs, list[list[Hypothesis]]]  # of a chunk: the hypotheses of each line


class Translator:
    """An engine, its vocabulary and the settings for decoding. `decoding` and `glossary` may be replaced; `counts`
    grow with each chunk that is translated. Several threads may call a translator at once: they take turns, chunk by
    chunk. What is replaced is used from the next chunk that is begun; with read_ahead, one has begun already.

    to, from_: codes of languages. A model of several pairs needs them where there is a choice, in each call or once in
    `languages.use`."""

    def __init__(
        self,
        engine: Engine,
        vocabulary: Vocabulary,
        decoding: schema.DecodingConfig,
        languages: LanguagePairs | None = None,
        source_text: SourceText | None = None,
    ):
        """source_text: that the model was trained on: longer lines are split."""
        self.engine, self.vocabulary, self.decoding, self.source_text = engine, vocabulary, decoding, source_text
        self.words = TargetWords(vocabulary.target)
        self.languages = LanguageChoice(languages, vocabulary)
        self.counts = LineCounts()
        self.on_lines: Callable[[int], object] = lambda count: None  # called with how many more lines are searched
        self.glossary: Glossary | None = None  # see use_glossary

    def use_glossary(self, glossary: Glossary, name: str) -> None:
        """Translate with a glossary; `name` stands for it in messages. Target terms that the vocabulary cannot write
        as they are, are named in a warning."""
        self.glossary = glossary
        unwritable.warn(f"{name}: target terms", glossary.targets, self.vocabulary.target)

    def keeping(self, patterns: tuple[str, ...]) -> "Translator":
        """This translator with these patterns as decoding.keep, and counts of its own."""
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.counts, other.decoding = LineCounts(), dataclasses.replace(self.decoding, keep=patterns)
        return other

    @property
    def digests(self) -> Mapping[Path, str]:
        """Of the model files that it was loaded from: none of one that was made of its parts."""
        return {}

    @property
    def longest_source(self) -> int | None:
        """The most subwords of a source that is not split or cut: decoding.max_source_tokens, or fewer if the model
        has learned fewer positions; None: no limit. The tokens of languages are not counted."""
        positions, tags = self.engine.positions, self.languages.tag_count()
        return shortest((self.decoding.max_source_tokens, positions and positions - tags))

    @property
    def longest_part(self) -> int | None:
        """The most subwords of a source that is translated in one piece: as `longest_source`, or those of the text that
        the model was trained on where longer lines are split."""
        longest = self.source_text.longest if self.source_text and self.decoding.long_input == "split" else None
        return shortest((self.longest_source, longest))

    def splitter(self, source: str) -> Splitter:
        """What splits lines of this language."""
        known = self.source_text
        several, words = (known.several, known.first_words.get(source, ())) if known else (None, ())
        return Splitter(self.longest_part, several, source, frozenset(words), self.vocabulary.source.encode)

    @property
    def positions(self) -> int | None:
        """The longest output that the model has positions for, after the tokens of languages; None: no limit."""
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
        self, lines: Sequence[str], *, markup: "Markup | None" = None, to: str | None = None, from_: str | None = None
    ) -> list[str]:
        """The best translation of each line. markup: each is a text with tags, such as a sentence or a document, and so
        is its translation; it can have line breaks. Raises as `stream` does."""
        return list(self.stream(lines, markup=markup, read_ahead=True, to=to, from_=from_))

    def hypotheses(
        self,
        lines: Sequence[str],
        n_best: int = 1,
        *,
        alignment: bool = False,
        token_scores: bool = True,
        prefixes: Sequence[str] | None = None,
        to: str | None = None,
        from_: str | None = None,
    ) -> list[list[Translation]]:
        """The n best translations of each line, best first. Beam search gives different texts, and fewer than n where
        the beam has fewer; samples may be equal. prefixes: for each line, the text that its translations
        begin with. token_scores: if False, `pieces` and `token_scores` may be empty, which saves CTranslate2 a second
        pass. Raises as `stream_hypotheses` does."""
        details = {"alignment": alignment, "token_scores": token_scores, "read_ahead": True}
        return list(self.stream_hypotheses(lines, n_best, **details, prefixes=prefixes, to=to, from_=from_))

    def stream(
        self,
        lines: Iterable[str],
        chunk_lines: int | None = None,
        *,
        markup: "Markup | None" = None,
        prefixes: Iterable[str] | None = None,
        first: int = 1,
        read_ahead: bool = False,
        to: str | None = None,
        from_: str | None = None,
    ) -> Iterator[str]:
        """`translate` for any number of lines: yields one translation for each, in order.

        At most chunk_lines (default: `lines_together`) are read before the first translation is yielded: 1 answers line
        by line. read_ahead: a second chunk may be read before that, so that an engine with threads of its own always
        has something to search. `first` is the number of the first line, for messages. Without markup, no translation
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
        inputs_of = self._inputs(lines, chunk_lines, prefixes, first, pair)
        begin = partial(self._begin, n_best=1, scores=False)
        for inputs, chunk in results(inputs_of, begin, read_ahead):
            texts = translation.texts([hypotheses[0] for hypotheses in chunk], self.vocabulary.target)
            for place in inputs.capitals:
                texts[place] = in_capitals(texts[place], pair.target)
            if inputs.kept:
                for place, [best] in self._with_kept(inputs, [[text] for text in texts], 1).items():
                    texts[place] = best.text
            yield from texts

    def stream_hypotheses(
        self,
        lines: Iterable[str],
        n_best: int = 1,
        chunk_lines: int | None = None,
        *,
        alignment: bool = False,
        token_scores: bool = True,
        prefixes: Iterable[str] | None = None,
        first: int = 1,
        read_ahead: bool = False,
        to: str | None = None,
        from_: str | None = None,
    ) -> Iterator[list[Translation]]:
        """`hypotheses` for any number of lines, as `stream`; also NmtError if n_best is above the beam or 1000."""
        if self.decoding.method == "beam" and n_best > (beam := self.decoding.beam_size):
            raise NmtError(f"n_best of {n_best} is above decoding.beam_size: {beam}: raise decoding.beam_size")
        if n_best > _MOST_SAMPLES:
            raise NmtError(f"{n_best} samples of each line: ask for at most {_MOST_SAMPLES}")
        details, pair = token_scores or alignment, self.languages.choose(to, from_)
        inputs_of = self._inputs(lines, chunk_lines, prefixes, first, pair)
        begin = partial(self._begin, n_best=n_best, token_scores=details)
        for inputs, chunk in results(inputs_of, begin, read_ahead):
            of_lines = [translation.texts(hypotheses, self.vocabulary.target) for hypotheses in chunk]
            for place in inputs.capitals:
                of_lines[place] = [in_capitals(text, pair.target) for text in of_lines[place]]
            with_texts = zip(chunk, of_lines, strict=True)
            translations = [translation.translations(*each, self.vocabulary.target) for each in with_texts]
            if alignment:
                with self._computing():
                    weights = self.engine.align(translation.pairs_of(inputs.parts, chunk), self.batch_tokens)
                translation.add_alignment(translations, weights, inputs.parts, self.vocabulary.source)
            if inputs.kept:
                for place, instead in self._with_kept(inputs, of_lines, n_best).items():
                    translations[place] = instead
            yield from translations

    def _with_kept(self, inputs: Inputs, texts: Sequence[list[str]], n_best: int) -> dict[int, list[Translation]]:
        """Of the lines of which a text lacks something that is to be kept: translations without it, into which it was
        put, by their places."""
        patterns, pair = self.decoding.keep, inputs.languages
        lacking = {
            place: line
            for place, line in inputs.kept.items()
            if not all(is_kept(line, text, patterns) for text in texts[place])
        }
        if not lacking:
            return {}
        from nmt.decoding.markup import masking  # here: most models keep it

        lines = {place: masking.masked(line, patterns) for place, line in lacking.items()}
        other = self.keeping(())  # which counts nothing here
        other.on_lines = lambda count: None
        to, from_ = pair.target or None, pair.source or None
        without = [line for line, _ in lines.values()]
        found = other.hypotheses(without, n_best, alignment=self.engine.aligns, to=to, from_=from_)
        self.counts.restored += len(lacking)
        return {
            place: [
                dataclasses.replace(each, text=masking.unmasked(line, elements, each, lacking[place], patterns))
                for each in translations
            ]
            for (place, (line, elements)), translations in zip(lines.items(), found, strict=True)
        }

    def _marked(
        self, lines: Iterable[str], chunk_lines: int | None, markup: "Markup", to: str | None, from_: str | None
    ) -> Iterator[str]:
        """The translation of each text with tags."""
        from nmt.decoding.markup.marked_text import MarkedText  # here: most texts have none

        source = self.languages.choose(to, from_).source
        for chunk in chunked(lines, chunk_lines or lines_together(self.batch_tokens, self.engine.on_cuda)):
            texts = [MarkedText(line, source, markup) for line in chunk]
            written = iter(self.with_tags([line for text in texts for line in text.lines], to=to, from_=from_))
            for text in texts:
                yield text.with_lines(list(islice(written, len(text.lines))))

    def with_tags(self, lines: Sequence["MarkedLine"], *, to: str | None = None, from_: str | None = None) -> list[str]:
        """The translations of lines of a MarkedText, with their tags. Raises as `stream` does."""
        found, keep = dict[int, str](), (*self.decoding.keep, "verbatim")
        for with_elements in (False, True):  # only these need an alignment
            places = [place for place, line in enumerate(lines) if bool(line.elements) == with_elements]
            aligned = with_elements and self.engine.aligns
            texts = [lines[place].text for place in places]
            of_lines = self.stream_hypotheses(
                texts, alignment=aligned, token_scores=False, read_ahead=True, to=to, from_=from_
            )
            of_places = zip(places, of_lines, strict=True)
            found |= {place: lines[place].translated(best, keep) for place, [best] in of_places}
        return [found[place] for place in range(len(lines))]

    def as_read(self, lines: Sequence[str], pair: LanguagePair) -> list[str]:
        """The lines as the model reads them: those in capitals in small letters, as `decoding.capitals` says."""
        small = self._builder(pair).small(list(lines), [""] * len(lines))
        return [small.get(place, line) for place, line in enumerate(lines)]

    def score(
        self, sources: Sequence[str], targets: Sequence[str], *, to: str | None = None, from_: str | None = None
    ) -> list[Translation | None]:
        """Score each target as a translation of its source: log P of every subword.

        None, counted as skipped, if the source is longer than `longest_source`, or the target is longer than an output
        for the longest source, with these settings or with the defaults. An empty target of a source without words has
        score 0; any other pair has the model's own probability, also a target that the settings for decoding exclude.
        Raises NmtError if there are not as many targets as sources, or memory runs out.
        """
        _check_lines(sources)
        _check_lines(targets)
        if len(sources) != len(targets):
            raise NmtError(f"{len(sources)} sources and {len(targets)} targets: give one target for each source")
        encoded = self.vocabulary.source.encode(list(sources)), self.vocabulary.target.encode(list(targets))
        pair, longest = self.languages.choose(to, from_), self.longest_source
        tags, start = (self.languages.tags(pair, side) for side in (0, 1))
        default = schema.DecodingConfig().longest_output(longest or 0, self.positions)
        most = max(default, self.longest_output(longest or 0))
        translations: list[Translation | None] = [None for _ in targets]
        fitting: dict[int, Pair] = {}
        for place, (ids, target) in enumerate(zip(*encoded, strict=True)):
            self.counts.lines += 1
            if not target and is_empty(sources[place], ids):
                self.counts.empty += 1
                translations[place] = Translation(targets[place], 0.0, 0.0, [], [])
            elif longest is None or (len(ids) <= longest and len(target) <= most):
                fitting[place] = tags + ids, start + target
            else:
                self.counts.skipped += 1
        pairs = list(fitting.values())
        with self._computing():
            scores = self.engine.score(pairs, self.batch_tokens)
        by_length = length_penalties(max(map(len, scores), default=0), self._options(1))
        own, of_pairs = len(start), zip(pairs, scores, strict=True)  # the tokens of languages are not scored
        hypotheses = [Hypothesis.scored(target[own:], each[own:], by_length) for (_, target), each in of_pairs]
        scored = translation.translations(hypotheses, [targets[place] for place in fitting], self.vocabulary.target)
        for place, translated in zip(fitting, scored, strict=True):
            translations[place] = translated
        return translations

    def encode(self, lines: Sequence[str], *, to: str | None = None, from_: str | None = None) -> list["Tensor"]:
        """The encoder's output for each line, float32 on the CPU, [subwords + 1, width], the end of sentence last; the
        tokens of languages are subwords too.

        With an ensemble, that of the first model. Raises NmtError for a line over `longest_source`, and for an
        exported folder.
        """
        _check_lines(lines)
        sources = self.vocabulary.source.encode(list(lines))
        longest, tags = self.longest_source, self.languages.tags(self.languages.choose(to, from_))
        for number, ids in enumerate(sources, start=1):
            if longest is not None and len(ids) > longest:
                raise NmtError(f"line {number}: {len(ids)} subwords, more than {longest}: shorten or split it")
        with self._computing():
            return self.engine.encode([tags + ids for ids in sources], self.batch_tokens)

    def _builder(self, pair: LanguagePair) -> InputBuilder:
        limits = self.positions, self.longest_source, self.splitter(pair.source)
        tags, start = (self.languages.tags(pair, side) for side in (0, 1))
        return InputBuilder(self.vocabulary, self.decoding, *limits, self.glossary, LineCounts(), tags, start, pair)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        """For one thread at a time: all share PyTorch's number of threads, the model's mode and the counts. Waiting
        costs nothing, because one search uses every core; only what CTranslate2's own threads search goes on.
        Raises NmtError if memory runs out."""
        tokens, beam = self.batch_tokens, self.decoding.beam_size
        message = f"out of memory with decoding.batch_tokens: {tokens} and decoding.beam_size: {beam}: lower one"
        with forked.in_turn(), explaining_out_of_memory(lambda: message):
            yield

    def _inputs(
        self,
        lines: Iterable[str],
        chunk_lines: int | None,
        prefixes: Iterable[str] | None,
        first: int,
        pair: LanguagePair,
    ) -> Iterator[Inputs]:
        """The inputs of each chunk of lines."""
        _check_lines(lines)
        if prefixes is not None:
            _check_lines(prefixes)
        chunks = chunked(lines, chunk_lines or lines_together(self.batch_tokens, self.engine.on_cuda))
        for start, chunk, given in with_prefixes(chunks, prefixes, first):
            with self._computing():
                inputs = self._builder(pair).build(chunk, given, start)
            yield inputs

    def _begin(
        self, inputs: Inputs, n_best: int, *, scores: bool = True, token_scores: bool = True
    ) -> Callable[[], _Searched]:
        """Begin to search a chunk; what is returned gives the hypotheses of each line."""
        sources, options = inputs.sources, self._options(n_best, scores, token_scores)
        with self._computing():
            begun = self.engine.begin_search(sources, options, self.batch_tokens)

        choice = Choice(self.engine, self.vocabulary.target, self.decoding, options, n_best, self.batch_tokens)

        def finish() -> _Searched:
            with self._computing(), reporting(self.engine, inputs.lines, len(sources), self.on_lines):
                hypotheses = choice.of_sources(inputs, begun())
                self.counts += inputs.counts
            return inputs, choice.of_lines(inputs, hypotheses)

        return finish

    def _options(self, n_best: int, scores: bool = True, token_scores: bool = True) -> Options:
        banned = self.words.banned(self.decoding.banned)
        of_terms: tuple[frozenset[int], Sequence[str]] = (frozenset(), ())
        if self.glossary is not None:
            of_terms = self.words.continuing, self.words.spellings
        return search_options(self.decoding, n_best, banned, *of_terms, scores=scores, token_scores=token_scores)


def _check_lines(lines: Iterable[str]) -> None:
    if isinstance(lines, str):
        raise TypeError("expected a list of lines, not a string: for one line, give [line]")
