"""Source text that tells a model how to translate some of its terms: after a term the tag `<term>`, the wanted
translation, and the tag `</term>` (Dinu et al. 2019, "Training Neural Machine Translation To Apply Terminology
Constraints"; the variant that appends). The model learns to copy the translation, and to inflect it.

The tags are control symbols, which no text gives. In text, a mark is MARK + translation + MARK: no line of text has a
line feed.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from nmt.config.special_subwords import TERM_TAGS
from nmt.config.word_characters import in_one_word
from nmt.data.batches.token_store import FlatSequences
from nmt.data.draws import Draws
from nmt.data.subwords.vocabulary import Tokenizer
from nmt.terms.glossary import Glossary
from nmt.terms.lexicon import word_spans
from nmt.terms.word_forms import are_forms

MARK = "\n"
_COUNTS, _SHARES = (1, 2, 3), (7, 2, 1)  # terms of a pair, and in how many of ten pairs

Span = tuple[int, int]
Mark = tuple[int, str]  # the position after a term in its text, and the term's wanted translation


class _Candidate(NamedTuple):
    """A term that can be marked: the position after it in the source, its translation as a dictionary has it, and the
    place of its translation in the target."""

    stop: int
    translation: str
    span: Span


class TermMarker:
    """Marks the terms of a glossary, or the words of a lexicon from `learn_lexicon`, in pairs."""

    def __init__(self, terms: Glossary | Mapping[str, str]) -> None:
        self._terms = terms
        self._targets = list(terms.targets if isinstance(terms, Glossary) else terms.values())
        self._ranks = {} if isinstance(terms, Glossary) else {word: rank for rank, word in enumerate(terms)}

    def marked(self, pair: tuple[str, str], draws: Draws) -> tuple[str, str]:
        """The pair with marks after one to three of its terms; unchanged if it has none.

        The mark is the translation as a dictionary has it or, as often, as the target has it. In a quarter of the marks
        it is another word, or the beginning of one word with the end of another, which the target then has too: so the
        model learns to copy words that it would not choose, or does not know.
        """
        (source, target), candidates, chosen = pair, self._candidates(*pair), list[_Candidate]()
        for _ in range(draws.weighted(_COUNTS, _SHARES) if candidates else 0):
            index = draws.below(len(candidates))
            chosen.append(one := candidates[min(index, draws.below(len(candidates))) if self._ranks else index])
            candidates = [other for other in candidates if other.span[1] <= one.span[0] or one.span[1] <= other.span[0]]
            if not candidates:
                break
        marks, new = list[Mark](), list[tuple[Span, str]]()
        for stop, translation, span in chosen:
            form, kind = target[slice(*span)], draws.below(8)
            if kind < 2:
                translation, other = draws.choice(self._targets), draws.choice(self._targets)
                if kind:
                    translation = translation[: (len(translation) + 1) // 2] + other[len(other) // 2 :]
                new.append((span, _in_case_of(form, translation)))
            elif kind < 5:
                translation = form
            marks.append((stop, translation))
        for (start, stop), word in sorted(new, reverse=True):
            target = target[:start] + word + target[stop:]
        for stop, translation in sorted(marks, reverse=True):
            source = f"{source[:stop]}{MARK}{translation}{MARK}{source[stop:]}"
        return source, target

    def _candidates(self, source: str, target: str) -> list[_Candidate]:
        """The terms whose translation is in the target once; the words of a lexicon in its order, the rarest first."""
        if isinstance(self._terms, Glossary):
            places = ((term, _place(term.term.targets, target)) for term in self._terms.find(source))
            return [_Candidate(term.stop, term.term.target, span) for term, span in places if span]
        words, candidates = (
            [(span, target[slice(*span)]) for span in word_spans(target)],
            list[tuple[int, _Candidate]](),
        )
        for start, stop in word_spans(source):
            word = source[start:stop].lower()
            if (translation := self._terms.get(word)) is not None:
                same = [span for span, form in words if form.lower() == translation.lower()]
                spans = same or [span for span, form in words if are_forms(form, translation)]
                if len(spans) == 1:
                    candidates.append((self._ranks[word], _Candidate(stop, translation, spans[0])))
        return [candidate for _, candidate in sorted(candidates)]


def _place(forms: Sequence[str], text: str) -> Span | None:
    """The place of the first form that a text has once, as complete words."""
    lower = text.lower()
    for form in forms:
        start = lower.find(form.lower())
        stop = start + len(form)
        once = start >= 0 and len(lower) == len(text) and lower.find(form.lower(), stop) < 0
        if once and not (in_one_word(text, start) or (stop < len(text) and in_one_word(text, stop))):
            return start, stop
    return None


def _in_case_of(form: str, word: str) -> str:
    """The word in capitals, or with a capital first letter, as the form has them."""
    if len(form) > 1 and form.isupper():
        return word.upper()
    return word[:1].upper() + word[1:] if form[:1].isupper() else word


def without_marks(pairs: Sequence[tuple[str, str]]) -> tuple[list[tuple[str, str]], dict[int, list[Mark]]]:
    """The pairs without the marks of their sources, and the marks by the index of a pair."""
    plain, marks = list(pairs), dict[int, list[Mark]]()
    for i, (source, target) in enumerate(pairs):
        if MARK in source:
            parts = source.split(MARK)
            plain[i] = "".join(parts[::2]), target
            marks[i] = list(zip(accumulate(map(len, parts[:-1:2])), parts[1::2], strict=True))
    return plain, marks


def visible(pair: tuple[str, str]) -> tuple[str, str]:
    """The pair with tags in place of MARK."""
    source, *rest = pair[0].split(MARK)
    return source + "".join(f" {TERM_TAGS[i % 2]} {part.strip()}" for i, part in enumerate(rest)), pair[1]


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
    """The ids of each mark, and where they are inserted into the ids of the text, in the order of the marks.

    They come after the subword with the last character of the term, so that all other ids stay as they are. (In a
    script without spaces, this subword can have characters after the term.)
    """
    opening, closing = tokenizer.tags(TERM_TAGS)
    whole, *heads = tokenizer.normalize([text, *(text[:stop] for stop, _ in marks)])
    ends = list(accumulate(tokenizer.spelled_lengths[i] for i in ids))
    if ends and ends[-1] == _length(whole):
        positions = [bisect_left(ends, _length(head)) + 1 for head in heads]
    else:  # some characters are unknown
        positions = [len(tokenizer.encode([text[:stop]])[0]) for stop, _ in marks]
    translations = tokenizer.encode([translation for _, translation in marks])
    inserted = ([opening, *translation, closing] for translation in translations)
    return [(min(position, len(ids)), new) for position, new in zip(positions, inserted, strict=True)]


def _length(normalized: str) -> int:
    """The number of bytes of a normalized text, as `Tokenizer.spelled_lengths` counts them."""
    return len(normalized.replace("▁", " ").encode())
