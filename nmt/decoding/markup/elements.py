"""The elements of a line, such as `<b>…</b>`, and their insertion into its translation."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Literal

Span = tuple[int, int]  # start and stop; stop is exclusive
LINE = -1  # the index of the whole line, as the parent of elements
_MARKS = ".,;:!?…)]}»”’。、，；：！？）」』"  # no space is put before these


def overlap(one: Span, other: Span) -> bool:
    """Whether two spans have characters in common."""
    return one[0] < other[1] and other[0] < one[1]


@dataclass(frozen=True)
class Element:
    """The characters of a line from start to stop, possibly none, with the tags before and after them. parent: the
    index of the element around it, which comes before it in the list, or LINE. replaces: whether `before` replaces
    these characters. goes_on: whether it began in the sentence before, or ends in a following one: then it is also at
    that end of the translation. beside: for an element that replaces its characters or has none, the characters of the
    document before and after it; a space at the ends of the line."""

    start: int
    stop: int
    before: str
    after: str = ""
    parent: int = LINE
    replaces: bool = False
    goes_on: Literal["", "from before", "behind"] = ""
    beside: tuple[str, str] = (" ", " ")

    @property
    def is_alone(self) -> bool:
        """Whether the element contains no text of the translation."""
        return self.replaces or self.start == self.stop

    @property
    def is_tag(self) -> bool:
        """Whether it is one tag, such as `<br>`, or a comment."""
        return self.start == self.stop and not self.after and not self.replaces

    @property
    def ends(self) -> bool:
        """Whether it belongs to the word before it, as an end tag does."""
        before, behind = self.beside
        return behind.isspace() and not before.isspace()


def with_elements(
    text: str,
    elements: Sequence[Element],
    spans: Sequence[Span],
    copies: Container[int],
    written: Callable[[str], str] = str,
) -> str:
    """Insert the elements into a translation. spans: the start and stop of each element in it. copies: as in
    `place_elements`; written: returns a text as it is written between the elements."""
    parts, end, open_, children = list[str](), 0, [LINE], dict[int, list[int]]()
    for i in sorted(range(len(spans)), key=lambda i: (*spans[i], i), reverse=True):
        children.setdefault(elements[i].parent, []).append(i)
    last = ""  # the last character of the text, or of its replacement
    while open_:
        if remaining := children.get(open_[-1]):
            i = remaining.pop()
            start, element = max(end, spans[i][0]), elements[i]  # after another element of the same word
            last = text[end:start][-1:] or last
            needs_space = element.is_alone and i not in copies and last != "" and _needs_space(element.beside[0], last)
            parts += [written(text[end:start]), " " if needs_space else "", element.before]
            last, end = " " if needs_space else last, start
            open_.append(i)
        elif (i := open_.pop()) != LINE:
            element, stop, is_spaced = elements[i], max(end, spans[i][1]), parts[-1] == " "
            parts += ["" if element.replaces else written(text[end:stop]), element.after]
            last, end = (element.before if element.replaces else text[end:stop])[-1:] or last, stop
            if element.is_alone and i not in copies:
                after = text[stop : stop + 1]
                if after not in ("", *_MARKS) and not is_spaced and _needs_space(element.beside[1], after):
                    parts.append(" ")
                    last = " "
    return "".join([*parts, written(text[end:])])


def _needs_space(in_line: str, in_translation: str) -> bool:
    """Whether to put a space between an element and the character beside it in the translation: if the character beside
    it in the line is a space, or is no letter while that in the translation is one."""
    if in_translation.isspace():
        return False
    return in_line.isspace() or (in_translation.isalnum() and not in_line.isalnum())
