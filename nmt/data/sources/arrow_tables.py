"""Arrow tables: Parquet files and datasets of the Hugging Face hub."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import schema
from nmt.data.sources.tables import check_column, column_names, one_line
from nmt.errors import NmtError, in_one_line
from nmt.files.packages import install_command, is_installed
from nmt.files.text import file_digest, reading

if TYPE_CHECKING:
    import pyarrow

_TEXT_TYPES = {"string", "large_string", "string_view", "null"}
BATCH_ROWS = 2000  # rows of an Arrow table that become text at a time


def check_installed(corpus: schema.Corpus) -> None:
    """Raises NmtError if the corpus is in Arrow tables and the library that reads it is not installed."""
    library = "datasets" if corpus.hub else "pyarrow" if str(corpus.file).lower().endswith(".parquet") else None
    if library and not is_installed(library):
        raise _not_installed(corpus, library)


def _not_installed(corpus: schema.Corpus, library: str) -> NmtError:
    kind = "a dataset of the hub" if corpus.hub else "a Parquet file"
    return NmtError(f"{corpus.label}: reading {kind} needs the package {library}: {install_command('hub')}")


def parquet_pairs(path: Path, corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[tuple[str, str]]:
    """The pairs of a Parquet file. Raises NmtError if it is damaged or has no such columns of text."""
    return _pairs(_parquet_tables(path, corpus), corpus, data)


def hub_pairs(corpus: schema.Corpus, data: schema.DataConfig, default_split: str) -> Iterator[tuple[str, str]]:
    """The pairs of a dataset of the hub, or of a local folder. Raises NmtError as `parquet_pairs` does, and for errors
    of the library `datasets`."""
    return _pairs(_hub_tables(corpus, default_split), corpus, data)


def _pairs(
    tables: "Iterator[pyarrow.Table]", corpus: schema.Corpus, data: schema.DataConfig
) -> Iterator[tuple[str, str]]:
    map_keys: dict[str, dict[str, None]] = {}
    for table in tables:
        yield from zip(*_arrow_texts(table, corpus, data, map_keys), strict=True)


def _arrow_texts(
    table: "pyarrow.Table", corpus: schema.Corpus, data: schema.DataConfig, map_keys: dict[str, dict[str, None]]
) -> Iterator[list[str]]:
    """Yield the texts of the source column, then the texts of the target column. map_keys: for each column of maps, the
    keys that have occurred so far."""
    from pyarrow import compute, types

    while any(types.is_struct(field.type) for field in table.schema):
        table = table.flatten()  # a struct `translation` of `en` and `de`: translation.en, translation.de
    named_columns = list(zip(table.column_names, table.columns, strict=True))
    columns = {name: column for name, column in named_columns if not types.is_map(column.type)}
    lookups: dict[str, tuple[pyarrow.ChunkedArray, str]] = {}  # a map `translation` of `en` and `de`, as a struct
    for name, column in named_columns:
        if types.is_map(column.type):
            keys = map_keys.setdefault(name, {})
            for chunk in column.chunks:
                keys |= dict.fromkeys(map(str, compute.unique(chunk.keys).to_pylist()))
            lookups |= {f"{name}.{key}": (column, key) for key in keys}
    names = [*(name for name, _ in named_columns if name in columns), *lookups]
    for name in column_names(names, corpus, data, corpus.label):
        if names.count(name) > 1:
            raise NmtError(f"{corpus.label}: several columns are called {name!r}: rename or remove all but one")
        column = columns[name] if name in columns else compute.map_lookup(*lookups[name], "first")
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if str(column.type) not in _TEXT_TYPES:
            raise NmtError(f"{corpus.label}: column {name!r} must hold text, not {column.type}")
        try:
            yield list(map(one_line, column.to_pylist()))
        except UnicodeDecodeError as error:
            raise NmtError(f"{corpus.label}: column {name!r} is not UTF-8: {error.reason}: convert it") from None


def column_values(corpus: schema.Corpus, name: str) -> Iterator[object]:
    """The values of a column, one for each pair. Raises NmtError if it does not exist."""
    tables = _hub_tables(corpus, "train") if corpus.hub else _parquet_tables(Path(corpus.file or ""), corpus)
    for table in tables:
        while any(str(field.type).startswith("struct") for field in table.schema):
            table = table.flatten()
        check_column(name, table.column_names, corpus.label)
        yield from table[name].to_pylist()


def _parquet_tables(path: Path, corpus: schema.Corpus) -> "Iterator[pyarrow.Table]":
    try:
        import pyarrow.parquet
    except ImportError:
        raise _not_installed(corpus, "pyarrow") from None
    try:
        with reading(path), pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                yield pyarrow.Table.from_batches([batch])
    except pyarrow.ArrowException as error:
        reason = one_line(str(error))
        raise NmtError(f"{path}: not a complete Parquet file: {reason}: write or download it again") from None


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
        raise _not_installed(corpus, "datasets") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    return datasets


@contextmanager
def _library_reason(corpus: schema.Corpus) -> Iterator[None]:
    """Turn an exception of the library into an NmtError of one line: no network, no such name, split or file. The
    library raises its own exceptions and those of its network libraries. Their only common base is Exception."""
    try:
        yield
    except Exception as error:
        if isinstance(error, NmtError):
            raise
        reason = in_one_line(error.__cause__ or error)
        remedy = "" if Path(corpus.hub or "").is_dir() else ": check the name and the network, or name a local folder"
        raise NmtError(f"{corpus.label}: the dataset cannot be read: {reason}{remedy}") from error


def hub_content(corpus: schema.Corpus) -> list[str]:
    """Identifies the content of a dataset, for the fingerprint: file names and their digests, or a commit."""
    assert corpus.hub
    folder = Path(corpus.hub)
    if folder.is_dir():
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        visible = [name for name in names if not re.search(r"(^|/)\.", name)]  # the library skips hidden files too
        return list(chain.from_iterable((name, file_digest(folder / name)) for name in visible))
    if corpus.revision and re.fullmatch("[0-9a-f]{40}", corpus.revision):
        return [corpus.hub, corpus.revision]
    datasets = _datasets_library(corpus)
    with _library_reason(corpus):
        return [corpus.hub, datasets.load_dataset_builder(corpus.hub, corpus.name, revision=corpus.revision).hash]
