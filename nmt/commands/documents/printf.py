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
_NUMBERED = re.compile(rf"%%|(%\d{{1,2}}\${CONVERSION})")
_NUMBER = re.compile(r"\d{1,2}\$")


def numbered(string: str) -> str:
    """A string with the numbers of its arguments, if there are several and they have none."""
    found = _arguments(string)
    if len(found) < 2 or any(each["number"] for each in found) or "%(" in string:
        return string
    text, end, numbers = "", 0, count(1)
    for each in found:
        form = re.sub(r"\*", lambda _: f"*{next(numbers)}$", each["form"])  # a width is an argument before it
        text += f"{string[end : each.start()]}%{next(numbers)}${form}"
        end = each.end("form")
    return text + string[end:]


def in_order(translation: str, string: str, *, can_number: bool = True) -> str | None:
    """The translation of numbered(string): without numbers where its arguments have the order of the string. None if
    it has others, or another order without can_number: whether the program that reads it knows numbers."""
    source = numbered(string)
    if source == string:
        return translation
    wanted, found = (list(filter(None, _NUMBERED.findall(each))) for each in (source, translation))
    if found == wanted:
        return _NUMBERED.sub(lambda each: _NUMBER.sub("", each[0]), translation)
    if can_number and sorted(found) == sorted(wanted):
        return translation
    log.warning("left as it is, since its arguments would have another order: %.80r", string)
    return None


def _arguments(string: str) -> list[re.Match[str]]:
    """What stands for an argument: not `%%`, nor Java's `%n`, nor `100%free`, nor names where nothing else does."""
    found = [each for each in _CONVERSION.finditer(string) if each["form"] and each["form"] != "n"]
    found = [each for each in found if not (each["name"] and string[max(0, each.start() - 1) : each.start()].isdigit())]
    return found if any(len(each["name"]) < 3 for each in found) else []
