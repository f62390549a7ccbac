"""The words of a line and of its translation: where they stand in both texts, and which belong together.

Shapes: T target and S source words.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nmt.config.unspaced_scripts import UNSPACED
from nmt.decoding.markup.elements import Span
from nmt.decoding.translation import Translation
from nmt.decoding.word_alignment import Word, to_words

# Words, single characters of scripts without spaces between words, and punctuation marks.
_WORD = re.compile(rf"[^\W{UNSPACED}]+|[{UNSPACED}]|[^\w\s]")
_MOST = 10_000_000  # numbers of an alignment that are held at once, and words that are looked at for elements
_MOST_SEARCHED = 500_000_000  # characters that are looked at to find copies
_FEW = 8  # characters that the vocabulary's normalization may leave out before a word


@dataclass(frozen=True)
class AlignedWords:
    """line, text: what was translated, and its translation. source, target: the characters of each word there. weights
    [T, S]: how much each target word belongs to each source word; a row sums to 1 at most."""

    line: str
    text: str
    source: Sequence[Span]
    target: Sequence[Span]
    weights: NDArray[np.float64]

    @classmethod
    def of(
        cls, line: str, translation: Translation, copies: Sequence[tuple[Span, Span]] = (), elements: int = 0
    ) -> "AlignedWords":
        """Of a line and its translation. Without an alignment, or where there is too much to compute, words are taken
        to stand in the same order in both. copies: parts of the line that do not overlap, each with the part of the
        translation that is its copy; they are words. elements: how many elements will be placed."""
        text = translation.text
        size = len(translation.pieces) * max(len(translation.source_pieces or ()), elements)
        is_large = size > _MOST or not can_search(len(copies), line, text)
        if translation.alignment is None or translation.source_pieces is None or is_large:
            most = min(2_000, max(1, _MOST // max(1, elements)))
            source, target = (_coarse([found.span() for found in _WORD.finditer(each)], most) for each in (line, text))
            return cls(line, text, source, target, _in_same_order(source, target))._with_copies(copies)
        pieces, source_pieces = translation.pieces, translation.source_pieces
        attention = np.zeros((len(pieces), len(source_pieces)))
        rows, columns = list[Word](), list[Word]()
        for (top, bottom), (left, right) in zip(_parts(pieces), _parts(source_pieces), strict=True):
            attention[top:bottom, left:right] = translation.alignment[top:bottom]
            rows += _words(pieces, top, bottom)
            columns += _words(source_pieces, left, right)
        of_line = _found(line, columns, [of_line for of_line, _ in copies])
        of_text = _found(text, rows, [of_text for _, of_text in copies])
        weights = _sums(_sums(attention, [columns[i] for i in of_line]).T, [rows[i] for i in of_text]).T
        weights /= np.array([rows[i].end - rows[i].start for i in of_text])[:, None]
        # What a punctuation mark attends to says little, unless it is another mark.
        weights[np.ix_(_are_marks(text, of_text), ~_are_marks(line, of_line))] = 0
        return cls(line, text, list(of_line.values()), list(of_text.values()), weights)._with_copies(copies)

    def _with_copies(self, copies: Sequence[tuple[Span, Span]]) -> "AlignedWords":
        if not copies or (len(self.source) + len(copies)) * (len(self.target) + len(copies)) > _MOST:
            return self
        columns = _with_spans(self.source, [of_line for of_line, _ in copies])
        rows = _with_spans(self.target, [of_text for _, of_text in copies])
        weights = np.zeros((len(rows), len(columns)))
        numbers = [[number for number in words.values() if number is not None] for words in (rows, columns)]
        places = [[i for i, number in enumerate(words.values()) if number is not None] for words in (rows, columns)]
        weights[np.ix_(*places)] = self.weights[np.ix_(*numbers)]
        row_of, column_of = ({span: i for i, span in enumerate(words)} for words in (rows, columns))
        for of_line, of_text in copies:
            weights[row_of[of_text], column_of[of_line]] = 1
        return replace(self, source=list(columns), target=list(rows), weights=weights)


def _with_spans(words: Sequence[Span], spans: Sequence[Span]) -> dict[Span, int | None]:
    """The words that have no part in spans, and these, in their order; and the number of each word."""
    ordered = sorted(spans)
    stops = [stop for _, stop in ordered]
    found: dict[Span, int | None] = dict.fromkeys(ordered)
    for number, (start, stop) in enumerate(words):
        beside = bisect_right(stops, start)  # the first span that ends behind the word's start
        if beside == len(ordered) or ordered[beside][0] >= stop:
            found[start, stop] = number
    return dict(sorted(found.items(), key=lambda item: item[0]))


def _parts(pieces: Sequence[str]) -> list[Span]:
    """The subwords of each part that was translated alone: each ends with the end of sentence."""
    ends = [i for i, piece in enumerate(pieces, start=1) if piece == pieces[-1]]
    return list(zip([0, *ends], ends, strict=False))


def _words(pieces: Sequence[str], start: int, stop: int) -> Iterator[Word]:
    """The words of a part, without its end."""
    for word in to_words(pieces[start:stop])[:-1]:
        yield Word(word.text, word.start + start, word.end + start)


def _sums(weights: NDArray[np.float64], words: Sequence[Word]) -> NDArray[np.float64]:
    """Weights [N, subwords], added up over the subwords of each word, [N, words]."""
    sums = np.pad(weights.cumsum(axis=1), ((0, 0), (1, 0)))
    return sums[:, [word.end for word in words]] - sums[:, [word.start for word in words]]


def _found(text: str, words: Sequence[Word], copies: Sequence[Span]) -> dict[int, Span]:
    """Where words stand in a text, one after the other: by their numbers, without those that are not found, such as
    tokens of languages. Case, compatibility forms and white space, which a vocabulary may change, do not count; nor do
    copies that are in no words."""
    of_words = ["".join(map(_folded, word.text)) for word in words]
    all_words = "".join(of_words)
    missing = sorted(span for span in copies if "".join(map(_folded, text[slice(*span)])) not in all_words)
    read, end = list[int](), 0
    for start, stop in [*missing, (len(text), len(text))]:
        read += range(end, start)
        end = stop
    folded = [(letter, i) for i in read for letter in _folded(text[i])]
    letters, found, place, missed = "".join(letter for letter, _ in folded), dict[int, Span](), 0, 0
    for number, wanted in enumerate(of_words):
        start = letters.find(wanted, place, place + missed + _FEW + len(wanted)) if wanted else -1
        if start < 0:
            missed += 2 * len(wanted)
            continue
        place, missed = start + len(wanted), 0
        found[number] = folded[start][1], folded[place - 1][1] + 1
    return found


def _are_marks(text: str, words: Mapping[int, Span]) -> NDArray[np.bool_]:
    """Which words have no letter and no digit."""
    return np.array([not any(map(str.isalnum, text[start:stop])) for start, stop in words.values()], bool)


def _folded(character: str) -> str:
    """A character, or several, in the form in which texts are compared; empty for white space."""
    return "".join(unicodedata.normalize("NFKD", character).casefold().split())


def can_search(times: int, *texts: str) -> bool:
    """Whether texts can be searched this often: if not, it would take too long."""
    return times * sum(map(len, texts)) <= _MOST_SEARCHED


def _coarse(words: list[Span], most: int) -> list[Span]:
    """Words, or as many of them together as it needs to have at most `most`."""
    size = -(-len(words) // most) or 1
    return [(words[i][0], words[min(i + size, len(words)) - 1][1]) for i in range(0, len(words), size)]


def _in_same_order(source: Sequence[Span], target: Sequence[Span]) -> NDArray[np.float64]:
    """Weights [T, S] as if the words of both lines stood in the same order, each with its share of all letters."""
    s, t = (_bounds(words) for words in (source, target))
    overlap = np.minimum(t[1:, None], s[1:]) - np.maximum(t[:-1, None], s[:-1])
    return np.maximum(overlap, 0) / (t[1:] - t[:-1])[:, None]


def _bounds(words: Sequence[Span]) -> NDArray[np.float64]:
    """Where each word begins and the last one ends, as a share of all letters."""
    ends = np.cumsum([0.0, *(stop - start for start, stop in words)])
    return ends / max(1.0, ends[-1])
