"""Where a target term belongs in a translation: at the words that translate the source term.

Mostly this is the word with the most attention to the term. Where the attention is not clear, it is the word whose
probability falls most if the model reads the line without the term.

Shapes: T target and S source words.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nmt.config.unspaced_scripts import is_unspaced
from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import Span, overlap
from nmt.terms.glossary import FoundTerm

Influence = NDArray[np.float64]  # of words of a line: by how much log P of each target word is higher with them, [T]

# Chosen with captions and nouns whose target terms are usual, rare, or new to the model.
_CLEAR_SHARE, _LEAST_SHARE = 0.25, 0.2  # of the attention of a word whose place is clear, or doubtful
_RIVAL = 0.5  # a source word without another word, and with this share of a term's attention, may share its word
_LEAST_INFLUENCE = 0.5  # of a term on its word, times the share of the attention
_BESIDE = 0.5  # a word beside the best one with this share of its attention may translate the term too


class Place(NamedTuple):
    """A place of a term. span: of the best word with those beside it that translate the term too; is_clear: whether the
    attention leaves no doubt; score: of several places the clearest is taken first; rival: a source word that the same
    word may translate too, or None."""

    span: Span
    is_clear: bool
    score: float
    rival: Span | None


def place_by_attention(words: AlignedWords, found: FoundTerm, taken: Sequence[Span]) -> Place | None:
    """The word with the most attention to a term, among the words that are not taken; None if it is little."""
    to_term, to_others = _attention(words, found, taken)
    best = int(to_term.argmax()) if to_term.size else 0
    if not to_term.size or to_term[best] < _LEAST_SHARE:
        return None
    share, others = to_term[best], to_others[best]
    only_here = np.flatnonzero((words.weights.argmax(axis=0) == best) & (others >= _RIVAL * share) & (others > 0))
    rival = words.source[int(max(only_here, key=lambda s: others[s]))] if len(only_here) else None
    span = _with_neighbours(words, to_term, to_term, to_others, best)
    # For a term of one word, an article beside the best word may have as much attention.
    source_words = sum(overlap(word, (found.start, found.stop)) for word in words.source)
    is_one = span == words.target[best] or source_words > 1 or is_unspaced(words.text[span[0]])
    return Place(span, rival is None and share >= _CLEAR_SHARE and is_one, float(share), rival)


def place_by_influence(
    words: AlignedWords,
    found: FoundTerm,
    taken: Sequence[Span],
    doubtful: Place,
    influence: Influence,
    rival: Influence | None,
) -> Place | None:
    """The word that a term influences most, of those with attention to it. If its influence is small, `doubtful`, the
    place by attention, if it has no rival and much attention; otherwise, or if the influence is not clearly larger than
    that of the rival, None."""
    to_term, to_others = _attention(words, found, taken)
    scores = to_term * influence
    best = int(scores.argmax()) if scores.size else 0
    if not scores.size or scores[best] < _LEAST_INFLUENCE:
        is_free = not any(overlap(doubtful.span, other) for other in taken)
        return doubtful if doubtful.rival is None and doubtful.score >= _CLEAR_SHARE and is_free else None
    if rival is not None and rival[best] >= _RIVAL * influence[best]:
        return None
    return Place(_with_neighbours(words, scores, to_term, to_others, best), True, float(scores[best]), None)


def _with_neighbours(
    words: AlignedWords,
    scores: NDArray[np.float64],
    to_term: NDArray[np.float64],
    to_others: NDArray[np.float64],
    best: int,
) -> Span:
    """The span of the best word, and of the words beside it that have at least half of its score, and more attention to
    the term than to any other word. scores: of each target word for the term, [T]."""
    aligned = (scores >= _BESIDE * scores[best]) & (to_term > to_others.max(axis=1, initial=0.0))
    first, last = best, best + 1
    while first and aligned[first - 1]:
        first -= 1
    while last < len(aligned) and aligned[last]:
        last += 1
    return words.target[first][0], words.target[last - 1][1]


def _attention(
    words: AlignedWords, found: FoundTerm, taken: Sequence[Span]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The attention of each target word to a term [T], 0 for taken words and punctuation; and to each other word of the
    source [T, S], 0 for the term and for punctuation."""
    free = [_is_word(words.text, span) and not any(overlap(span, other) for other in taken) for span in words.target]
    own = np.array([overlap(span, (found.start, found.stop)) for span in words.source], bool)
    others = ~own & np.array([_is_word(words.line, span) for span in words.source], bool)
    return np.where(free, words.weights[:, own].sum(axis=1), 0.0), words.weights * others


def _is_word(text: str, span: Span) -> bool:
    return any(map(str.isalnum, text[slice(*span)]))
