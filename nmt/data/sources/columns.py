"""A further column of a corpus's file: scores of its pairs, or the names of their documents."""

from collections.abc import Iterator
from pathlib import Path

from nmt.config import schema
from nmt.data.sources import arrow_tables, delimited_tables, tables, tmx
from nmt.files import compression


def column_values(corpus: schema.Corpus, data: schema.DataConfig, name: str) -> Iterator[object]:
    """The values of a column, one for each pair, in the order of the pairs; None for a missing value.

    name: a number or a heading in a .tsv or .csv file; a dotted path in JSON lines and Arrow tables; in a TMX file, the
    type of a `prop` or an attribute of the unit. Raises NmtError for a file that cannot be read, and for a column that
    does not exist.
    """
    path = Path(corpus.file or "")
    match compression.plain_ending(path):
        case ".tsv" | ".csv":
            return delimited_tables.column_values(path, corpus, data.with_languages_of(corpus), name)
        case ".jsonl":
            return tables.jsonl_column(path, name)
        case ".tmx":
            return tmx.unit_properties(path, corpus, data.with_languages_of(corpus), name)
    return arrow_tables.column_values(corpus, name)
