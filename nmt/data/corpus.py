"""Read parallel corpora as pairs of sentences: text files, tables, and Hugging Face datasets."""

import hashlib
import json
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import schema
from nmt.errors import NmtError
from nmt.files.text import Digests, file_digest, line_pairs, read_lines, reading

if TYPE_CHECKING:
    import pyarrow

Pair = tuple[str, str]  # source sentence, target sentence
BATCH_ROWS = 2000  # rows of an Arrow table that become text at a time
_BREAKS = str.maketrans("\n\r\t", "   ")


def read_pairs(
    corpus: schema.Corpus, data: schema.DataConfig, default_split: str, expected: str | None = None
) -> Iterator[Pair]:
    """The corpus's pairs in its order, unchanged, streamed.

    Columns that the corpus does not name are found by the languages of `data`; `default_split` is the split of a hub
    dataset that names none. A line feed, tab or carriage return in a field of a table becomes a space, and a missing
    text (null) becomes an empty one. expected: the fingerprint that the corpus must have, because results are stored
    under it.

    Raises NmtError for a corpus that is missing, misaligned, damaged, not UTF-8, or empty; after the last pair if the
    content that was read does not have the expected fingerprint.
    """
    digests: Digests = {}
    if corpus.hub:
        pairs = _arrow_pairs(_hub_tables(corpus, default_split), corpus, data)
    elif corpus.file:
        pairs = _table_pairs(Path(corpus.file), corpus, data, digests)
    else:
        assert corpus.source and corpus.target
        pairs = line_pairs(Path(corpus.source), Path(corpus.target), digests)
    first = next(pairs, None)
    if first is None:
        raise NmtError(f"{corpus.label}: has no sentence pairs: choose a corpus that has some")
    yield first
    yield from pairs
    if expected is not None and fingerprint(corpus, default_split, digests) != expected:
        raise NmtError(f"{corpus.label}: has changed while it was read: run the command again")


# --------------------------------------------------------------------------- tables


def _table_pairs(path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests) -> Iterator[Pair]:
    if path.name.endswith((".tsv", ".tsv.gz")):
        return _tsv_pairs(path, corpus, digests)
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        return _jsonl_pairs(path, corpus, data, digests)
    if path.name.endswith(".parquet"):
        return _arrow_pairs(_parquet_tables(path), corpus, data)
    raise NmtError(f"{path}: the name of a table must end in .tsv, .tsv.gz, .jsonl, .jsonl.gz or .parquet")


def _tsv_pairs(path: Path, corpus: schema.Corpus, digests: Digests) -> Iterator[Pair]:
    source = _column_number(corpus.source_column, "1", path)
    target = _column_number(corpus.target_column, "2", path)
    for number, line in enumerate(read_lines(path, digests), start=1):
        fields = line.split("\t")
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


def _jsonl_pairs(path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests) -> Iterator[Pair]:
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
            keys = [columns[name] for name in _column_names(columns, corpus, data, place)]
        source, target = (_json_field(row, key, place) for key in keys)
        yield source, target


def _json_field(row: object, keys: tuple[str, ...], place: str) -> str:
    for key in keys:
        if not isinstance(row, dict) or key not in row:
            raise NmtError(f"{place}: no column {'.'.join(keys)!r}")
        row = row[key]
    if row is not None and not isinstance(row, str):
        raise NmtError(f"{place}: column {'.'.join(keys)!r} must hold text, not {json.dumps(row)[:40]}")
    text = _one_line(row)
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


def _column_names(
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


def _one_line(field: str | None) -> str:
    """A field as one line: a line break in it would misalign every file written from it."""
    if field is None:
        return ""
    return field.translate(_BREAKS) if "\n" in field or "\t" in field or "\r" in field else field


# --------------------------------------------------------------------------- Arrow tables: Parquet and the hub


def _arrow_pairs(tables: "Iterator[pyarrow.Table]", corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[Pair]:
    for table in tables:
        yield from zip(*_arrow_texts(table, corpus, data), strict=True)


def _arrow_texts(table: "pyarrow.Table", corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[list[str]]:
    """The texts of the source column, then those of the target column."""
    from pyarrow import types

    while any(types.is_struct(field.type) for field in table.schema):
        table = table.flatten()  # a struct `translation` of `en` and `de`: translation.en, translation.de
    for name in _column_names(table.column_names, corpus, data, corpus.label):
        column = table.column(name)
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not any(is_kind(column.type) for is_kind in (types.is_string, types.is_large_string, types.is_null)):
            raise NmtError(f"{corpus.label}: column {name!r} must hold text, not {column.type}")
        yield list(map(_one_line, column.to_pylist()))


def _parquet_tables(path: Path) -> "Iterator[pyarrow.Table]":
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise NmtError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
    try:
        with reading(path), parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                yield pyarrow.Table.from_batches([batch])
    except pyarrow.ArrowException as error:
        raise NmtError(f"{path}: not a complete Parquet file: {_one_line(str(error))}") from None


def _hub_tables(corpus: schema.Corpus, default_split: str) -> "Iterator[pyarrow.Table]":
    datasets = _datasets_library(corpus)
    which = {"split": corpus.split or default_split, "revision": corpus.revision}
    with _library_reason(corpus):
        dataset = datasets.load_dataset(corpus.hub, corpus.name, **which, streaming=corpus.streaming)
        yield from dataset.with_format("arrow").iter(batch_size=BATCH_ROWS)


def _datasets_library(corpus: schema.Corpus) -> Any:
    try:
        import datasets
    except ImportError:
        raise NmtError(f"{corpus.label}: a hub dataset needs the library datasets: pip install datasets") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


@contextmanager
def _library_reason(corpus: schema.Corpus) -> Iterator[None]:
    """Turn an exception of the library into an NmtError of one line: no network, no such name, split or file. It
    raises its own exceptions and those of its network libraries, whose only common base is Exception."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise NmtError(f"{corpus.label}: the dataset cannot be read: {reason or type(error).__name__}") from error


def fingerprint(corpus: schema.Corpus, default_split: str, digests: Mapping[Path, str] | None = None) -> str:
    """A hash of the corpus's content and of how it is read: it changes if and only if they change.

    The content of files is hashed (about one second per gigabyte), so a copied or touched file is the same corpus, and
    an edited one is not. For a hub dataset the commit of its revision is hashed; the library gets it from the hub,
    unless `revision` is a commit. digests: those of files that have been read already, by path. Raises NmtError as
    `read_pairs` does.
    """

    def digest(file: str) -> str:
        return (digests or {}).get(Path(file)) or file_digest(Path(file))

    content: list[str | None] = [corpus.source_column, corpus.target_column]
    if corpus.hub:
        content += [corpus.name, corpus.split or default_split, *_hub_content(corpus)]
    elif corpus.file:
        content.append(digest(corpus.file))
    else:
        assert corpus.source and corpus.target
        content += [digest(corpus.source), digest(corpus.target)]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _hub_content(corpus: schema.Corpus) -> list[str]:
    assert corpus.hub
    folder = Path(corpus.hub)
    if folder.is_dir():
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        visible = [name for name in names if not re.search(r"(^|/)\.", name)]  # the library skips hidden files too
        return [part for name in visible for part in (name, file_digest(folder / name))]
    if corpus.revision and re.fullmatch("[0-9a-f]{40}", corpus.revision):
        return [corpus.hub, corpus.revision]
    datasets = _datasets_library(corpus)
    with _library_reason(corpus):
        return [corpus.hub, datasets.load_dataset_builder(corpus.hub, corpus.name, revision=corpus.revision).hash]
