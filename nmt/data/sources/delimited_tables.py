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


def column_values(path: Path, corpus: schema.Corpus, data: schema.DataConfig, name: str) -> Iterator[str]:
    """The fields of a column, by number or heading, one for each pair. Raises NmtError if it does not exist."""
    errors = KEPT_BYTES if corpus.invalid == "drop" else "strict"
    layout = table_layout.layout_of(path, corpus, data, errors)
    found = table_layout.layout_of(path, replace(corpus, source_column=name, target_column=name), data, errors)
    if found.source >= layout.columns:
        raise NmtError(f"{path}: no column {name}: the first row has {layout.columns}")
    if found.skipped > layout.skipped:
        raise NmtError(f"{path}: {name!r} is a heading: name the columns of the source and target by headings too")
    lines = read_lines(path, errors=errors)
    for _, fields in table_layout.rows(lines, layout.delimiter, layout.quoted, layout.skipped, path):
        yield fields[found.source] if found.source < len(fields) else ""


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
