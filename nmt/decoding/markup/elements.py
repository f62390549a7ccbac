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
