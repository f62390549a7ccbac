"""Where the elements of a line, such as what stands between `<b>` and `</b>`, stand in its translation.

An element goes around one part of the translation. Each word counts by how much of its attention goes to the words of
the element, minus a half; the part with the largest sum is taken. Elements that were in one another stay so, and others
never share a word.

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
    places = [placement.characters(i, found[i], found[element.parent]) for i, element in enumerate(elements)]
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
        with_words = [i for i in numbers if self._has_words(i) and start < stop]
        largest = {i: _largest_sum(self._scores(i, room))[2] for i in with_words}
        found, taken = dict[int, Span](), np.zeros(stop - start, bool)
        # Those that go on in other sentences first: they are at the ends.
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
            found[i] = start + first, start + end
            taken[first:end] = True
        others = sorted((span, i) for i, span in found.items() if span[0] < span[1])
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
        """The number of the target word before which an element stands that gets none: at the one that attends most to
        its own word, or else to the word beside it. others: the target words and the numbers of the elements beside it,
        in their order in the target."""
        (start, stop), own = room, self.own[number]
        has_words = self._has_words(number) and bool(self.words.weights[start:stop, own[0]].any())
        ends = self.elements[number].ends and not has_words
        beside = own[0] if has_words else own[0] - 1 if ends else own[1]
        if start == stop or not 0 <= beside < len(self.words.source):
            return start if ends else stop
        gap = start + int(self.words.weights[start:stop, beside].argmax()) + ends
        before = bisect_left(others, ((gap + has_words, 0), 0)) - 1
        (first, end), other = others[max(0, before)] if others else ((gap, gap), 0)
        if first < gap + has_words and gap < end:  # not into another element
            return first if own < self.own[other] else end
        return gap

    def characters(self, number: int, span: Span, room: Span) -> Span:
        """The characters of the target words of `span` for an element; if these are none, a place between two words of
        the room. If only a part of a word is in the element, and the word is the same in the translation, so is its
        part."""
        element, words, (first, last), (start, stop) = self.elements[number], self.words, self.own[number], span
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
    """The part from start up to stop, of one number or more, with the largest sum (Kadane's algorithm), and its sum."""
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    largest = sums[1:] - np.minimum.accumulate(sums[:-1])
    stop = int(largest.argmax()) + 1
    start = int(sums[:stop].argmin())
    return start, stop, float(largest[stop - 1])


def _largest_sum_at_end(scores: NDArray[np.float64], *, at_start: bool) -> Span:
    """The part at one end with the largest sum; the longest one of several."""
    sums = np.cumsum(scores if at_start else scores[::-1])[::-1]  # from that of all to that of one
    size = len(scores) - int(sums.argmax()) if sums.max() > _LEAST else 0
    return (0, size) if at_start else (len(scores) - size, len(scores))
