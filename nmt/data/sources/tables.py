"""Tables with named columns: JSON lines, and functions for all tables."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from nmt.config import schema
from nmt.data.sources.invalid_lines import KEPT_BYTES
from nmt.errors import NmtError
from nmt.files.notes import Note, counted
from nmt.files.text import Digests, read_lines

_BREAKS = str.maketrans("\n\r\t", "   ")
_OBJECT_REMEDY = "write one object per line, as `jq -c .` does"
_ARRAY_REMEDY = "write one object per line, as `jq -c '.[]'` does"
_MOST_WAITING = 1000  # rows that are read to find the columns, because the first rows may lack a field


def jsonl_pairs(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests, note: Note, errors: str = "strict"
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a file of JSON objects, one per line. Blank lines are skipped and counted in a note. Null is
    an empty text, also instead of an object with the text. Raises NmtError for a line that is not an object or has no
    text."""
    columns, first_lines = dict[str, tuple[str, ...]](), dict[str, int]()  # by column: its keys, the first line with it
    keys: list[tuple[str, ...]] = []
    waiting, blank = list[tuple[int, dict[str, object]]](), 0  # rows before the columns are known
    for line_number, line in enumerate(read_lines(path, digests, errors), start=1):
        if not line.strip():
            blank += 1
            continue
        row = _json_object(line, f"{path}:{line_number}")
        waiting.append((line_number, row))
        if not keys:
            new = {name: path_to for name, path_to in _row_columns(row).items() if name not in columns}
            columns |= new
            first_lines |= dict.fromkeys(new, line_number)
            names = _matching_columns(columns, corpus, data)
            if None in names and len(waiting) < _MOST_WAITING:
                continue
            keys = [columns[name] for name in column_names(columns, corpus, data, f"{path}:{waiting[0][0]}")]
        for waiting_line, fields in waiting:
            where = f"{path}:{waiting_line}"
            texts = [_json_field(fields, key, where, first_lines[".".join(key)]) for key in keys]
            if errors == "strict":
                for text, key in zip(texts, keys, strict=True):
                    _check_unicode(text, key, where)
            source, target = texts
            yield source, target
        waiting = []
    if waiting:
        column_names(columns, corpus, data, f"{path}:{waiting[0][0]}")  # raises
    if blank:
        note(f"{counted(blank, 'blank line is', 'blank lines are')} skipped")


def jsonl_column(path: Path, name: str) -> Iterator[object]:
    """The values of a column of JSON objects, one for each pair; None: it is missing. Raises NmtError if all are."""
    columns = dict[str, tuple[str, ...]]()
    for line_number, line in enumerate(read_lines(path, errors=KEPT_BYTES), start=1):
        if line.strip():
            value: Any = _json_object(line, f"{path}:{line_number}")
            columns |= (found := _row_columns(value))
            for key in found.get(name, ()):
                value = value[key]
            yield value if name in found else None
    check_column(name, columns, str(path))


def check_column(name: str, columns: Collection[str], where: str) -> None:
    """Raises NmtError if a column does not exist."""
    if name not in columns:
        raise NmtError(f"{where}: no column {name!r}; there are {', '.join(map(repr, columns)) or 'none'}")


def _json_object(line: str, where: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        at = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
        raise NmtError(f"{where}: not JSON: {at}: {_OBJECT_REMEDY}") from None
    if not isinstance(row, dict):
        raise NmtError(f"{where}: must hold a JSON object, such as {{…}}, not {line[:40]}: {_ARRAY_REMEDY}")
    return row


def _json_field(row: object, keys: tuple[str, ...], where: str, first_line: int) -> str:
    """The text under these keys. first_line: a line that has the keys, for messages."""
    for key in keys:
        if row is None:
            break
        if not isinstance(row, dict) or key not in row:
            problem = f"no column {'.'.join(keys)!r}, as line {first_line} has"
            raise NmtError(f"{where}: {problem}: add it, or remove this line")
        row = row[key]
    if row is not None and not isinstance(row, str):
        raise NmtError(f"{where}: column {'.'.join(keys)!r} must hold text, not {json.dumps(row)[:40]}")
    return one_line(row)


def _check_unicode(text: str, keys: tuple[str, ...], where: str) -> None:
    if not text.isascii() and re.search("[\ud800-\udfff]", text):  # JSON can escape half of a character
        raise NmtError(f"{where}: column {'.'.join(keys)!r} holds half of a surrogate pair: not Unicode text")


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
    source, target = _matching_columns(columns, corpus, data)
    if source is not None and target is not None:
        return source, target
    side, column, language = ("source", corpus.source_column, data.source_language)
    if source is not None:
        side, column, language = ("target", corpus.target_column, data.target_language)
    candidates = " or ".join(map(repr, _candidates(column, language, side)))
    raise NmtError(
        f"{where}: no {side} column {candidates}; there are {', '.join(map(repr, columns)) or 'none'}: "
        f"{'correct' if column else 'give'} {side}_column"
    )


def _matching_columns(
    columns: Collection[str], corpus: schema.Corpus, data: schema.DataConfig
) -> tuple[str | None, str | None]:
    """The names of the source column and of the target column; None for a column that is missing."""
    source, target = (
        next((name for name in _candidates(column, language, side) if name in columns), None)
        for side, column, language in (
            ("source", corpus.source_column, data.source_language),
            ("target", corpus.target_column, data.target_language),
        )
    )
    return source, target


def _candidates(column: str | None, language: str, side: str) -> list[str]:
    return [column] if column else [f"translation.{language}", language, side]


def one_line(field: str | None) -> str:
    """A field as one line: a line break in it would misalign every file written from it."""
    if field is None:
        return ""
    return field.translate(_BREAKS) if "\n" in field or "\t" in field or "\r" in field else field
