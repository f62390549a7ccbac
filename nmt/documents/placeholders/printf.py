"""The order of arguments: in `%s, %d men` and in `{} of {}` each is the next one. They are numbered before the string
is translated, `%1$s, %2$d men` and `{0} of {1}`; in the translation the numbers stay where the order is another one.
"""

import re
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from nmt.decoding.protected_text import BEFORE_VERB, CONVERSION, VERB
from nmt.documents.document import NotTranslatable

NAMED = r"(?<![A-Za-z0-9_%])%[A-Za-z_][A-Za-z0-9_.-]{1,40}%(?![A-Za-z0-9_%$(<{#.*+-])"  # %name% of Symfony
DATE = rf"{BEFORE_VERB}%[-_0^#EO]?[YyMIjkVWZzR](?![A-Za-z0-9_])"  # of strftime; no argument has such a form
_INTEGER = r"[-+#0-9.*]{0,9}<(?:PRI|SCN)\w{1,20}>"  # of gettext, for the macros of C
_INDEX = r"\d{1,2}\$|\[\d{1,2}\]"  # of `%1$s`, and of `%[1]s` in Go
_CONVERSION = re.compile(
    rf"%%|{NAMED}|%(?P<key>\([^()]{{1,60}}\)){CONVERSION}|{BEFORE_VERB}%(?P<index>{_INDEX})?(?P<verb>{VERB})"
    rf"|%(?P<number>{_INDEX})?(?P<form>{_INTEGER}|{CONVERSION})"
    r"(?P<name>[A-Za-z]*)"  # a unit, as in `%dpx`, or what makes it a name, as in `%site`
)
_NUMBERED = re.compile(rf"%%|%(?P<number>{_INDEX})(?:{_INTEGER}|{VERB}|{CONVERSION})")
_NUMBER = re.compile(r"\d{1,2}\$")
_FORM = r"(?P<form>(?:![a-z])?(?::[^{}]*)?)\}(?!\})"
_BRACES = re.compile(rf"(?<![{{$#%])\{{{_FORM}")  # of Python, Rust and C++
_NUMBERED_BRACES = re.compile(rf"(?<![{{$#%])\{{(?P<number>\d{{1,3}}){_FORM}")
_WITHOUT_ARGUMENT = ("n", "m")  # Java's line break, and the error's name in C
_DATE = re.compile(DATE)
_WITHOUT_NUMBER = ("v", "q", "T", "w", "a", "A", "b", "B", "H")  # of Go, which writes `%[1]v`, and of strftime


@dataclass(frozen=True)
class ArgumentOrder:
    """Which arguments can have numbers in the program that reads a string: those of printf, and braces."""

    printf: bool = True
    braces: bool = False


NUMBERED = ArgumentOrder()


def numbered(string: str) -> str:
    """A string with the numbers of its arguments, if there are several, of which some have none."""
    return _with_numbers_in_braces(_with_numbers(string))


def in_order(translation: str, string: str, order: ArgumentOrder = NUMBERED) -> str:
    """The translation of numbered(string): without the new numbers where its arguments have the order of the string.
    Raises NotTranslatable if it has others, or another order where that is not possible: the program that reads it
    knows no numbers, or some of the string's arguments have numbers or names, so that it depends on the program what
    comes next.
    """
    new = translation
    if (with_numbers := _with_numbers(string)) != string:
        found = _arguments(string)
        can_number = (
            order.printf and not found.is_mixed and not any(form.endswith(_WITHOUT_NUMBER) for *_, form in found.places)
        )
        new = _without_numbers(new, with_numbers, _NUMBERED, found.last, can_number=can_number)
    if (with_numbers := _with_numbers_in_braces(string)) != string:
        last = _last_in_braces(string)
        new = _without_numbers(new, with_numbers, _NUMBERED_BRACES, last, can_number=order.braces and last < 0)
    return new


def _without_numbers(translation: str, source: str, pattern: re.Pattern[str], last: int, *, can_number: bool) -> str:
    """last: the highest number that the string has by itself."""

    def without(found: re.Match[str]) -> str:
        if not found["number"] or int(found["number"].strip("[]$")) <= last:
            return found[0]
        return f"{{{found['form']}}}" if found[0].startswith("{") else _NUMBER.sub("", found[0])

    wanted, found = ([each[0] for each in pattern.finditer(text) if each[0] != "%%"] for text in (source, translation))
    if found == wanted:
        return pattern.sub(without, translation)
    if can_number and sorted(found) == sorted(wanted):
        return translation
    raise NotTranslatable(f"its arguments would have another order: {pattern.sub(without, source)!r:.80}")


def _last_in_braces(string: str) -> int:
    """The highest number of an argument in braces; -1 if none has one."""
    return max((int(found["number"]) for found in _NUMBERED_BRACES.finditer(string)), default=-1)


def _with_numbers_in_braces(string: str) -> str:
    last = _last_in_braces(string)
    if last < 0 and len(_BRACES.findall(string)) < 2:
        return string
    numbers = count(last + 1)
    return _BRACES.sub(lambda found: f"{{{next(numbers)}{found['form']}}}", string)


def _with_numbers(string: str) -> str:
    found = _arguments(string)
    text, end, numbers = list[str](), 0, count(found.last + 1)
    for start, stop, form in found.places:
        form = re.sub(r"(?<!')\*", lambda _: f"*{next(numbers)}$", form)  # a width is an argument before it
        text.append(f"{string[end:start]}%{next(numbers)}${form}")
        end = stop
    return "".join([*text, string[end:]])


class _Arguments(NamedTuple):
    """places: where each argument without a number begins and ends, and its form. last: the highest number of others.
    is_mixed: whether others have numbers or names."""

    places: list[tuple[int, int, str]]
    last: int = 0
    is_mixed: bool = False


def _arguments(string: str) -> _Arguments:
    """The arguments of a string; none if there is but one, if all have numbers or names, or in a date.

    No argument are `%%`, Java's `%n`, `100%free`, and names where nothing else is one."""
    if _DATE.search(string):
        return _Arguments([])
    found = [each for each in _CONVERSION.finditer(string) if each["form"] or each["verb"] or each["key"]]
    found = [each for each in found if (each["form"] or each["verb"]) not in _WITHOUT_ARGUMENT]
    found = [each for each in found if not (each["name"] and string[max(0, each.start() - 1) : each.start()].isdigit())]
    free = [each for each in found if not (each["number"] or each["index"] or each["key"])]
    if len(found) < 2 or all(len(each["name"] or "") >= 3 for each in free):
        return _Arguments([])
    groups = ["form" if each["form"] else "verb" for each in free]
    places = [(each.start(), each.end(group), each[group]) for each, group in zip(free, groups, strict=True)]
    numbers = [int(number) for each in found for number in re.findall(r"\d{1,2}(?=[]$])", each[0])]
    return _Arguments(places, max(numbers, default=0), len(free) < len(found))
