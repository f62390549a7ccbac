"""Where the elements of a line, such as what stands between `<b>` and `</b>`, stand in its translation.

An element goes around that part of the translation in which the words that belong to its own words outnumber the others
the most: each counts by how much of its attention goes to the element's words, minus a half, and the part is that of
the largest sum. Elements that were in one another stay so, and others never share a word.

Shapes: T target and S source words.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nmt.decoding.markup.aligned_words import AlignedWords, Span

LINE = -1  # the number of the line among the elements
_TAKEN = -1e6  # the score of a word that another element has
_MARKS = ".,;:!?…)]}»”’。、，；：！？）」』"  # before which no space is put
_LEAST = -0.4  # a word alone belongs to an element if at least a tenth of its attention does


@dataclass(frozen=True)
class Element:
    """The characters of a line from start up to stop, which may be none, with the tags before and after them. parent:
    the number of the element around it, which is before it among all, or LINE. replaces: whether `before` stands in
    place of these characters; beside: then, the characters of the line before and behind it, a space at its ends.
    ends: whether it belongs to the word before it, as the end of something does."""

    start: int
    stop: int
    before: str
    after: str = ""
    parent: int = LINE
    replaces: bool = False
    beside: tuple[str, str] = (" ", " ")
    ends: bool = False

    @classmethod
    def instead(cls, line: str, start: int, stop: int, before: str) -> "Element":
        """One that replaces these characters."""
        beside = line[start - 1 : start] or " ", line[stop : stop + 1] or " "
        return cls(start, stop, before, replaces=True, beside=beside)


def place(elements: Sequence[Element], words: AlignedWords, copies: Mapping[int, Span]) -> list[Span]:
    """The characters of the translation for each element of a line. copies: of some that replace, by their numbers,
    those that are known.

    An element that replaces takes only words of which most attend to it. One that has no words, or for which none are
    left, is placed between words: before the one that attends most to the next word of the line, or behind the one that
    attends most to the word before it.
    """
    for number, span in copies.items():
        words = words.with_copy((elements[number].start, elements[number].stop), span)
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


def joined(
    text: str,
    elements: Sequence[Element],
    places: Sequence[Span],
    copies: Container[int],
    written: Callable[[str], str] = str,
) -> str:
    """A translation with its elements. copies: as for `place`; written: how its text is written between them."""
    parts, end, open_, children = list[str](), 0, [LINE], dict[int, list[int]]()
    for number in sorted(range(len(places)), key=lambda number: (*places[number], number), reverse=True):
        children.setdefault(elements[number].parent, []).append(number)
    last = ""  # the last character of the text, or of what replaced it
    while open_:
        if left := children.get(open_[-1]):
            number = left.pop()
            (start, stop), element = places[number], elements[number]
            between = written(text[end:start])
            last = text[end:start][-1:] or last
            space = more = ""
            if element.replaces and number not in copies:
                before, behind = element.beside
                space = " " * (_is_apart(before, last) and last != "")
                more = " " * (_is_apart(behind, text[stop : stop + 1]) and text[stop : stop + 1] not in ("", *_MARKS))
            parts += [between, space, element.before, more]
            if element.replaces:
                last = (element.before + more)[-1:] or last
            end = stop if element.replaces else start
            open_.append(number)
        elif (number := open_.pop()) != LINE:
            last = text[end : places[number][1]][-1:] or last
            parts += [written(text[end : places[number][1]]), elements[number].after]
            end = places[number][1]
    return "".join([*parts, written(text[end:])])


def _is_apart(in_line: str, beside: str) -> bool:
    """Whether a space is missing between what replaces and the character beside it: where the line has one, or where
    the line has no letter, and here is one."""
    if beside.isspace():
        return False
    return in_line.isspace() or (beside.isalnum() and not in_line.isalnum())


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
            if self._is_all_of_its_parent(i):
                first, end = 0, stop - start
            elif score <= (0 if self.elements[i].replaces else _LEAST):
                continue
            found[i] = start + first, start + end
            taken[first:end] = True
        between = {i: self._gap(i, room, found) for i in numbers if i not in found}
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

    def _gap(self, number: int, room: Span, found: dict[int, Span]) -> int:
        """The number of the target word before which an element stands that has none."""
        (start, stop), ends = room, self.elements[number].ends
        beside = self.own[number][0] - 1 if ends else self.own[number][1]
        if start == stop or not 0 <= beside < len(self.words.source):
            gap = start if ends else stop
        else:
            gap = start + int(self.words.weights[start:stop, beside].argmax()) + ends
        for other, (first, end) in found.items():
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
