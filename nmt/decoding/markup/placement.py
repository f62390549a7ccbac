"""Where the elements of a line, such as what stands between `<b>` and `</b>`, stand in its translation.

An element goes around that part of the translation in which the words that belong to its own words outnumber the others
the most: each counts by how much of its attention goes to the element's words, minus a half, and the part is that of
the largest sum. Elements that were in one another stay so, and others never share a word.

Shapes: T target and S source words.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nmt.decoding.markup.aligned_words import AlignedWords
from nmt.decoding.markup.elements import LINE, Element, Span

_TAKEN = -1e6  # the score of a word that another element has
_LEAST = -0.4  # a word alone belongs to an element if at least a tenth of its attention does


def place(elements: Sequence[Element], words: AlignedWords, copies: Mapping[int, Span]) -> list[Span]:
    """The characters of the translation for each element of a line. copies: of some that replace, by their numbers,
    those that are known to `words`.

    An element that replaces takes only words of which most attend to it. One that has no words, or for which none are
    left, is placed between words: before the one that attends most to the next word of the line, or behind the one that
    attends most to the word before it.
    """
    children: dict[int, list[int]] = {}
    for number, element in enumerate(elements):
        children.setdefault(element.parent, []).append(number)
    found = {LINE: (0, len(words.target))}
    placement = _Placement(elements, words)
    for parent in (LINE, *range(len(elements))):
        if parent in children:
            found |= placement.inside(found[parent], children[parent])
    places = [placement.characters(number, *found[number]) for number in range(len(elements))]
    for number, (start, stop) in copies.items():  # without what stands beside it in the same word
        if places[number][0] <= start and stop <= places[number][1]:
            places[number] = start, stop
    return places


class _Placement:
    """Finds the target words of elements. own: of each element the source words. sums [T, S + 1]: the share of a target
    word's attention that goes to the first source words."""

    def __init__(self, elements: Sequence[Element], words: AlignedWords):
        self.elements, self.words = elements, words
        total = np.maximum(words.weights.sum(axis=1, keepdims=True), 1e-9)
        self.sums = np.pad(np.cumsum(words.weights / total, axis=1), ((0, 0), (1, 0)))
        starts, stops = [start for start, _ in words.source], [stop for _, stop in words.source]
        self.own = [(bisect_right(stops, each.start), bisect_left(starts, each.stop)) for each in elements]

    def inside(self, room: Span, numbers: Sequence[int]) -> dict[int, Span]:
        """The target words of some elements that are beside each other, in the element that has the words of `room`."""
        start, stop = room
        scores = {i: self._scores(i, room) for i in numbers if self._has_words(i) and start < stop}
        largest = {i: _largest_sum(scores[i])[2] for i in scores}
        found, taken = dict[int, Span](), np.zeros(stop - start, bool)
        for i in sorted(scores, key=lambda i: -largest[i]):
            first, end, score = _largest_sum(np.where(taken, _TAKEN, scores[i]))
            if self._is_all_of_its_parent(i) and not taken.any():
                first, end = 0, stop - start
            elif score <= (0 if self.elements[i].replaces else _LEAST):
                continue
            found[i] = start + first, start + end
            taken[first:end] = True
        others = sorted((span, i) for i, span in found.items())
        between = {i: self._gap(i, room, others) for i in numbers if i not in found}
        return found | {i: (gap, gap) for i, gap in between.items()}

    def _has_words(self, number: int) -> bool:
        first, last = self.own[number]
        return first < last and self.elements[number].start < self.elements[number].stop

    def _scores(self, number: int, room: Span) -> NDArray[np.float64]:
        first, last = self.own[number]
        of_room = self.sums[slice(*room)]
        return of_room[:, last] - of_room[:, first] - 0.5

    def _is_all_of_its_parent(self, number: int) -> bool:
        element = self.elements[number]
        of_parent = (0, len(self.words.source)) if element.parent == LINE else self.own[element.parent]
        return not element.replaces and self.own[number] == of_parent

    def _gap(self, number: int, room: Span, others: Sequence[tuple[Span, int]]) -> int:
        """The number of the target word before which an element stands that has none. others: the target words and the
        numbers of those beside it, in their order in the target."""
        (start, stop), ends = room, self.elements[number].ends
        beside = self.own[number][0] - 1 if ends else self.own[number][1]
        if start == stop or not 0 <= beside < len(self.words.source):
            return start if ends else stop
        gap = start + int(self.words.weights[start:stop, beside].argmax()) + ends
        (first, end), other = others[max(0, bisect_left(others, ((gap, 0), 0)) - 1)] if others else ((gap, gap), 0)
        if first < gap < end:  # not into another element
            return first if self.own[number] < self.own[other] else end
        return gap

    def characters(self, number: int, start: int, stop: int) -> Span:
        """The characters of target words for an element; of none, a place between two words. If only a part of a word
        is in the element, and the word is the same in the translation, so is its part."""
        element, words, (first, last) = self.elements[number], self.words, self.own[number]
        if start >= stop:
            if first < last and len(words.target):  # inside of a word
                same = int(words.weights[:, first].argmax())
                if words.line[slice(*words.source[first])] == words.text[slice(*words.target[same])]:
                    place = words.target[same][0] + element.start - words.source[first][0]
                    return place, place
            behind = start == len(words.target) or (element.ends and start > 0)
            place = words.target[start - 1][1] if behind and start else words.target[start][0] if words.target else 0
            return place, place
        begin, end = words.target[start][0], words.target[stop - 1][1]
        if words.line[slice(*words.source[first])] == words.text[slice(*words.target[start])]:
            begin += max(0, element.start - words.source[first][0])
        if words.line[slice(*words.source[last - 1])] == words.text[slice(*words.target[stop - 1])]:
            end -= max(0, words.source[last - 1][1] - element.stop)
        return begin, end


def _largest_sum(scores: NDArray[np.float64]) -> tuple[int, int, float]:
    """The part from start up to stop, of one number or more, with the largest sum (Kadane's algorithm), and its sum."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    largest = sums[1:] - np.minimum.accumulate(sums[:-1])
    stop = int(largest.argmax()) + 1
    start = int(sums[:stop].argmin())
    return start, stop, float(largest[stop - 1])
