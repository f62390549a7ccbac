"""The elements of a line, such as what stands between `<b>` and `</b>`, and a translation with them."""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

Span = tuple[int, int]  # from a character up to another one, which does not belong to it
LINE = -1  # the number of the line among the elements
_MARKS = ".,;:!?…)]}»”’。、，；：！？）」』"  # before which no space is put


@dataclass(frozen=True)
class Element:
    """The characters of a line from start up to stop, which may be none, with the tags before and after them. parent:
    the number of the element around it, which is before it among all, or LINE. replaces: whether `before` stands in
    place of these characters. beside: of one that replaces them or has none, the characters of the document before and
    behind it, a space at the ends of the line."""

    start: int
    stop: int
    before: str
    after: str = ""
    parent: int = LINE
    replaces: bool = False
    beside: tuple[str, str] = (" ", " ")

    @property
    def is_alone(self) -> bool:
        """Whether no text of the translation is in it."""
        return self.replaces or self.start == self.stop

    @property
    def ends(self) -> bool:
        """Whether it belongs to the word before it, as the end of something does."""
        before, behind = self.beside
        return behind.isspace() and not before.isspace()


def with_elements(
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
            start, element = max(end, places[number][0]), elements[number]  # in a word of another: behind that
            last = text[end:start][-1:] or last
            is_apart = element.is_alone and number not in copies and last != "" and _is_apart(element.beside[0], last)
            parts += [written(text[end:start]), " " * is_apart, element.before]
            last, end = " " if is_apart else last, start
            open_.append(number)
        elif (number := open_.pop()) != LINE:
            element, stop, is_spaced = elements[number], max(end, places[number][1]), parts[-1] == " "
            parts += ["" if element.replaces else written(text[end:stop]), element.after]
            last, end = (element.before if element.replaces else text[end:stop])[-1:] or last, stop
            if element.is_alone and number not in copies:
                behind = text[stop : stop + 1]
                if behind not in ("", *_MARKS) and not is_spaced and _is_apart(element.beside[1], behind):
                    parts.append(" ")
                    last = " "
    return "".join([*parts, written(text[end:])])


def _is_apart(in_line: str, beside: str) -> bool:
    """Whether a space is missing between what replaces and the character beside it: where the line has one, or where
    the line has no letter, and here is one."""
    if beside.isspace():
        return False
    return in_line.isspace() or (beside.isalnum() and not in_line.isalnum())
