"""Puts the target terms of a glossary into translations: in place of the words that are aligned to the source term.

A model translates a line as always, and most translations have the target terms. Elsewhere a target term replaces the
word with the most attention to the source term. Where this word is not clear, the rest of the line is also searched
again, with the target term before it, and the probabilities of the rest decide.

Shapes: T target and S source words.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.config.word_characters import in_one_word
from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.decoding.engine_protocol import Engine, SearchInput
from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Span
from nmt.decoding.search.options import Hypothesis, SearchOptions, length_penalties
from nmt.decoding.term_texts import edited, in_case, overlap, own_places
from nmt.decoding.translation import Translation
from nmt.terms.glossary import FoundTerm
from nmt.terms.used_term import How, UsedTerm

# Chosen with captions and nouns whose target terms are usual, rare, or new to the model.
_LEAST_SHARE = 0.15  # of the attention of a word that a term replaces without any doubt
_RIVAL = 0.5  # a word with this share of that attention to another source word may be the translation of both
_WHOLE = 0.6  # the attention to the term of each further word that it replaces
_LEFT_OVER = 0.5  # a word beside the term with this share of its attention to the source term is left over
_MOST_WORSE = 0.5  # log P of a subword: a rest that is worse than that of the model's translation by more is broken
_MOST_LONGER = 1.5  # than the model's translation: a longer one repeats itself


class _Place(NamedTuple):
    """The words of a translation with the most attention to a source term: the best one alone, or with the words beside
    it that are aligned to the term too. share: of the attention of the best one; is_clear: whether a term replaces them
    without any doubt."""

    spans: tuple[Span, ...]
    share: float
    is_clear: bool


@dataclass
class _Draft:
    """A hypothesis with the terms of its source. own: the places of terms in its text; used: what became of each term;
    edits: the new texts of spans; doubtful: a term whose place, `span`, is not clear; forms: of it."""

    source: SearchInput
    hypothesis: Hypothesis
    text: str
    own: dict[int, Span]
    used: list[UsedTerm] = field(init=False)
    edits: dict[Span, str] = field(default_factory=dict)
    doubtful: int = -1
    span: Span = (0, 0)
    forms: Sequence[str] = ()

    def __post_init__(self) -> None:
        self.used = [UsedTerm(one.term.source, one.term.target, "failed", one.found_as) for one in self.source.terms]
        for k, span in self.own.items():
            self.use(k, "own", self.text[slice(*span)])

    def use(self, k: int, how: How, target: str) -> None:
        """Note what became of a term."""
        self.used[k] = replace(self.used[k], target=target, how=how)

    @property
    def missing(self) -> list[int]:
        """The terms that the model's translation does not have."""
        return [k for k in range(len(self.used)) if k not in self.own]


@dataclass(frozen=True)
class _Candidate:
    """A translation with the doubtful term of a draft. before: the text before the term."""

    draft: _Draft
    how: How
    form: str
    before: str
    text: str
    tokens: list[int]

    @property
    def span(self) -> Span:
        """The place of the term."""
        return len(self.before), len(self.before) + len(self.form)


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
        with_terms = [i for i, source in enumerate(sources) if source.terms]
        hypotheses = [(i, hypothesis) for i in with_terms for hypothesis in results[i]]
        texts = self.vocabulary.target.decode([hypothesis.tokens for _, hypothesis in hypotheses])
        drafts = list[_Draft]()
        for (i, hypothesis), text in zip(hypotheses, texts, strict=True):
            drafts.append(_Draft(sources[i], hypothesis, text, own_places(text, sources[i].terms, self.language)))
        if incomplete := [draft for draft in drafts if draft.missing and self.engine.aligns]:
            self._replace_words(incomplete)
            chosen = self._searched_again([draft for draft in incomplete if draft.forms])
            self._write([draft for draft in incomplete if draft.edits or id(draft) in chosen], chosen)
        new = {i: list[Hypothesis]() for i in with_terms}
        for (i, _), draft in zip(hypotheses, drafts, strict=True):
            new[i].append(replace(draft.hypothesis, terms=tuple(draft.used)))
        return [new.get(i, result) for i, result in enumerate(results)]

    def _replace_words(self, drafts: Sequence[_Draft]) -> None:
        """Find the places of missing terms, and replace the words whose place is clear by the target form that is most
        probable there."""
        forms = {form for draft in drafts for k in draft.missing for form in draft.source.terms[k].term.targets}
        unwritable = self.vocabulary.target.changed(sorted(forms))
        choices = list[tuple[_Draft, int, list[tuple[Span, str]]]]()
        aligned = self._aligned([(draft.source, draft.hypothesis.tokens, draft.text) for draft in drafts])
        for draft, words in zip(drafts, aligned, strict=True):
            for k, place in self._places(draft, words):
                found = draft.source.terms[k]
                writable = [form for form in found.term.targets if form not in unwritable]
                cased = [in_case(form, draft.text, place.spans[0], found, self.language) for form in writable]
                if cased and place.is_clear:
                    choices.append((draft, k, [(span, form) for span in place.spans for form in cased]))
                elif cased and not draft.forms:
                    draft.doubtful, draft.span, draft.forms = k, place.spans[-1], cased
        trials = [(draft, edit) for draft, _, edits in choices if len(edits) > 1 for edit in edits]
        texts = self.vocabulary.target.encode([edited(draft.text, dict([edit])) for draft, edit in trials])
        scores = self._scores([(draft.source, ids) for (draft, _), ids in zip(trials, texts, strict=True)])
        totals = map(sum, scores)
        for draft, k, edits in choices:
            scored = [(next(totals) if len(edits) > 1 else 0.0, edit) for edit in edits]
            span, form = max(scored, key=lambda pair: pair[0])[1]
            draft.edits[span] = form
            draft.use(k, "placed", form)

    def _places(self, draft: _Draft, words: AlignedWords) -> Iterator[tuple[int, _Place]]:
        """The places of the missing terms, which do not overlap: the clear ones first."""
        [prefix] = self.vocabulary.target.decode([list(draft.source.prefix)])
        taken, missing = [(0, len(prefix)), *draft.own.values()], draft.missing
        while places := [(k, place) for k in missing if (place := _place(words, draft.source.terms[k], taken))]:
            k, place = max(places, key=lambda pair: (pair[1].is_clear, pair[1].share))
            yield k, place
            taken.append(place.spans[-1])
            missing.remove(k)

    def _searched_again(self, drafts: Sequence[_Draft]) -> dict[int, _Candidate]:
        """For the term in each draft whose place is not clear, by the draft's id, the better one of two translations: its
        words replaced, or the rest searched again. There is none if the term is not in its place by their alignment,
        or if the rest is improbable."""
        if not (trials := [(draft, form) for draft in drafts for form in draft.forms]):
            return {}
        encode, decode = self.vocabulary.target.encode, self.vocabulary.target.decode
        befores = [edited(draft.text, draft.edits, draft.span[0]) for draft, _ in trials]
        texts = [edited(draft.text, draft.edits | {draft.span: form}) for draft, form in trials]
        prefixes = encode([before + form for before, (_, form) in zip(befores, trials, strict=True)])
        sources = [replace(draft.source, prefix=tuple(ids)) for (draft, _), ids in zip(trials, prefixes, strict=True)]
        options = replace(self.options, n_best=1, constrained=True)
        results = self.engine.search(sources, options, self.batch_tokens)
        searched = [result[0].tokens if result else [] for result in results]
        candidates = list[_Candidate]()
        for (draft, form), before, *both in zip(trials, befores, texts, encode(texts), decode(searched), searched):
            candidates.append(_Candidate(draft, "placed", form, before, *both[:2]))
            candidates.append(_Candidate(draft, "forced", form, before, *both[2:]))
        candidates = [candidate for candidate in candidates if self._is_whole(candidate)]
        pairs = [(candidate.draft.source, candidate.tokens, candidate.text) for candidate in candidates]
        aligned = zip(candidates, self._aligned(pairs), strict=True)
        candidates = [candidate for candidate, words in aligned if _is_in_place(candidate, words)]
        plain = [(draft.source, draft.hypothesis.tokens) for draft in drafts]
        rows = self._scores([*plain, *((candidate.draft.source, candidate.tokens) for candidate in candidates)])
        least = {}
        for draft, scores in zip(drafts, rows[: len(drafts)], strict=True):
            least[id(draft)] = self._rest(scores, draft.text, draft.span) - _MOST_WORSE
        chosen = dict[int, _Candidate]()
        for candidate, scores in zip(candidates, rows[len(drafts) :], strict=True):
            rest = self._rest(scores, candidate.text, candidate.span)
            if rest >= least[id(candidate.draft)]:
                least[id(candidate.draft)], chosen[id(candidate.draft)] = rest, candidate
        for candidate in chosen.values():
            candidate.draft.use(candidate.draft.doubtful, candidate.how, candidate.form)
        return chosen

    def _is_whole(self, candidate: _Candidate) -> bool:
        """Whether a candidate has its term as complete words, also all other terms, and is not much longer than the
        model's translation."""
        draft, text, (start, stop) = candidate.draft, candidate.text, candidate.span
        if text[start:stop] != candidate.form or (stop < len(text) and in_one_word(text, stop)):
            return False
        others = {k for k, used in enumerate(draft.used) if used.how != "failed"}
        most = _MOST_LONGER * len(draft.hypothesis.tokens) + len(candidate.form)
        return len(candidate.tokens) <= most and others <= own_places(text, draft.source.terms, self.language).keys()

    def _rest(self, scores: Sequence[float], text: str, term: Span) -> float:
        """The mean log P of the subwords of a text besides a term."""
        before, with_term = map(len, self.vocabulary.target.encode([text[: term[0]].rstrip(), text[: term[1]]]))
        rest = [*scores[:before], *scores[with_term:]]
        return sum(rest) / max(1, len(rest))

    def _write(self, drafts: Sequence[_Draft], chosen: Mapping[int, _Candidate]) -> None:
        """Replace the hypotheses of drafts."""
        tokens = self.vocabulary.target.encode([edited(draft.text, draft.edits) for draft in drafts])
        tokens = [chosen[id(one)].tokens if id(one) in chosen else ids for one, ids in zip(drafts, tokens, strict=True)]
        if not self.options.scores:
            for draft, ids in zip(drafts, tokens, strict=True):
                draft.hypothesis = replace(draft.hypothesis, tokens=ids)
            return
        rows = self._scores([(draft.source, ids) for draft, ids in zip(drafts, tokens, strict=True)])
        penalties = length_penalties(max(map(len, rows), default=0), self.options.decoding)
        for draft, ids, scores in zip(drafts, tokens, rows, strict=True):
            draft.hypothesis = Hypothesis.scored(ids, scores, penalties)

    def _scores(self, outputs: Sequence[tuple[SearchInput, list[int]]]) -> list[list[float]]:
        """log P of each subword of outputs for sources."""
        rows = self.engine.score([source.pair(ids) for source, ids in outputs], self.batch_tokens) if outputs else []
        return [row[len(source.start) :] for row, (source, _) in zip(rows, outputs, strict=True)]

    def _aligned(self, outputs: Sequence[tuple[SearchInput, list[int], str]]) -> Iterator[AlignedWords]:
        """The aligned words of sources and outputs with their texts."""
        pairs = [source.pair(ids) for source, ids, _ in outputs]
        alignments = self.engine.align(pairs, self.batch_tokens) if pairs else []
        for (source, ids, text), weights in zip(outputs, alignments, strict=True):
            pieces = self.vocabulary.target.pieces([*ids, EOS])
            source_pieces = self.vocabulary.source.pieces([*source.ids, EOS])
            translation = Translation(text, 0.0, 0.0, pieces, [], source_pieces, weights[len(source.start) :])
            yield AlignedWords.from_translation(source.text, translation, elements=len(source.terms))


def _place(words: AlignedWords, found: FoundTerm, taken: Sequence[Span]) -> _Place | None:
    """The place of a term among the words that are not taken; None if there is none."""
    own, to_term = _attention(words, found)
    free = [_is_word(words.text, span) and not any(overlap(span, other) for other in taken) for span in words.target]
    to_term = np.where(free, to_term, 0.0)
    if not to_term.any():
        return None
    best = int(to_term.argmax())
    share = float(to_term[best])
    others = [s for s, span in enumerate(words.source) if not own[s] and _is_word(words.line, span)]
    only_here = [words.weights[best, s] for s in others if words.weights[:, s].argmax() == best]
    is_best = share > max(words.weights[best, others], default=0.0)
    first, last = best, best + 1
    while first and to_term[first - 1] > _WHOLE:
        first -= 1
    while last < len(free) and to_term[last] > _WHOLE:
        last += 1
    whole = words.target[first][0], words.target[last - 1][1]
    is_clear = is_best and share >= _LEAST_SHARE and max(only_here, default=0.0) < _RIVAL * share
    return _Place(tuple(dict.fromkeys((words.target[best], whole))), share, is_clear)


def _is_in_place(candidate: _Candidate, words: AlignedWords) -> bool:
    """Whether the word with the most attention to the source term is in the term, and no word besides it is left
    over."""
    _, to_term = _attention(words, candidate.draft.source.terms[candidate.draft.doubtful])
    inside = np.array([overlap(span, candidate.span) for span in words.target], bool)
    best = float(to_term[inside].max(initial=0.0))
    return best > 0 and float(to_term[~inside].max(initial=0.0)) < max(_LEFT_OVER * best, 0.0)


def _attention(words: AlignedWords, found: FoundTerm) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which source words are in a term [S], and the attention of each target word to it [T]."""
    own = np.array([overlap(span, (found.start, found.stop)) for span in words.source], bool)
    return own, words.weights[:, own].sum(axis=1)


def _is_word(text: str, span: Span) -> bool:
    return any(map(str.isalnum, text[slice(*span)]))
