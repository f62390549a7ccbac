"""Tables of text, one row per line: tab-separated values and JSON lines."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from nmt.config import schema
from nmt.errors import NmtError
from nmt.files.text import Digests, read_lines

_BREAKS = str.maketrans("\n\r\t", "   ")


def tsv_pairs(path: Path, corpus: schema.Corpus, digests: Digests) -> Iterator[tuple[str, str]]:
    """The pairs of a file of tab-separated columns. Raises NmtError for a line that has too few."""
    source = _column_number(corpus.source_column, "1", path)
    target = _column_number(corpus.target_column, "2", path)
    for number, line in enumerate(read_lines(path, digests), start=1):
        fields = line.replace("\r", " ").split("\t")  # of `_BREAKS` what a field can have
        if len(fields) < max(source, target):
            raise NmtError(
                f"{path}:{number}: no column {max(source, target)}: the line has {len(fields)}; a tab separates columns"
            )
        yield fields[source - 1], fields[target - 1]


def _column_number(given: str | None, default: str, path: Path) -> int:
    column = given or default
    if not re.fullmatch("[1-9][0-9]*", column):
        raise NmtError(f"{path}: no column {column!r}: columns of a .tsv file are numbered from 1")
    return int(column)


def jsonl_pairs(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests
) -> Iterator[tuple[str, str]]:
    """The pairs of a file of JSON objects, one per line. Raises NmtError for a line that is none, or has no text."""
    keys: list[tuple[str, ...]] = []
    for number, line in enumerate(read_lines(path, digests), start=1):
        place = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            at = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
            raise NmtError(f"{place}: not JSON: {at}") from None
        if not isinstance(row, dict):
            raise NmtError(f"{place}: must hold a JSON object, such as {{…}}, not {line[:40]}")
        if not keys:
            columns = _row_columns(row)
            keys = [columns[name] for name in column_names(columns, corpus, data, place)]
        source, target = (_json_field(row, key, place) for key in keys)
        yield source, target


def _json_field(row: object, keys: tuple[str, ...], place: str) -> str:
    for key in keys:
        if not isinstance(row, dict) or key not in row:
            raise NmtError(f"{place}: no column {'.'.join(keys)!r}, as line 1 has: add it, or remove this line")
        row = row[key]
    if row is not None and not isinstance(row, str):
        raise NmtError(f"{place}: column {'.'.join(keys)!r} must hold text, not {json.dumps(row)[:40]}")
    text = one_line(row)
    if not text.isascii() and re.search("[\ud800-\udfff]", text):  # JSON can escape half of a character
        raise NmtError(f"{place}: column {'.'.join(keys)!r} holds half of a surrogate pair: not Unicode text")
    return text


def _row_columns(row: Mapping[str, object], above: tuple[str, ...] = ()) -> dict[str, tuple[str, ...]]:
    """The columns by name, such as `translation.en`, and the keys that lead to each."""
    columns: dict[str, tuple[str, ...]] = {}
    for key, value in row.items():
        inner = _row_columns(value, (*above, key)) if isinstance(value, dict) else {}
        columns |= inner or {".".join((*above, key)): (*above, key)}
    return columns


def column_names(
    columns: Collection[str], corpus: schema.Corpus, data: schema.DataConfig, where: str
) -> tuple[str, str]:
    """The names of the source column and of the target column. Raises NmtError with all columns if one is missing."""
    found = []
    for side, column, language in (
        ("source", corpus.source_column, data.source_language),
        ("target", corpus.target_column, data.target_language),
    ):
        wanted = [column] if column else [f"translation.{language}", language, side]
        name = next((name for name in wanted if name in columns), None)
        if name is None:
            raise NmtError(
                f"{where}: no {side} column {' or '.join(map(repr, wanted))}; there are "
                f"{', '.join(map(repr, columns)) or 'none'}: give {side}_column"
            )
        found.append(name)
    return found[0], found[1]


def one_line(field: str | None) -> str:
    """A field as one line: a line break in it would misalign every file written from it."""
    if field is None:
        return ""
    return field.translate(_BREAKS) if "\n" in field or "\t" in field or "\r" in field else field
