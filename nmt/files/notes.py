"""Remarks on files: what was found in one and how it is read, each said once."""

import logging
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

log = logging.getLogger("nmt")

Note = Callable[[str], None]  # takes a remark on how a file is read, or on what was left out


@cache
def say_once(message: str) -> None:
    """Log a message. A file is read several times; what is said of it is the same."""
    log.info("%s", message)


def counted(number: int, one: str, several: str) -> str:
    """A number with its noun: `1 line`, `2 lines`."""
    return f"{number:,} {one if number == 1 else several}"


def shown(characters: Sequence[tuple[str, int]], most: int = 5) -> str:
    """Characters by code and name, each with how often it is."""
    names = [
        f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip() + f" {count:,}"
        for character, count in characters[:most]
    ]
    return ", ".join([*names, "…"] if len(characters) > most else names)
