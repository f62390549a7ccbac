"""Finds the positions of a line's elements, such as `<b>…</b>`, in its translation.

An element is placed around one part of the translation. The score of a target word is the share of its attention that
goes to the words of the element, minus 0.5; the part with the largest sum of scores is taken. Nested elements stay
nested, and other elements never share a word.

Shapes: T target and S source words.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import LINE, Element, Span

_TAKEN = -1e6  # the score of a word that belongs to another element
_LEAST = -0.4  # a single word belongs to an element if more than a tenth of its attention does


def place_elements(elements: Sequence[Element], words: AlignedWords, copies: Mapping[int, Span]) -> list[Span]:
    """The start and stop of each element in the translation. copies: for some elements that replace their characters,
    the span of their copy in the translation; by index.

    An element that replaces its characters takes only words with more than half of their attention to it. An element
    without words, or whose words are taken, is placed between two words: before the word that attends most to the next
    word of the line, or after the word that attends most to the word before the element.
    """
    children: dict[int, list[int]] = {}
    for i, element in enumerate(elements):
        children.setdefault(element.parent, []).append(i)
    target_words = {LINE: (0, len(words.target))}
    placement = _Placement(elements, words)
    for parent in (LINE, *range(len(elements))):
        if parent in children:
            target_words |= placement.inside(target_words[parent], children[parent])
    spans = []
    for i, element in enumerate(elements):
        spans.append(placement.characters(i, target_words[i], target_words[element.parent]))
    for i, (start, stop) in copies.items():  # without the other characters of the same word
        if spans[i][0] <= start and stop <= spans[i][1]:
            spans[i] = start, stop
    return spans


class _Placement:
    """Finds the target words of elements. own: the source words of each element. sums [T, S + 1]: cumulative sums of
    the share of each target word's attention that each source word has."""

    def __init__(self, elements: Sequence[Element], words: AlignedWords):
        self.elements, self.words = elements, words
        total = np.maximum(words.weights.sum(axis=1, keepdims=True), 1e-9)
        self.sums = np.pad(np.cumsum(words.weights / total, axis=1), ((0, 0), (1, 0)))
        starts, stops = [start for start, _ in words.source], [stop for _, stop in words.source]
        self.own = [(bisect_right(stops, item.start), bisect_left(starts, item.stop)) for item in elements]

    def inside(self, room: Span, siblings: Sequence[int]) -> dict[int, Span]:
        """The target words of sibling elements, by index. room: the target words of their parent."""
        start, stop = room
        with_words = [i for i in siblings if self._has_words(i) and start < stop]
        largest = {i: _largest_sum(self._scores(i, room))[2] for i in with_words}
        spans, taken = dict[int, Span](), np.zeros(stop - start, bool)
        # First the elements that continue in other sentences: they are at the ends.
        for i in sorted(with_words, key=lambda i: (not self.elements[i].goes_on, -largest[i])):
            scores = np.where(taken, _TAKEN, self._scores(i, room))
            if self._is_all_of_its_parent(i) and not taken.any():
                first, end = 0, stop - start
            elif self.elements[i].goes_on:
                first, end = _largest_sum_at_end(scores, at_start=self.elements[i].goes_on == "from before")
            else:
                first, end, score = _largest_sum(scores)
                if score <= (0 if self.elements[i].replaces else _LEAST):
                    continue
            spans[i] = start + first, start + end
            taken[first:end] = True
        others = sorted((span, i) for i, span in spans.items() if span[0] < span[1])
        gaps = {i: self._gap(i, room, others) for i in siblings if i not in spans}
        return spans | {i: (gap, gap) for i, gap in gaps.items()}

    def _has_words(self, i: int) -> bool:
        first, last = self.own[i]
        return first < last and self.elements[i].start < self.elements[i].stop

    def _scores(self, i: int, room: Span) -> NDArray[np.float64]:
        first, last = self.own[i]
        sums = self.sums[slice(*room)]
        return sums[:, last] - sums[:, first] - 0.5

    def _is_all_of_its_parent(self, i: int) -> bool:
        element = self.elements[i]
        parent_words = (0, len(self.words.source)) if element.parent == LINE else self.own[element.parent]
        return not element.replaces and self.own[i] == parent_words

    def _gap(self, i: int, room: Span, others: Sequence[tuple[Span, int]]) -> int:
        """The index of the target word before which an element without target words is placed: beside the word that
        attends most to its own word, or else to the word beside it. others: the target words and the indices of its
        siblings, in the order of the target."""
        (start, stop), own = room, self.own[i]
        has_words = self._has_words(i) and bool(self.words.weights[start:stop, own[0]].any())
        ends = self.elements[i].ends and not has_words
        beside = own[0] if has_words else own[0] - 1 if ends else own[1]
        if start == stop or not 0 <= beside < len(self.words.source):
            return start if ends else stop
        gap = start + int(self.words.weights[start:stop, beside].argmax()) + ends
        before = bisect_left(others, ((gap + has_words, 0), 0)) - 1
        (first, end), other = others[max(0, before)] if others else ((gap, gap), 0)
        if first < gap + has_words and gap < end:  # not into another element
            return first if own < self.own[other] else end
        return gap

    def characters(self, i: int, span: Span, room: Span) -> Span:
        """The start and stop in the translation of an element with the target words of `span`; if there are none, a
        position between two words of `room`. If only a part of a word is in the element, and the translation has the
        same word, the same part of it is taken."""
        element, words, (first, last), (start, stop) = self.elements[i], self.words, self.own[i], span
        if start >= stop:
            if element.start == element.stop and first < last and room[0] < room[1]:  # inside of a word
                same = room[0] + int(words.weights[slice(*room), first].argmax())
                if words.line[slice(*words.source[first])] == words.text[slice(*words.target[same])]:
                    between = words.target[same][0] + element.start - words.source[first][0]
                    return between, between
            if start > room[0] and (start == room[1] or element.ends):
                between = words.target[start - 1][1]
            else:
                between = (*words.target, (len(words.text), 0))[start][0]
            return between, between
        begin, end = words.target[start][0], words.target[stop - 1][1]
        if words.line[slice(*words.source[first])] == words.text[slice(*words.target[start])]:
            begin += max(0, element.start - words.source[first][0])
        if words.line[slice(*words.source[last - 1])] == words.text[slice(*words.target[stop - 1])]:
            end -= max(0, words.source[last - 1][1] - element.stop)
        return begin, end


def _largest_sum(scores: NDArray[np.float64]) -> tuple[int, int, float]:
    """The start and stop of the part, of one score or more, with the largest sum (Kadane's algorithm), and its sum."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    largest = sums[1:] - np.minimum.accumulate(sums[:-1])
    stop = int(largest.argmax()) + 1
    start = int(sums[:stop].argmin())
    return start, stop, float(largest[stop - 1])


def _largest_sum_at_end(scores: NDArray[np.float64], *, at_start: bool) -> Span:
    """The part at the start or at the end with the largest sum; the longest part if sums are equal."""
    sums = np.cumsum(scores if at_start else scores[::-1])[::-1]  # of all scores first, of one score last
    size = len(scores) - int(sums.argmax()) if sums.max() > _LEAST else 0
    return (0, size) if at_start else (len(scores) - size, len(scores))
