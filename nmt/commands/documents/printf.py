"""The order of printf's arguments: in `%s, %d men` each is the next one. They are numbered before the string is
translated, `%1$s, %2$d men`; in the translation the numbers stay where the order is another one.
"""

import logging
import re
from itertools import count

from nmt.decoding.kept_items import CONVERSION

log = logging.getLogger("nmt")

NAMED = r"(?<![A-Za-z0-9_%])%[A-Za-z_][A-Za-z0-9_.-]{1,40}%(?![A-Za-z0-9_%$(<{#.*+-])"  # %name% of Symfony
_CONVERSION = re.compile(
    rf"%%|{NAMED}|%(?P<number>\d{{1,2}}\$)?(?P<form>{CONVERSION})"
    r"(?P<name>[A-Za-z]*)"  # a unit, as in `%dpx`, or what makes it a name, as in `%site`
)
_NUMBER = re.compile(r"\d{1,2}\$")


def numbered(string: str) -> str:
    """A string with the numbers of its arguments, if there are several and they have none."""
    found = [each for each in _CONVERSION.finditer(string) if _is_argument(each)]
    if len(found) < 2 or any(each["number"] for each in found) or "%(" in string:
        return string
    numbers = count(1)

    def with_number(each: re.Match[str]) -> str:
        if not _is_argument(each):
            return each[0]
        form = re.sub(r"\*", lambda _: f"*{next(numbers)}$", each["form"])  # a width is an argument before it
        return f"%{next(numbers)}${form}{each['name']}"

    return _CONVERSION.sub(with_number, string)


def in_order(translation: str, string: str, *, can_number: bool = True) -> str:
    """The translation of numbered(string): without numbers where its arguments have the order of the string, which it
    is itself if it has not the same. can_number: whether the program that reads it knows numbers."""
    wanted, found = _arguments(numbered(string)), _arguments(translation)
    if wanted == _arguments(string):
        return translation
    if found == wanted:
        return _CONVERSION.sub(lambda each: _NUMBER.sub("", each[0]) if _is_argument(each) else each[0], translation)
    if can_number and sorted(found) == sorted(wanted):
        return translation
    log.warning("left as it is, since its arguments would have another order: %.80r", string)
    return string


def _arguments(string: str) -> list[str]:
    found = _CONVERSION.finditer(string)
    return [f"%{each['number'] or ''}{each['form']}" for each in found if _is_argument(each)]


def _is_argument(found: re.Match[str]) -> bool:
    """Whether it stands for an argument: not so `%%`, Java's `%n`, names, and what is behind a number: `100%free`."""
    if not found["form"] or found["form"] == "n" or len(found["name"]) > 2:
        return False
    return not (found["name"] and found.start() and found.string[found.start() - 1].isdigit())
