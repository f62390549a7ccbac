"""Tables of text whose columns have names: JSON lines, and what all tables have in common."""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from nmt.config import schema
from nmt.errors import NmtError
from nmt.files.notes import Note, counted
from nmt.files.text import Digests, read_lines

_BREAKS = str.maketrans("\n\r\t", "   ")
_OBJECT_REMEDY = "write one object per line, as `jq -c .` does"
_ARRAY_REMEDY = "write one object per line, as `jq -c '.[]'` does"
_MOST_WAITING = 1000  # rows that are read to find the columns: the first may lack a field


def jsonl_pairs(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests, note: Note, errors: str = "strict"
) -> Iterator[tuple[str, str]]:
    """The pairs of a file of JSON objects, one per line; blank lines are skipped, and counted in a note. Null, also in
    place of an object with the text, is an empty text. Raises NmtError for a line that is no object, or has no text."""
    columns, of_line = dict[str, tuple[str, ...]](), dict[str, int]()  # keys of each column, the first line that has it
    keys: list[tuple[str, ...]] = []
    waiting, blank = list[tuple[int, dict[str, object]]](), 0  # rows before the columns are known
    for number, line in enumerate(read_lines(path, digests, errors), start=1):
        if not line.strip():
            blank += 1
            continue
        row = _json_object(line, f"{path}:{number}")
        waiting.append((number, row))
        if not keys:
            new = {name: at for name, at in _row_columns(row).items() if name not in columns}
            columns |= new
            of_line |= dict.fromkeys(new, number)
            names = _found_columns(columns, corpus, data)
            if None in names and len(waiting) < _MOST_WAITING:
                continue
            keys = [columns[name] for name in column_names(columns, corpus, data, f"{path}:{waiting[0][0]}")]
        for place, fields in waiting:
            texts = [_json_field(fields, key, f"{path}:{place}", of_line[".".join(key)]) for key in keys]
            if errors == "strict":
                for text, key in zip(texts, keys, strict=True):
                    _check_unicode(text, key, f"{path}:{place}")
            source, target = texts
            yield source, target
        waiting = []
    if waiting:
        column_names(columns, corpus, data, f"{path}:{waiting[0][0]}")  # raises
    if blank:
        note(f"{counted(blank, 'blank line is', 'blank lines are')} skipped")


def _json_object(line: str, place: str) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        at = f"{error.msg} at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else error
        raise NmtError(f"{place}: not JSON: {at}: {_OBJECT_REMEDY}") from None
    if not isinstance(row, dict):
        raise NmtError(f"{place}: must hold a JSON object, such as {{…}}, not {line[:40]}: {_ARRAY_REMEDY}")
    return row


def _json_field(row: object, keys: tuple[str, ...], place: str, known_from: int) -> str:
    """The text under these keys, which the line `known_from` has."""
    for key in keys:
        if row is None:
            break
        if not isinstance(row, dict) or key not in row:
            problem = f"no column {'.'.join(keys)!r}, as line {known_from} has"
            raise NmtError(f"{place}: {problem}: add it, or remove this line")
        row = row[key]
    if row is not None and not isinstance(row, str):
        raise NmtError(f"{place}: column {'.'.join(keys)!r} must hold text, not {json.dumps(row)[:40]}")
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
    source, target = _found_columns(columns, corpus, data)
    if source is not None and target is not None:
        return source, target
    side, given, wanted = (
        ("source", corpus.source_column, _wanted(corpus.source_column, data.source_language, "source"))
        if source is None
        else ("target", corpus.target_column, _wanted(corpus.target_column, data.target_language, "target"))
    )
    raise NmtError(
        f"{where}: no {side} column {' or '.join(map(repr, wanted))}; there are "
        f"{', '.join(map(repr, columns)) or 'none'}: {'correct' if given else 'give'} {side}_column"
    )


def _found_columns(
    columns: Collection[str], corpus: schema.Corpus, data: schema.DataConfig
) -> tuple[str | None, str | None]:
    """The names of the columns of source and target, of those that there are."""
    source, target = (
        next((name for name in _wanted(column, language, side) if name in columns), None)
        for side, column, language in (
            ("source", corpus.source_column, data.source_language),
            ("target", corpus.target_column, data.target_language),
        )
    )
    return source, target


def _wanted(column: str | None, language: str, side: str) -> list[str]:
    return [column] if column else [f"translation.{language}", language, side]


def one_line(field: str | None) -> str:
    """A field as one line: a line break in it would misalign every file written from it."""
    if field is None:
        return ""
    return field.translate(_BREAKS) if "\n" in field or "\t" in field or "\r" in field else field
