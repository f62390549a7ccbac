"""The order of arguments in strings such as `%s, %d men` and `{} of {}`.

Arguments get numbers before the translation: `%1$s, %2$d men` and `{0} of {1}`. The numbers are removed from the
translation if the order is the same, and stay if it is another one.
"""

import re
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from nmt.decoding.protected_text import BEFORE_VERB, CONVERSION, VERB
from nmt.documents.document import NotTranslatable

NAMED = r"(?<![A-Za-z0-9_%])%[A-Za-z_][A-Za-z0-9_.-]{1,40}%(?![A-Za-z0-9_%$(<{#.*+-])"  # %name% of Symfony
DATE = rf"{BEFORE_VERB}%[-_0^#EO]?[YyMIjkVWZzR](?![A-Za-z0-9_])"  # a form of strftime that no argument has
_INTEGER = r"[-+#0-9.*]{0,9}<(?:PRI|SCN)\w{1,20}>"  # gettext's form of C macros
_INDEX = r"\d{1,2}\$|\[\d{1,2}\]"  # in `%1$s`, and in `%[1]s` of Go
_CONVERSION = re.compile(
    rf"%%|{NAMED}|%(?P<key>\([^()]{{1,60}}\)){CONVERSION}|{BEFORE_VERB}%(?P<index>{_INDEX})?(?P<verb>{VERB})"
    rf"|%(?P<number>{_INDEX})?(?P<form>{_INTEGER}|{CONVERSION})"
    r"(?P<name>[A-Za-z]*)"  # a unit, as in `%dpx`, or the rest of a name, as in `%site`
)
_NUMBERED = re.compile(rf"%%|%(?P<number>{_INDEX})(?:{_INTEGER}|{VERB}|{CONVERSION})")
_NUMBER = re.compile(r"\d{1,2}\$")
_FORM = r"(?P<form>(?:![a-z])?(?::[^{}]*)?)\}(?!\})"
_BRACES = re.compile(rf"(?<![{{$#%])\{{{_FORM}")  # Python, Rust and C++
_NUMBERED_BRACES = re.compile(rf"(?<![{{$#%])\{{(?P<number>\d{{1,3}}){_FORM}")
_WITHOUT_ARGUMENT = ("n", "m")  # Java's line break, and the name of an error in C
_DATE = re.compile(DATE)
_WITHOUT_NUMBER = ("v", "q", "T", "w", "a", "A", "b", "B", "H")  # Go, which writes `%[1]v`, and strftime


@dataclass(frozen=True)
class ArgumentOrder:
    """Which arguments can have numbers in the program that reads a string: printf's, and braces."""

    printf: bool = True
    braces: bool = False


NUMBERED = ArgumentOrder()


def numbered(string: str) -> str:
    """A string in which all arguments have numbers, if it has several arguments and some have no number."""
    return _with_numbers_in_braces(_with_numbers(string))


def in_order(translation: str, string: str, order: ArgumentOrder = NUMBERED) -> str:
    """The translation of numbered(string), without the new numbers if its arguments have the order of the string.

    Raises NotTranslatable if the translation has other arguments, or has them in another order that cannot be written:
    the program does not support numbers, or some arguments of the string have numbers or names, so that the meaning of
    the others depends on the program.
    """
    new = translation
    if (with_numbers := _with_numbers(string)) != string:
        arguments = _arguments(string)
        can_number = order.printf and not arguments.is_mixed
        if any(form.endswith(_WITHOUT_NUMBER) for *_, form in arguments.unnumbered):
            can_number = False
        new = _without_numbers(new, with_numbers, _NUMBERED, arguments.last, can_number=can_number)
    if (with_numbers := _with_numbers_in_braces(string)) != string:
        last = _last_in_braces(string)
        new = _without_numbers(new, with_numbers, _NUMBERED_BRACES, last, can_number=order.braces and last < 0)
    return new


def _without_numbers(translation: str, source: str, pattern: re.Pattern[str], last: int, *, can_number: bool) -> str:
    """last: the highest number that the original string contains."""

    def without(argument: re.Match[str]) -> str:
        if not argument["number"] or int(argument["number"].strip("[]$")) <= last:
            return argument[0]
        return f"{{{argument['form']}}}" if argument[0].startswith("{") else _NUMBER.sub("", argument[0])

    source_arguments = [match[0] for match in pattern.finditer(source) if match[0] != "%%"]
    arguments = [match[0] for match in pattern.finditer(translation) if match[0] != "%%"]
    if arguments == source_arguments:
        return pattern.sub(without, translation)
    if can_number and sorted(arguments) == sorted(source_arguments):
        return translation
    raise NotTranslatable(f"the order of its arguments would change: {pattern.sub(without, source)!r:.80}")


def _last_in_braces(string: str) -> int:
    """The highest number of an argument in braces; -1 if there is none."""
    return max((int(match["number"]) for match in _NUMBERED_BRACES.finditer(string)), default=-1)


def _with_numbers_in_braces(string: str) -> str:
    last = _last_in_braces(string)
    if last < 0 and len(_BRACES.findall(string)) < 2:
        return string
    numbers = count(last + 1)
    return _BRACES.sub(lambda match: f"{{{next(numbers)}{match['form']}}}", string)


def _with_numbers(string: str) -> str:
    arguments = _arguments(string)
    text, end, numbers = list[str](), 0, count(arguments.last + 1)
    for start, stop, form in arguments.unnumbered:
        form = re.sub(r"(?<!')\*", lambda _: f"*{next(numbers)}$", form)  # a width is an argument of its own, before it
        text.append(f"{string[end:start]}%{next(numbers)}${form}")
        end = stop
    return "".join([*text, string[end:]])


class _Arguments(NamedTuple):
    """The arguments of a string."""

    unnumbered: list[tuple[int, int, str]]  # start, stop and form of each argument without a number or a name
    last: int = 0  # the highest number of the other arguments
    is_mixed: bool = False  # there are other arguments


def _arguments(string: str) -> _Arguments:
    """The arguments of a string; none if it has only one, if all have numbers or names, or if it has a date.

    `%%`, Java's `%n` and `100%free` are not arguments, nor are names if nothing else is an argument.
    """
    if _DATE.search(string):
        return _Arguments([])
    arguments = list[re.Match[str]]()
    for match in _CONVERSION.finditer(string):
        form = match["form"] or match["verb"]
        is_percentage = match["name"] and string[max(0, match.start() - 1) : match.start()].isdigit()
        if (form or match["key"]) and form not in _WITHOUT_ARGUMENT and not is_percentage:
            arguments.append(match)
    free = [match for match in arguments if not (match["number"] or match["index"] or match["key"])]
    if len(arguments) < 2 or all(len(match["name"] or "") >= 3 for match in free):
        return _Arguments([])
    unnumbered = list[tuple[int, int, str]]()
    for match in free:
        group = "form" if match["form"] else "verb"
        unnumbered.append((match.start(), match.end(group), match[group]))
    last = 0
    for match in arguments:
        last = max([last, *map(int, re.findall(r"\d{1,2}(?=[]$])", match[0]))])
    return _Arguments(unnumbered, last, len(free) < len(arguments))
