"""The order of arguments: in `%s, %d men` and in `{} of {}` each is the next one. They are numbered before the string
is translated, `%1$s, %2$d men` and `{0} of {1}`; in the translation the numbers stay where the order is another one.
"""

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from nmt.decoding.kept_items import BEFORE_VERB, CONVERSION, VERB

log = logging.getLogger("nmt")

NAMED = r"(?<![A-Za-z0-9_%])%[A-Za-z_][A-Za-z0-9_.-]{1,40}%(?![A-Za-z0-9_%$(<{#.*+-])"  # %name% of Symfony
_INTEGER = r"[-+#0-9.*]{0,9}<(?:PRI|SCN)\w{1,20}>"  # of gettext, for the macros of C
_CONVERSION = re.compile(
    rf"%%|{NAMED}|{BEFORE_VERB}%(?P<verb>{VERB})|%(?P<number>\d{{1,2}}\$)?(?P<form>{_INTEGER}|{CONVERSION})"
    r"(?P<name>[A-Za-z]*)"  # a unit, as in `%dpx`, or what makes it a name, as in `%site`
)
_NUMBERED = re.compile(rf"%%|%(?P<number>\d{{1,2}}\$)(?:{_INTEGER}|{VERB}|{CONVERSION})")
_NUMBER = re.compile(r"\d{1,2}\$")
_FORM = r"(?P<form>(?:![a-z])?(?::[^{}]*)?)\}(?!\})"
_BRACES = re.compile(rf"(?<![{{$#%])\{{{_FORM}")  # of Python, Rust and C++
_NUMBERED_BRACES = re.compile(rf"(?<![{{$#%])\{{\d{{1,3}}{_FORM}")
_WITHOUT_ARGUMENT = ("n", "m")  # Java's line break, and the error's name in C
_OF_GO = ("v", "q", "T", "w")  # Go has no numbers in this form


@dataclass(frozen=True)
class Order:
    """Which arguments can have numbers in the program that reads a string: those of printf, and braces."""

    printf: bool = True
    braces: bool = False


NUMBERED = Order()


def numbered(string: str) -> str:
    """A string with the numbers of its arguments, if there are several and they have none."""
    return _with_numbers_in_braces(_with_numbers(string))


def in_order(translation: str, string: str, order: Order = NUMBERED) -> str | None:
    """The translation of numbered(string): without numbers where its arguments have the order of the string. None if
    it has others, or another order where the program that reads it knows no numbers."""
    found = list(_arguments(string))
    can_number = order.printf and not any(form.endswith(_OF_GO) for *_, form in found)
    new: str | None = translation
    if (with_numbers := _with_numbers(string)) != string:
        new = _without_numbers(translation, with_numbers, _NUMBERED, can_number=can_number)
    if new is not None and (with_numbers := _with_numbers_in_braces(string)) != string:
        new = _without_numbers(new, with_numbers, _NUMBERED_BRACES, can_number=order.braces)
    if new is None:
        log.warning("left as it is, since its arguments would have another order: %.80r", string)
    return new


def _without_numbers(translation: str, source: str, pattern: re.Pattern[str], *, can_number: bool) -> str | None:
    wanted, found = ([each[0] for each in pattern.finditer(text) if each[0] != "%%"] for text in (source, translation))
    if found == wanted:
        return pattern.sub(_without_number, translation)
    return translation if can_number and sorted(found) == sorted(wanted) else None


def _without_number(found: re.Match[str]) -> str:
    return f"{{{found['form']}}}" if found[0].startswith("{") else _NUMBER.sub("", found[0])


def _with_numbers_in_braces(string: str) -> str:
    if len(_BRACES.findall(string)) < 2 or _NUMBERED_BRACES.search(string):
        return string
    numbers = count()
    return _BRACES.sub(lambda found: f"{{{next(numbers)}{found['form']}}}", string)


def _with_numbers(string: str) -> str:
    text, end, numbers = list[str](), 0, count(1)
    for start, stop, form in _arguments(string):
        form = re.sub(r"(?<!')\*", lambda _: f"*{next(numbers)}$", form)  # a width is an argument before it
        text.append(f"{string[end:start]}%{next(numbers)}${form}")
        end = stop
    return "".join([*text, string[end:]])


def _arguments(string: str) -> Iterator[tuple[int, int, str]]:
    """Where each argument begins and ends, and its form; nothing if there is but one, or if they have numbers or names.

    No argument are `%%`, Java's `%n`, `100%free`, and names where nothing else is one."""
    found = [each for each in _CONVERSION.finditer(string) if each["form"] or each["verb"]]
    found = [each for each in found if (each["form"] or each["verb"]) not in _WITHOUT_ARGUMENT]
    found = [each for each in found if not (each["name"] and string[max(0, each.start() - 1) : each.start()].isdigit())]
    if len(found) < 2 or any(each["number"] for each in found) or "%(" in string or "%[" in string:
        return
    if any(len(each["name"] or "") < 3 for each in found):
        for each in found:
            group = "form" if each["form"] else "verb"
            yield each.start(), each.end(group), each[group]
