"""Where a target term belongs in a translation: at the words that are aligned to the source term.

Shapes: T target and S source words.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Span
from nmt.decoding.term_texts import overlap
from nmt.terms.glossary import FoundTerm

# Chosen with captions and nouns whose target terms are usual, rare, or new to the model.
_LEAST_SHARE = 0.15  # of the attention of a word that a term replaces without any doubt
_RIVAL = 0.8  # a word with this share of that attention to another source word may be the translation of both
_WHOLE = 0.6  # the attention to the term of each further word that it replaces
_LEFT_OVER = 0.8  # a word beside the term with this share of its attention to the source term is left over


class Place(NamedTuple):
    """The words of a translation with the most attention to a source term. spans: of the best one alone, and of it with
    the words beside it that are aligned to the term too; share: of the attention of the best one; is_clear: whether a
    term replaces them without any doubt; can_replace: whether it can replace them at all: they are not the translation
    of another source word; rivals: the source words whose only translation they are too."""

    spans: tuple[Span, ...]
    share: float
    is_clear: bool
    can_replace: bool
    rivals: list[int]


def find_place(words: AlignedWords, found: FoundTerm, taken: Sequence[Span]) -> Place | None:
    """The place of a term among the words that are not taken; None if there is none."""
    to_term, to_others = _attention(words, found)
    free = [_is_word(words.text, span) and not any(overlap(span, other) for other in taken) for span in words.target]
    to_term = np.where(free, to_term, 0.0)
    if not to_term.any():
        return None
    best = int(to_term.argmax())
    share, other = float(to_term[best]), to_others[best]
    is_only = words.weights.argmax(axis=0) == best
    rivals = np.flatnonzero(is_only & (other >= _RIVAL * share)).tolist()
    first, last = best, best + 1
    while first and to_term[first - 1] > _WHOLE:
        first -= 1
    while last < len(free) and to_term[last] > _WHOLE:
        last += 1
    whole = words.target[first][0], words.target[last - 1][1]
    can_replace = not rivals and share >= _RIVAL * other.max(initial=0.0)
    is_clear = can_replace and share >= max(_LEAST_SHARE, other.max(initial=0.0))
    return Place(tuple(dict.fromkeys((words.target[best], whole))), share, is_clear, can_replace, rivals)


def is_in_place(words: AlignedWords, found: FoundTerm, term: Span, rivals: Sequence[int]) -> bool:
    """Whether a target term, which is a span of the text, is aligned to the source term, no word besides it is left
    over, and no rival has lost its translation."""
    to_term, to_others = _attention(words, found)
    to_other = to_others.max(axis=1, initial=0.0)
    inside = np.array([overlap(span, term) for span in words.target], bool)
    best = float(to_term[inside & (to_term >= _RIVAL * to_other)].max(initial=0.0))
    left_over = ~inside & (to_term > to_other) & (to_term >= _LEFT_OVER * best)
    is_lost = inside[words.weights[:, list(rivals)].argmax(axis=0)] if inside.size else inside
    return best > 0 and not left_over.any() and not is_lost.any()


def _attention(words: AlignedWords, found: FoundTerm) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The attention of each target word to a term [T], and to each of the other words of the source [T, S]: 0 for the
    term and for punctuation."""
    own = np.array([overlap(span, (found.start, found.stop)) for span in words.source], bool)
    others = ~own & np.array([_is_word(words.line, span) for span in words.source], bool)
    return words.weights[:, own].sum(axis=1), words.weights * others


def _is_word(text: str, span: Span) -> bool:
    return any(map(str.isalnum, text[slice(*span)]))
