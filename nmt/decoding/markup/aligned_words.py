"""The words of a line and of its translation: their positions in both texts, and their alignment.

Shapes: T target and S source words.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from nmt.config.unspaced_scripts import UNSPACED
from nmt.decoding.markup.elements import Span, overlap
from nmt.decoding.translation import Translation
from nmt.decoding.word_alignment import Word, to_words

# Words, single characters of scripts without spaces between words, and punctuation marks.
_WORD = re.compile(rf"[^\W{UNSPACED}]+|[{UNSPACED}]|[^\w\s]")
MOST_WEIGHTS = 10_000_000  # entries of an alignment matrix, and of words × elements
_MOST_SEARCHED = 500_000_000  # characters that are searched for copies
_MOST_SKIPPED = 8  # characters that the vocabulary's normalization may leave out before a word


@dataclass(frozen=True)
class AlignedWords:
    """line, text: a line and its translation. source, target: the start and end of each word in them. weights [T, S]:
    the share of each target word's attention that each source word has; a row sums to 1 at most."""

    line: str
    text: str
    source: Sequence[Span]
    target: Sequence[Span]
    weights: NDArray[np.float64]

    @classmethod
    def from_translation(
        cls, line: str, translation: Translation, copies: Sequence[tuple[Span, Span]] = (), elements: int = 0
    ) -> "AlignedWords":
        """Align the words of a line and its translation. Without an alignment of subwords, or if it is too large, the
        words of both are assumed to be in the same order.

        copies: spans of the line that do not overlap, each with the span of its copy in the translation; each span is
        one word. So are glossary terms that occur once: the model's attention says nothing about a term that was put
        into its translation. elements: the number of elements that will be placed."""
        text = translation.text
        copies = [*copies, *_placed_terms(line, translation, copies)]
        size = len(translation.pieces) * max(len(translation.source_pieces or ()), elements)
        is_large = size > MOST_WEIGHTS or not can_search(len(copies), line, text)
        if translation.alignment is None or translation.source_pieces is None or is_large:
            most = min(2_000, max(1, MOST_WEIGHTS // max(1, elements)))
            source = _coarse([match.span() for match in _WORD.finditer(line)], most)
            target = _coarse([match.span() for match in _WORD.finditer(text)], most)
            return cls(line, text, source, target, _in_same_order(source, target))._with_copies(copies)
        pieces, source_pieces = translation.pieces, translation.source_pieces
        attention = np.zeros((len(pieces), len(source_pieces)))
        rows, columns = list[Word](), list[Word]()
        for (top, bottom), (left, right) in zip(_parts(pieces), _parts(source_pieces), strict=True):
            attention[top:bottom, left:right] = translation.alignment[top:bottom]
            rows += _words(pieces, top, bottom)
            columns += _words(source_pieces, left, right)
        source_spans = _spans(line, columns, [source_span for source_span, _ in copies])
        target_spans = _spans(text, rows, [target_span for _, target_span in copies])
        weights = _sums(_sums(attention, [columns[i] for i in source_spans]).T, [rows[i] for i in target_spans]).T
        weights /= np.array([rows[i].end - rows[i].start for i in target_spans])[:, None]
        # The attention of a punctuation mark is of little use, except that to another mark.
        weights[np.ix_(_are_marks(text, target_spans), ~_are_marks(line, source_spans))] = 0
        aligned = cls(line, text, list(source_spans.values()), list(target_spans.values()), weights)
        return aligned._with_copies(copies)

    def _with_copies(self, copies: Sequence[tuple[Span, Span]]) -> "AlignedWords":
        """Replace the words at the spans of copies by these spans. Each copy is aligned to its original."""
        if not copies or (len(self.source) + len(copies)) * (len(self.target) + len(copies)) > MOST_WEIGHTS:
            return self
        columns = _with_spans(self.source, [source_span for source_span, _ in copies])
        rows = _with_spans(self.target, [target_span for _, target_span in copies])
        weights = np.zeros((len(rows), len(columns)))
        new_rows, old_rows = _remaining_words(rows)
        new_columns, old_columns = _remaining_words(columns)
        weights[np.ix_(new_rows, new_columns)] = self.weights[np.ix_(old_rows, old_columns)]
        row_indices, column_indices = ({span: i for i, span in enumerate(words)} for words in (rows, columns))
        for source_span, target_span in copies:
            weights[row_indices[target_span], column_indices[source_span]] = 1
        return replace(self, source=list(columns), target=list(rows), weights=weights)


def _placed_terms(
    line: str, translation: Translation, copies: Sequence[tuple[Span, Span]]
) -> Iterator[tuple[Span, Span]]:
    """The spans of terms that were put into a translation, if each occurs once and does not overlap the other pairs."""
    for term in translation.terms or ():
        source, target = line.find(term.found_as), translation.text.find(term.target)
        is_only = line.count(term.found_as) == 1 == translation.text.count(term.target)
        pair = (source, source + len(term.found_as)), (target, target + len(term.target))
        is_taken = any(overlap(*spans) for others in copies for spans in zip(pair, others, strict=True))
        if term.how == "placed" and is_only and not is_taken:
            yield pair


def _with_spans(words: Sequence[Span], spans: Sequence[Span]) -> dict[Span, int | None]:
    """The spans and the words that do not overlap them, in order. Values: the index of a word; None for a span."""
    ordered = sorted(spans)
    stops = [stop for _, stop in ordered]
    merged: dict[Span, int | None] = dict.fromkeys(ordered)
    for i, (start, stop) in enumerate(words):
        following = bisect_right(stops, start)  # the first span that ends after the word's start
        if following == len(ordered) or ordered[following][0] >= stop:
            merged[start, stop] = i
    return dict(sorted(merged.items(), key=lambda item: item[0]))


def _remaining_words(merged: Mapping[Span, int | None]) -> tuple[list[int], list[int]]:
    """The new and the old indices of the words that `_with_spans` has kept."""
    pairs = [(new, old) for new, old in enumerate(merged.values()) if old is not None]
    return [new for new, _ in pairs], [old for _, old in pairs]


def _parts(pieces: Sequence[str]) -> list[Span]:
    """The start and end of each part that was translated separately. A part ends with the end of sentence."""
    ends = [i for i, piece in enumerate(pieces, start=1) if piece == pieces[-1]]
    return list(zip([0, *ends], ends, strict=False))


def _words(pieces: Sequence[str], start: int, stop: int) -> Iterator[Word]:
    """The words of a part, without the end of sentence."""
    for word in to_words(pieces[start:stop])[:-1]:
        yield Word(word.text, word.start + start, word.end + start)


def word_spans(text: str, pieces: Sequence[str]) -> dict[Span, slice]:
    """The words of a text, each with its subwords. pieces: of the text, the end of sentence last."""
    words = list(_words(pieces, 0, len(pieces)))
    return {span: slice(words[i].start, words[i].end) for i, span in _spans(text, words, ()).items()}


def _sums(weights: NDArray[np.float64], words: Sequence[Word]) -> NDArray[np.float64]:
    """Weights [N, subwords] summed over the subwords of each word: [N, words]."""
    sums = np.pad(weights.cumsum(axis=1), ((0, 0), (1, 0)))
    return sums[:, [word.end for word in words]] - sums[:, [word.start for word in words]]


def _spans(text: str, words: Sequence[Word], copies: Sequence[Span]) -> dict[int, Span]:
    """The start and end of words in a text, by the index of the word. Words that are not in the text, such as language
    tokens, are left out. Case, compatibility forms and white space, which a vocabulary may change, are ignored; and so
    are copies that are in no word."""
    folded_words = ["".join(map(_folded, word.text)) for word in words]
    all_words = "".join(folded_words)
    missing = sorted(span for span in copies if "".join(map(_folded, text[slice(*span)])) not in all_words)
    letters, positions, end = list[str](), list[int](), 0  # positions: of each letter in the text
    for start, stop in [*missing, (len(text), len(text))]:
        for position in range(end, start):
            folded = _folded(text[position])
            letters += folded
            positions += [position] * len(folded)
        end = stop
    folded_text, spans, end, skipped = "".join(letters), dict[int, Span](), 0, 0
    for i, word in enumerate(folded_words):
        start = folded_text.find(word, end, end + skipped + _MOST_SKIPPED + len(word)) if word else -1
        if start < 0:
            skipped += 2 * len(word)
            continue
        end, skipped = start + len(word), 0
        spans[i] = positions[start], positions[end - 1] + 1
    return spans


def _are_marks(text: str, words: Mapping[int, Span]) -> NDArray[np.bool_]:
    """Whether each word has no letter and no digit, [words]."""
    return np.array([not any(map(str.isalnum, text[start:stop])) for start, stop in words.values()], bool)


@cache
def _folded(character: str) -> str:
    """A character in the form in which texts are compared: several characters, or none for white space."""
    return "".join(unicodedata.normalize("NFKD", character).casefold().split())


def can_search(times: int, *texts: str) -> bool:
    """Whether texts can be searched this many times without taking too long."""
    return times * sum(map(len, texts)) <= _MOST_SEARCHED


def _coarse(words: list[Span], most: int) -> list[Span]:
    """At most `most` spans: the words, or groups of successive words."""
    size = -(-len(words) // most) or 1
    return [(words[i][0], words[min(i + size, len(words)) - 1][1]) for i in range(0, len(words), size)]


def _in_same_order(source: Sequence[Span], target: Sequence[Span]) -> NDArray[np.float64]:
    """Weights [T, S] for words in the same order in both texts, by the share of all letters that each word has."""
    s, t = (_bounds(words) for words in (source, target))
    overlap = np.minimum(t[1:, None], s[1:]) - np.maximum(t[:-1, None], s[:-1])
    return np.maximum(overlap, 0) / (t[1:] - t[:-1])[:, None]


def _bounds(words: Sequence[Span]) -> NDArray[np.float64]:
    """The start of each word and the end of the last one, as a share of all letters."""
    ends = np.cumsum([0.0, *(stop - start for start, stop in words)])
    return ends / max(1.0, ends[-1])
