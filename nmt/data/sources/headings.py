"""The headings of tables: which columns they name, and whether a first line may hold some that are not known."""

import re
from collections.abc import Sequence
from pathlib import Path

from nmt.config.language_codes import base, english_name, normal
from nmt.errors import NmtError
from nmt.files.compression import plain_ending

ROWS_COMPARED = 100  # with the first one
_FEWEST_ROWS, _TIMES_SHORTER = 10, 3
_ABBREVIATIONS = {"source": "src", "target": "tgt|trg"}


def named_columns(
    first: Sequence[str], named: tuple[str | None, str | None], languages: tuple[str, str], path: Path
) -> tuple[int, int] | None:
    """The numbers of the columns if the first row holds headings, from 0. A heading is the name that the corpus gives,
    or says the side or its language: `source`, `en`, `English`; or, if none does, `Source text`, `en-GB`, `English
    (UK)`. Raises NmtError if several fit."""
    cells = [normal(cell.strip()) for cell in first]
    columns = list[list[int]]()
    for side, column, language in zip(("source", "target"), named, languages, strict=True):
        if column and not column.isdecimal():
            if normal(column) not in cells:
                _number(column, path, first)  # raises
            patterns, places = [re.escape(normal(column))], range(len(cells))
        else:
            code, name = re.escape(base(language)), re.escape(english_name(language).lower())
            full = re.escape(normal(language))
            exact = rf"{side}|{_ABBREVIATIONS[side]}|{full}|{name}"
            patterns = [exact, rf"{side}[ -](text|segment|sentence)|{code}(-\w+)*|{name} \(.*\)"]
            places = range(int(column) - 1, int(column)) if column else range(len(cells))
        fitting = [
            [at for at in places if at < len(cells) and re.fullmatch(pattern, cells[at])] for pattern in patterns
        ]
        columns.append(next(filter(None, fitting), []))
    if not all(columns):
        return None
    for side, several in zip(("source", "target"), columns, strict=True):
        if len(several) > 1:
            fit = " and ".join(f"{first[at]!r} (column {at + 1})" for at in several)
            raise NmtError(f'{path}: the headings {fit} all fit: choose one, as {side}_column: "{several[0] + 1}"')
    (source,), (target,) = columns
    return None if source == target and not all(named) else (source, target)


def numbered_columns(named: tuple[str | None, str | None], path: Path, first: Sequence[str]) -> tuple[int, int]:
    """The numbers of the columns that the corpus gives, or of the first two, from 0. Raises NmtError if it gives a
    name."""
    source, target = named
    return _number(source or "1", path, first), _number(target or "2", path, first)


def _number(column: str, path: Path, first: Sequence[str]) -> int:
    if not re.fullmatch("[1-9][0-9]*", column):
        kind = plain_ending(path)
        raise NmtError(
            f"{path}: no column {column!r}: columns of a {kind} file are numbered from 1, or named as in its first "
            f"line, which has {', '.join(map(repr, first[:10])) or 'none'}"
        )
    return int(column) - 1


def may_be(first: Sequence[str], others: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Whether the text of the first row is much shorter than that of those that follow: headings can be in any
    language."""
    lengths = [sum(len(row[at]) for at in (source, target) if at < len(row)) for row in (first, *others)]
    if len(first) <= max(source, target) or len(others) < _FEWEST_ROWS:
        return False
    return _TIMES_SHORTER * lengths[0] < sum(lengths[1:]) / len(others)
