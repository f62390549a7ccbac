"""Tables with delimited columns: .tsv and .csv files."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path

from nmt.config import schema
from nmt.data.sources import table_layout
from nmt.data.sources.invalid_lines import KEPT_BYTES
from nmt.data.sources.table_layout import TableLayout
from nmt.data.sources.tables import one_line
from nmt.errors import NmtError
from nmt.files.notes import Note, counted
from nmt.files.text import Digests, read_lines


def delimited_pairs(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests, note: Note, errors: str = "strict"
) -> Iterator[tuple[str, str]]:
    """Yield the pairs of a .tsv or .csv file. Notes say how it is read, and at its end how many rows have another width
    than the first. A row of a spreadsheet that ends before a column has an empty text there. Raises NmtError for a line
    of plain text with too few columns, and for a row of a .csv file with more columns than the first."""
    layout = table_layout.layout_of(path, corpus, data, errors)
    for remark in layout.remarks:
        note(remark)
    lines = read_lines(path, digests, errors)
    return _quoted(path, lines, layout, note) if layout.quoted else _plain(path, lines, layout, note)


def column_rows(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, names: Sequence[int | str]
) -> Iterator[list[str]]:
    """The fields in these columns, given by number or heading, of each row that is a pair; empty where a row ends
    before. Raises NmtError for a column that does not exist."""
    errors = KEPT_BYTES if corpus.invalid == "drop" else "strict"
    layout, indices = table_layout.layout_of(path, corpus, data, errors), list[int]()
    for name in map(str, names):  # as the columns of text are found
        named = replace(corpus, source_column=name, target_column=name)
        indices.append(table_layout.layout_of(path, named, data, errors).source)
        if indices[-1] >= layout.columns:
            raise NmtError(f"{path}: no column {name} of scores: the first row has {layout.columns}")
    lines = read_lines(path, errors=errors)
    for _, fields in table_layout.rows(lines, layout.delimiter, layout.quoted, layout.skipped, path):
        yield [fields[i] if i < len(fields) else "" for i in indices]


def _plain(path: Path, lines: Iterator[str], layout: TableLayout, note: Note) -> Iterator[tuple[str, str]]:
    source, target, needed = layout.source, layout.target, layout.needed
    width, others = layout.columns, Counter[int]()  # rows with another width, by their width
    for line_number, line in enumerate(islice(lines, layout.skipped, None), start=layout.skipped + 1):
        fields = line.replace("\r", " ").split("\t")  # a field cannot contain other line breaks or tabs
        if len(fields) < needed:
            columns = f"no column {needed}: the line has {len(fields)}; a tab separates columns"
            raise NmtError(f"{path}:{line_number}: {columns}")
        width = width or len(fields)
        if len(fields) != width:
            others[len(fields)] += 1
        yield fields[source], fields[target]
    _note_width(others, width, note)


def _quoted(path: Path, lines: Iterator[str], layout: TableLayout, note: Note) -> Iterator[tuple[str, str]]:
    others = Counter[int]()  # rows with another width, by their width
    most = layout.columns if table_layout.is_csv(path) else None
    for line_number, fields in table_layout.rows(lines, layout.delimiter, True, layout.skipped, path):
        if most is not None and (columns := _width(fields)) > most:
            raise NmtError(
                f"{path}:{line_number}: {columns} columns, and the first line has {most}: put quotes around a field "
                f"that holds {table_layout.shown(layout.delimiter)}"
            )
        if len(fields) < layout.columns:
            others[len(fields)] += 1
        fields += [""] * (layout.needed - len(fields))
        yield one_line(fields[layout.source]), one_line(fields[layout.target])
    _note_width(others, layout.columns, note)


def _note_width(others: Counter[int], width: int, note: Note) -> None:
    if others:
        rows, columns = counted(others.total(), "row does", "rows do"), counted(width, "column", "columns")
        most = ", ".join(f"{counted(count, 'has', 'have')} {other:,}" for other, count in others.most_common(3))
        note(f"{rows} not have {columns}, as the first row has: {most}{', …' * (len(others) > 3)}")


def _width(row: Sequence[str]) -> int:
    """The number of columns of a row, without empty ones at its end."""
    return next((width for width in range(len(row), 0, -1) if row[width - 1]), 0)
