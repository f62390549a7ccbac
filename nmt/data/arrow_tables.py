"""Arrow tables: Parquet files and the datasets of the Hugging Face hub."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nmt.config import schema
from nmt.data.tables import column_names, one_line
from nmt.errors import NmtError, in_one_line
from nmt.files.text import file_digest, reading

if TYPE_CHECKING:
    import pyarrow

BATCH_ROWS = 2000  # rows of an Arrow table that become text at a time


def parquet_pairs(path: Path, corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[tuple[str, str]]:
    """The pairs of a Parquet file. Raises NmtError if it is damaged or has no such columns of text."""
    return _pairs(_parquet_tables(path), corpus, data)


def hub_pairs(corpus: schema.Corpus, data: schema.DataConfig, default_split: str) -> Iterator[tuple[str, str]]:
    """The pairs of a dataset of the hub, or of a local folder. Raises NmtError as `parquet_pairs` does, and for what
    the library `datasets` says."""
    return _pairs(_hub_tables(corpus, default_split), corpus, data)


def _pairs(
    tables: "Iterator[pyarrow.Table]", corpus: schema.Corpus, data: schema.DataConfig
) -> Iterator[tuple[str, str]]:
    for table in tables:
        yield from zip(*_arrow_texts(table, corpus, data), strict=True)


def _arrow_texts(table: "pyarrow.Table", corpus: schema.Corpus, data: schema.DataConfig) -> Iterator[list[str]]:
    """The texts of the source column, then those of the target column."""
    from pyarrow import types

    while any(types.is_struct(field.type) for field in table.schema):
        table = table.flatten()  # a struct `translation` of `en` and `de`: translation.en, translation.de
    for name in column_names(table.column_names, corpus, data, corpus.label):
        if table.column_names.count(name) > 1:
            raise NmtError(f"{corpus.label}: several columns are called {name!r}: rename or remove all but one")
        column = table.column(name)
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not any(is_kind(column.type) for is_kind in (types.is_string, types.is_large_string, types.is_null)):
            raise NmtError(f"{corpus.label}: column {name!r} must hold text, not {column.type}")
        try:
            yield list(map(one_line, column.to_pylist()))
        except UnicodeDecodeError as error:
            raise NmtError(f"{corpus.label}: column {name!r} is not UTF-8: {error.reason}: convert it") from None


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
        if isinstance(error, NmtError):
            raise
        reason = in_one_line(error.__cause__ or error)
        folder = "" if Path(corpus.hub or "").is_dir() else " (nor is there a folder of this name)"
        raise NmtError(f"{corpus.label}: the dataset cannot be read: {reason}{folder}") from error


def hub_content(corpus: schema.Corpus) -> list[str]:
    """What identifies a dataset's content, for the fingerprint: file names and their digests, or a commit."""
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
