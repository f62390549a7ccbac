"""Remarks on files, such as how a file is read. Each remark is logged once."""

import logging
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

log = logging.getLogger("nmt")

Note = Callable[[str], None]  # takes a remark on how a file is read, or on lines that are left out


@cache
def say_once(message: str) -> None:
    """Log a message once. A file is read several times, with the same remarks."""
    log.info("%s", message)


def counted(count: int, singular: str, plural: str) -> str:
    """A number with its noun: `1 line`, `2 lines`."""
    return f"{count:,} {singular if count == 1 else plural}"


def shown(characters: Sequence[tuple[str, int]], most: int = 5) -> str:
    """The first `most` characters with code, name and count."""
    names = [
        f"U+{ord(character):04X} {unicodedata.name(character, '')}".strip() + f" {count:,}"
        for character, count in characters[:most]
    ]
    return ", ".join([*names, "…"] if len(characters) > most else names)
