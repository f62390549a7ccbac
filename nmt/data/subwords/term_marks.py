"""Source text that tells a model how to translate some of its terms: after a term the tag `<term>`, the wanted
translation, and the tag `</term>` (Dinu et al. 2019, "Training Neural Machine Translation To Apply Terminology
Constraints"; the variant that appends). The tags are control symbols, which no text gives. The model learns to copy the
translation, and to inflect it.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nmt.config.schema import DataConfig
from nmt.config.special_subwords import TERM_TAGS
from nmt.config.word_characters import in_one_word
from nmt.data.batches.token_store import FlatSequences
from nmt.data.draws import Draws, hashes, uniform
from nmt.data.subwords.vocabulary import Tokenizer
from nmt.terms.glossary import Glossary
from nmt.terms.lexicon import are_forms, word_spans

Pair = tuple[str, str]
Span = tuple[int, int]
Mark = tuple[int, str]  # the position after a term in its text, and the wanted translation
_COUNTS, _SHARES = (1, 2, 3), (7, 2, 1)  # terms of a pair, and in how many of ten pairs


class _Candidate(NamedTuple):
    """A term that can be marked. translation: as in the dictionary; span: its place in the target."""

    stop: int
    translation: str
    span: Span


def load_glossary(data: DataConfig) -> Glossary | None:
    """The glossary of data.augment.terms; None if there is none. Raises NmtError for a file with problems."""
    terms, pairs = data.augment.marked_terms, data.language_pairs.pairs
    if not terms.share or not terms.file:
        return None
    return Glossary.load(Path(terms.file), pairs[0] if len(pairs) == 1 else None)


class TermMarker:
    """Marks the terms of a glossary, or the words of a lexicon from `learn_lexicon`, in a share of the pairs."""

    def __init__(self, share: float, terms: Glossary | Mapping[str, str]) -> None:
        self._share, self._terms = share, terms
        self._targets = list(terms.targets if isinstance(terms, Glossary) else terms.values())
        self._ranks = {} if isinstance(terms, Glossary) else {word: rank for rank, word in enumerate(terms)}

    def marked(
        self, pairs: Sequence[Pair], identifiers: npt.ArrayLike, epoch: int
    ) -> tuple[list[Pair], dict[int, list[Mark]]]:
        """The pairs, of which some have another target, and the marks in some of their sources, by the index of a pair.
        identifiers, epoch: as for `nmt.data.subwords.variation.vary`."""
        new, marks, drawn = list(pairs), dict[int, list[Mark]](), hashes(0, epoch, identifiers, "terms")
        for i in np.flatnonzero(uniform(drawn) < self._share).tolist():
            target, pair_marks = self._mark(*pairs[i], Draws(int(drawn[i])))
            if pair_marks:
                new[i], marks[i] = (pairs[i][0], target), pair_marks
        return new, marks

    def _mark(self, source: str, target: str, draws: Draws) -> tuple[str, list[Mark]]:
        """Mark one to three terms of a pair. A mark has the dictionary's form of the translation or, as often, the form
        in the target. In half of the marks it is another word, or the beginning of one word and the end of
        another, which the target then has too: so the model learns to copy words that it does not expect or know."""
        candidates, chosen = self._candidates(source, target), list[_Candidate]()
        for _ in range(draws.weighted(_COUNTS, _SHARES)):
            if candidates:
                index = draws.below(len(candidates))  # of a lexicon the rarer one of two
                chosen.append(one := candidates[min(index, draws.below(len(candidates))) if self._ranks else index])
                candidates = [x for x in candidates if x.span[1] <= one.span[0] or one.span[1] <= x.span[0]]
        marks = list[Mark]()
        for stop, translation, (start, end) in sorted(chosen, key=lambda one: one.span, reverse=True):
            form, kind = target[start:end], draws.below(8)
            if kind < 4:
                translation, other = draws.choice(self._targets), draws.choice(self._targets)
                if kind % 2:
                    translation = translation[: (len(translation) + 1) // 2] + other[len(other) // 2 :]
                capital = translation[:1].upper() if form[0].isupper() else translation[:1]
                target = target[:start] + capital + translation[1:] + target[end:]
            marks.append((stop, form if kind > 5 else translation))
        return target, sorted(marks)

    def _candidates(self, source: str, target: str) -> list[_Candidate]:
        """The terms whose translation is in the target once; those of a lexicon in its order, the rarest first."""
        if isinstance(self._terms, Glossary):
            places = ((found, _place(found.term.targets, target)) for found in self._terms.find(source))
            return [_Candidate(found.stop, found.term.target, span) for found, span in places if span]
        candidates, forms = (
            list[tuple[int, _Candidate]](),
            [(span, target[slice(*span)]) for span in word_spans(target)],
        )
        for start, stop in word_spans(source):
            if translation := self._terms.get(word := source[start:stop].lower()):
                same = [span for span, form in forms if form.lower() == translation.lower()]
                spans = same or [span for span, form in forms if are_forms(form, translation)]
                if len(spans) == 1:
                    candidates.append((self._ranks[word], _Candidate(stop, translation, spans[0])))
        return [candidate for _, candidate in sorted(candidates)]


def _place(forms: Sequence[str], text: str) -> Span | None:
    """The place of the first form that a text has once, as complete words."""
    lower = text.lower()
    for form in map(str.lower, forms):
        start, stop = (at := lower.find(form)), at + len(form)
        is_whole = at >= 0 and not any(0 < i < len(lower) and in_one_word(lower, i) for i in (start, stop))
        if is_whole and len(lower) == len(text) and form not in lower[stop:]:
            return start, stop
    return None


def visible(source: str, marks: Sequence[Mark]) -> str:
    """The source with its marks as text."""
    for stop, translation in reversed(marks):
        source = f"{source[:stop]} {TERM_TAGS[0]} {translation} {TERM_TAGS[1]}{source[stop:]}"
    return source


def with_tags(
    tokenizer: Tokenizer, encoded: FlatSequences, lines: Sequence[str], marks: Mapping[int, list[Mark]]
) -> FlatSequences:
    """The ids of lines with those of their marks. marks: by the index of a line."""
    positions, new, lengths = list[int](), list[int](), encoded.lengths.copy()
    for i, line_marks in marks.items():
        first, end = encoded.offsets[i : i + 2].tolist()
        for position, ids in tagged(tokenizer, lines[i], encoded.ids[first : end - 1].tolist(), line_marks):
            positions += [first + position] * len(ids)
            new += ids
            lengths[i] += len(ids)
    return FlatSequences.from_flat(np.insert(encoded.ids, positions, new), lengths)


def tagged(tokenizer: Tokenizer, text: str, ids: Sequence[int], marks: Sequence[Mark]) -> list[tuple[int, list[int]]]:
    """The ids of each mark, and where they are inserted into the ids of the text: after the subword with the last
    character of the term, so that all other ids stay as they are. (In a script without spaces, this subword can have
    characters after the term.)"""
    opening, closing = tokenizer.tags(TERM_TAGS)
    normalized = tokenizer.normalize([text, *(text[:stop] for stop, _ in marks)])
    whole, *lengths = (len(each.replace("▁", " ").encode()) for each in normalized)
    ends = list(accumulate(len(tokenizer.spellings[i]) for i in ids))
    if ends and ends[-1] == whole:
        positions = [bisect_left(ends, length) + 1 for length in lengths]
    else:  # some characters are unknown
        positions = [min(len(ids), len(tokenizer.encode([text[:stop]])[0])) for stop, _ in marks]
    translations = tokenizer.encode([translation for _, translation in marks])
    return [(at, [opening, *new, closing]) for at, new in zip(positions, translations, strict=True)]
