"""Puts the target terms of a glossary into translations: in place of the words that are aligned to the source term.

A model translates a line as always. Where its translation of a term is another word than the glossary's, the target
term replaces that word: of several forms, the one that is most probable there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.decoding.chunks import LineCounts
from nmt.decoding.engine_protocol import Engine, SearchInput
from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Element, Span
from nmt.decoding.markup.placement import place_elements
from nmt.decoding.search.options import Hypothesis, SearchOptions, length_penalties
from nmt.decoding.translation import Translation, source_alignment
from nmt.terms.glossary import Term
from nmt.terms.used_term import UsedTerm

_LEAST_SHARE = 0.25  # of the attention of the words that a term replaces


@dataclass(frozen=True)
class _Place:
    """A term in a line, and the words of the translation that are aligned to it. share: of the attention of these
    words that the source term has."""

    term: Term
    found_as: str
    span: Span
    share: float


@dataclass(frozen=True)
class TermPlacer:
    """Puts terms into the hypotheses of a search with these options."""

    engine: Engine
    vocabulary: Vocabulary
    options: SearchOptions
    batch_tokens: int

    def placed(
        self, sources: Sequence[SearchInput], results: Sequence[list[Hypothesis]], counts: LineCounts
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source with the target terms of its terms. Counts the terms of the best ones."""
        indices = [(i, n) for i, source in enumerate(sources) if source.terms for n in range(len(results[i]))]
        hypotheses = [results[i][n] for i, n in indices]
        pairs = [sources[i].pair(results[i][n].tokens) for i, n in indices]
        texts = self.vocabulary.target.decode([hypothesis.tokens for hypothesis in hypotheses])
        new = [list(line) for line in results]
        alignments = self.engine.align(pairs, self.batch_tokens) if pairs else []
        for (i, n), hypothesis, text, weights in zip(indices, hypotheses, texts, alignments, strict=True):
            source = sources[i]
            places = self._places(source, hypothesis, text, weights[len(source.start) :])
            new[i][n] = self._with_terms(source, hypothesis, text, places)
            if not n:
                counts.terms += len(places)
                counts.missing += sum(used.how == "failed" for used in new[i][n].terms)
        return new

    def _places(
        self, source: SearchInput, hypothesis: Hypothesis, text: str, weights: list[list[float]]
    ) -> list[_Place]:
        pieces = self.vocabulary.target.pieces([*hypothesis.tokens, EOS])
        source_pieces, weights = source_alignment(self.vocabulary.source, source.ids, weights)
        aligned = Translation(text, 0.0, 0.0, pieces, [], source_pieces, weights)
        words = AlignedWords.from_translation(source.text, aligned, elements=len(source.terms))
        elements = [Element(found.start, found.stop, "") for found in source.terms]
        places = []
        for found, span in zip(source.terms, place_elements(elements, words, {}), strict=True):
            columns = [i for i, word in enumerate(words.source) if word[0] < found.stop and found.start < word[1]]
            rows = [i for i, word in enumerate(words.target) if word[0] < span[1] and span[0] < word[1]]
            share = float(words.weights[np.ix_(rows, columns)].sum(axis=1).mean()) if rows and columns else 0.0
            places.append(_Place(found.term, found.found_as, span, share))
        return places

    def _with_terms(
        self, source: SearchInput, hypothesis: Hypothesis, text: str, places: Sequence[_Place]
    ) -> Hypothesis:
        used = [UsedTerm(place.term.source, place.term.target, "failed", place.found_as) for place in places]
        for k in sorted(range(len(places)), key=lambda k: places[k].span, reverse=True):
            place = places[k]
            start, stop = place.span
            own = next((form for form in place.term.targets if form.casefold() == text[start:stop].casefold()), None)
            if own is not None:
                used[k] = replace(used[k], target=own, how="own")
            elif place.share >= _LEAST_SHARE:
                forms = [form if start else form[:1].upper() + form[1:] for form in place.term.targets]
                scores = [self._scored(source, text[:start] + form + text[stop:]) for form in forms]
                hypothesis = max(scores, key=lambda scored: scored.log_probability)
                form = forms[scores.index(hypothesis)]
                text = text[:start] + form + text[stop:]
                used[k] = replace(used[k], target=form, how="placed")
        return replace(hypothesis, terms=tuple(used))

    def _scored(self, source: SearchInput, text: str) -> Hypothesis:
        [ids] = self.vocabulary.target.encode([text])
        [scores] = self.engine.score([source.pair(ids)], self.batch_tokens)
        scores = scores[len(source.start) :]
        return Hypothesis.scored(ids, scores, length_penalties(len(scores), self.options.decoding))
