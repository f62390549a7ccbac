"""Puts the target terms of a glossary into translations: in place of the words that translate the source terms.

A model translates a line as usual, and most translations have the target terms. Elsewhere a target term replaces the
word for the source term: of several forms, the one that is most probable there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf

import numpy as np

from nmt.config.special_subwords import TERM_TAGS
from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.decoding.engine_protocol import Engine, Pair, SearchInput
from nmt.decoding.markup.aligned_words import MOST_WEIGHTS, AlignedWords, word_spans
from nmt.decoding.markup.elements import Span, overlap
from nmt.decoding.protected_text import protected_spans
from nmt.decoding.search.options import Hypothesis, SearchOptions, length_penalties
from nmt.decoding.term_places import Influence, Place, place_by_attention, place_by_influence
from nmt.decoding.term_texts import edited, in_case, own_places
from nmt.decoding.translation import Translation, source_alignment
from nmt.terms.lexicon import are_forms
from nmt.terms.used_term import How, UsedTerm


@dataclass
class _Draft:
    """A hypothesis, its text and the terms of its source. places: of the terms in the text, by their indices; doubtful:
    the terms whose place the attention does not show clearly, with their best place; used: what became of each term."""

    source: SearchInput
    hypothesis: Hypothesis
    text: str
    places: dict[int, Place | Span]  # a span: the model's translation has the term there
    fixed: list[Span] = field(default_factory=list)  # of the prefix and of protected text
    doubtful: dict[int, Place] = field(default_factory=dict)
    used: list[UsedTerm] = field(init=False)

    def __post_init__(self) -> None:
        self.used = [UsedTerm(one.term.source, one.term.target, "failed", one.found_as) for one in self.source.terms]

    @property
    def missing(self) -> list[int]:
        """The terms without a place."""
        return [k for k in range(len(self.used)) if k not in self.places]

    def use(self, k: int, how: How, target: str) -> None:
        """Note what became of a term."""
        self.used[k] = replace(self.used[k], target=target, how=how)

    def taken(self) -> list[Span]:
        """The spans that are not free for other terms."""
        spans = (place.span if isinstance(place, Place) else place for place in self.places.values())
        return [*self.fixed, *spans]


@dataclass(frozen=True)
class TermPlacer:
    """Puts terms into the hypotheses of a search with these options. language: of the translations."""

    engine: Engine
    vocabulary: Vocabulary
    options: SearchOptions
    batch_tokens: int
    language: str

    def placed(self, sources: Sequence[SearchInput], results: Sequence[list[Hypothesis]]) -> list[list[Hypothesis]]:
        """The hypotheses of each source with the target terms of its terms. Without an alignment, no word is
        replaced."""
        hypotheses = [
            (source, one) for source, line in zip(sources, results, strict=True) for one in line if source.terms
        ]
        texts = self.vocabulary.target.decode([hypothesis.tokens for _, hypothesis in hypotheses])
        drafts = list[_Draft]()
        for (source, hypothesis), text in zip(hypotheses, texts, strict=True):
            own = own_places(text, source.terms, self.language)
            draft = _Draft(source, hypothesis, text, dict(own))
            for k, span in own.items():
                draft.use(k, self._own, text[slice(*span)])
            drafts.append(draft)
        if incomplete := [draft for draft in drafts if draft.missing and self._can_align(draft)]:
            self._find_places(incomplete)
            self._write(incomplete)
        new = (replace(draft.hypothesis, terms=tuple(draft.used)) for draft in drafts)
        lines = zip(sources, results, strict=True)
        return [list(islice(new, len(line))) if source.terms else line for source, line in lines]

    def _can_align(self, draft: _Draft) -> bool:
        source = max(len(draft.source.ids) + 1, len(draft.source.terms))
        return self.engine.aligns and (len(draft.hypothesis.tokens) + 1) * source <= MOST_WEIGHTS

    @property
    def _own(self) -> How:
        """How a model writes a target term by itself."""
        return "own" if self.vocabulary.source.tag(TERM_TAGS[0]) is None else "learned"

    def _find_places(self, drafts: Sequence[_Draft]) -> None:
        """Find the places of missing terms: those that the attention shows clearly first."""
        [*prefixes] = self.vocabulary.target.decode([list(draft.source.prefix) for draft in drafts])
        aligned = list(self._aligned(drafts))
        keep = self.options.decoding.keep
        for draft, words, prefix in zip(drafts, aligned, prefixes, strict=True):
            draft.fixed = [(0, len(prefix)), *(protected_spans(draft.text, keep) if keep else ())]
            terms, taken = draft.source.terms, draft.taken()
            places = {k: place_by_attention(words, terms[k], taken) for k in draft.missing}
            while clear := {k: place for k, place in places.items() if place and place.is_clear}:
                k = max(clear, key=lambda k: clear[k].score)
                draft.places[k] = new = clear[k]
                del places[k]
                taken.append(new.span)
                for other, place in places.items():
                    if place and overlap(place.span, new.span):
                        places[other] = place_by_attention(words, terms[other], taken)
            draft.doubtful = {k: place for k, place in places.items() if place}
        influences = self._influences(drafts)
        for draft, words in zip(drafts, aligned, strict=True):
            for k, doubtful in draft.doubtful.items():
                own = next(influences)
                rival = next(influences) if doubtful.rival else None
                place = place_by_influence(words, draft.source.terms[k], draft.taken(), doubtful, own, rival)
                if place:
                    draft.places[k] = place

    def _aligned(self, drafts: Sequence[_Draft]) -> Iterator[AlignedWords]:
        """The aligned words of each line and its translation."""
        pairs = [draft.source.pair(draft.hypothesis.tokens) for draft in drafts]
        for draft, weights in zip(drafts, self.engine.align(pairs, self.batch_tokens), strict=True):
            source = draft.source
            pieces = self.vocabulary.target.pieces([*draft.hypothesis.tokens, EOS])
            columns, rows = source_alignment(self.vocabulary.source, source.ids, weights[len(source.start) :])
            translation = Translation(draft.text, 0.0, 0.0, pieces, [], columns, rows)
            yield AlignedWords.from_translation(source.text, translation, elements=len(source.terms))

    def _influences(self, drafts: Sequence[_Draft]) -> Iterator[Influence]:
        """The influence of each doubtful term and of its rival on the words of the translation: by how much log P of
        each is higher than without it in the source."""
        doubtful, pairs = [draft for draft in drafts if draft.doubtful], list[Pair]()
        for draft in doubtful:
            pieces = self.vocabulary.source.pieces([*draft.source.ids, EOS])
            subwords = word_spans(draft.source.text, pieces)
            pairs.append(draft.source.pair(draft.hypothesis.tokens))
            for k, place in draft.doubtful.items():
                found = draft.source.terms[k]
                for span in filter(None, ((found.start, found.stop), place.rival)):
                    left_out = {
                        i for word, own in subwords.items() if overlap(word, span) for i in range(len(pieces))[own]
                    }
                    ids = [token for i, token in enumerate(draft.source.ids) if i not in left_out]
                    pairs.append((ids, pairs[-1][1]))
        scores = iter(self.engine.score(pairs, self.batch_tokens) if pairs else ())
        for draft in doubtful:
            words = word_spans(draft.text, self.vocabulary.target.pieces([*draft.hypothesis.tokens, EOS]))
            with_all = np.array(next(scores)[len(draft.source.start) :])
            for _ in range(sum(2 if place.rival else 1 for place in draft.doubtful.values())):
                gain = with_all - np.array(next(scores)[len(draft.source.start) :])
                yield np.array([gain[subwords].sum() for subwords in words.values()])

    def _write(self, drafts: Sequence[_Draft]) -> None:
        """Replace the words at the places of terms by the target form that is most probable there."""
        lengths = self._lengths({form for d in drafts for one in d.source.terms for form in one.term.targets})
        choices = list[tuple[_Draft, int, Span, list[str]]]()
        for draft in drafts:
            room = (self.engine.positions or inf) - len(draft.source.start) - len(draft.hypothesis.tokens)
            for k, place in draft.places.items():
                if isinstance(place, Place):
                    found, there = draft.source.terms[k], draft.text[slice(*place.span)]
                    if any(are_forms(there, form) for form in found.term.targets):
                        draft.use(k, self._own, there)  # the model has inflected the target term
                    else:
                        forms = [form for form in found.term.targets if form in lengths and lengths[form] <= room]
                        room -= max(map(lengths.__getitem__, forms), default=0)
                        cased = [in_case(form, draft.text, place.span, found, self.language) for form in forms]
                        choices += [(draft, k, place.span, cased)] if cased else []
        trials = [(draft, {span: form}) for draft, _, span, forms in choices if len(forms) > 1 for form in forms]
        totals = map(sum, self._scores(trials)[1])
        edits_of = dict[int, dict[Span, str]]()
        for draft, k, span, forms in choices:
            scored = [(next(totals) if len(forms) > 1 else 0.0, form) for form in forms]
            form = max(scored, key=lambda pair: pair[0])[1]
            edits_of.setdefault(id(draft), {})[span] = form
            draft.use(k, "placed", form)
        final = [(draft, edits_of[id(draft)]) for draft in drafts if id(draft) in edits_of]
        tokens, scores = self._scores(final, self.options.scores)
        penalties = length_penalties(max(map(len, scores), default=0), self.options.decoding)
        for (draft, _), ids, token_scores in zip(final, tokens, scores, strict=True):
            scored_one = Hypothesis.scored(ids, token_scores, penalties)
            draft.hypothesis = scored_one if self.options.scores else replace(draft.hypothesis, tokens=ids)

    def _lengths(self, forms: set[str]) -> dict[str, int]:
        """The most subwords by which each form makes a text longer; without the forms that the vocabulary changes, and
        those with words in decoding.banned."""
        target, banned = self.vocabulary.target, self.options.banned_words
        writable = sorted(forms.difference(target.changed(sorted(forms))))
        encoded = zip(writable, target.encode(writable), strict=True)
        # After a form, the rest of its word is segmented in another way.
        return {form: len(ids) + 2 for form, ids in encoded if banned is None or not banned.are_in(ids)}

    def _scores(
        self, new: Sequence[tuple[_Draft, dict[Span, str]]], scored: bool = True
    ) -> tuple[list[list[int]], list[list[float]]]:
        """The subwords of edited texts, and if `scored` log P of each."""
        tokens = self.vocabulary.target.encode([edited(draft.text, edits) for draft, edits in new])
        if not (scored and new):
            return tokens, [[] for _ in tokens]
        rows = self.engine.score(
            [draft.source.pair(ids) for (draft, _), ids in zip(new, tokens, strict=True)], self.batch_tokens
        )
        return tokens, [row[len(draft.source.start) :] for row, (draft, _) in zip(rows, new, strict=True)]
