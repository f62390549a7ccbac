"""Puts the target terms of a glossary into translations: in place of the words that are aligned to the source term.

A model translates a line as always, and most translations have the target terms. Elsewhere a target term replaces the
word with the most attention to the source term. Where this word is not clear, the rest of the line is also searched
again, with the target term before it, and the probabilities of the rest decide.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nmt.config.word_characters import in_one_word
from nmt.data.subwords.vocabulary import EOS, Vocabulary
from nmt.decoding.engine_protocol import Engine, SearchInput
from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Span
from nmt.decoding.search.options import Hypothesis, SearchOptions, length_penalties
from nmt.decoding.term_places import Place, find_place, is_in_place
from nmt.decoding.term_texts import edited, in_case, own_places
from nmt.decoding.translation import Translation
from nmt.terms.used_term import How, UsedTerm

_MOST_WORSE = 0.7  # log P of a subword: a rest that is worse than that of the model's translation by more is broken
_MOST_LONGER = 1.5  # than the model's translation: a longer one repeats itself


@dataclass
class _Draft:
    """A hypothesis with the terms of its source. own: the places of terms in its text; used: what became of each term;
    edits: the new texts of spans; doubtful: a term whose place is not clear, and its forms."""

    source: SearchInput
    hypothesis: Hypothesis
    text: str
    own: dict[int, Span]
    used: list[UsedTerm] = field(init=False)
    edits: dict[Span, str] = field(default_factory=dict)
    doubtful: tuple[int, Place, list[str]] | None = None

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


class _Candidate(NamedTuple):
    """A translation of a line with a doubtful term k: its place is `span` of the text."""

    draft: _Draft
    k: int
    place: Place  # of the words that it replaces
    how: How
    form: str
    span: Span
    text: str
    tokens: list[int]


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
            chosen = self._searched_again([draft for draft in incomplete if draft.doubtful])
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
                elif cased and draft.doubtful is None:
                    draft.doubtful = k, place, cased
        trials = [(draft, edit) for draft, _, edits in choices if len(edits) > 1 for edit in edits]
        texts = self.vocabulary.target.encode([edited(draft.text, dict([edit])) for draft, edit in trials])
        scores = self._scores([(draft.source, ids) for (draft, _), ids in zip(trials, texts, strict=True)])
        totals = map(sum, scores)
        for draft, k, edits in choices:
            scored = [(next(totals) if len(edits) > 1 else 0.0, edit) for edit in edits]
            span, form = max(scored, key=lambda pair: pair[0])[1]
            draft.edits[span] = form
            draft.use(k, "placed", form)

    def _places(self, draft: _Draft, words: AlignedWords) -> Iterator[tuple[int, Place]]:
        """The places of the missing terms, which do not overlap: the clear ones first."""
        [prefix] = self.vocabulary.target.decode([list(draft.source.prefix)])
        taken, missing = [(0, len(prefix)), *draft.own.values()], draft.missing
        while places := [(k, place) for k in missing if (place := find_place(words, draft.source.terms[k], taken))]:
            k, place = max(places, key=lambda pair: (pair[1].is_clear, pair[1].share))
            yield k, place
            taken.append(place.spans[-1])
            missing.remove(k)

    def _searched_again(self, drafts: Sequence[_Draft]) -> dict[int, _Candidate]:
        """For the term of each draft whose place is not clear, the better one of two translations: its words replaced,
        or the rest searched again. There is none if the term is not in its place by their alignment, or if the rest is
        improbable. By the id of the draft."""
        trials = list[tuple[_Draft, int, Place, str, str]]()  # the text before the term, its form
        for draft in drafts:
            assert draft.doubtful is not None
            k, place, forms = draft.doubtful
            before = edited(draft.text, draft.edits, place.spans[0][0])
            trials += [(draft, k, place, before, form) for form in forms]
        prefixes = self.vocabulary.target.encode([before + form for *_, before, form in trials])
        pairs = zip(trials, prefixes, strict=True)
        sources = [replace(draft.source, prefix=tuple(ids)) for (draft, *_), ids in pairs]
        options = replace(self.options, n_best=1, constrained=True)
        results = self.engine.search(sources, options, self.batch_tokens) if sources else []
        outputs = [result[0].tokens if result else [] for result in results]
        candidates = list[_Candidate]()
        for trial, tokens, text in zip(trials, outputs, self.vocabulary.target.decode(outputs), strict=True):
            draft, k, place, before, form = trial
            span = len(before), len(before) + len(form)
            candidates.append(_Candidate(draft, k, place, "forced", form, span, text, tokens))
            if place.can_replace:
                text = edited(draft.text, draft.edits | {place.spans[0]: form})
                [tokens] = self.vocabulary.target.encode([text])
                candidates.append(_Candidate(draft, k, place, "placed", form, span, text, tokens))
        candidates = [candidate for candidate in candidates if self._is_whole(candidate)]
        aligned = self._aligned([(one.draft.source, one.tokens, one.text) for one in candidates])
        candidates = [
            one
            for one, words in zip(candidates, aligned, strict=True)
            if is_in_place(words, one.draft.source.terms[one.k], one.span, one.place.rivals)
        ]
        return self._best([self._plain(draft) for draft in drafts], candidates)

    def _plain(self, draft: _Draft) -> _Candidate:
        """The translation of a draft without its doubtful term."""
        assert draft.doubtful is not None
        (k, place, _), text = draft.doubtful, edited(draft.text, draft.edits)
        start, word = len(edited(draft.text, draft.edits, place.spans[0][0])), draft.text[slice(*place.spans[0])]
        [tokens] = self.vocabulary.target.encode([text])
        return _Candidate(draft, k, place, "failed", word, (start, start + len(word)), text, tokens)

    def _best(self, plain: Sequence[_Candidate], candidates: Sequence[_Candidate]) -> dict[int, _Candidate]:
        """The candidate of each draft with the most probable rest, if it is not improbable."""
        best, chosen = dict[int, float](), dict[int, _Candidate]()
        scores = self._scores([(one.draft.source, one.tokens) for one in (*plain, *candidates)])
        for one, token_scores in zip((*plain, *candidates), scores, strict=True):
            texts = [one.text[: one.span[0]].rstrip(), one.text[: one.span[1]]]
            before, after = map(len, self.vocabulary.target.encode(texts))
            rest = [*token_scores[:before], *token_scores[after:]]
            mean = sum(rest) / max(1, len(rest))
            if one.how == "failed":
                best[id(one.draft)] = mean - _MOST_WORSE
            elif mean >= best[id(one.draft)]:
                best[id(one.draft)], chosen[id(one.draft)] = mean, one
        for one in chosen.values():
            one.draft.use(one.k, one.how, one.form)
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
