"""Tables of columns with a delimiter between them: .tsv and .csv files."""

from collections.abc import Iterator
from pathlib import Path

from nmt.config import schema
from nmt.data import table_layout
from nmt.data.tables import one_line
from nmt.errors import NmtError
from nmt.files.notes import Note
from nmt.files.text import Digests, read_lines


def delimited_pairs(
    path: Path, corpus: schema.Corpus, data: schema.DataConfig, digests: Digests, note: Note
) -> Iterator[tuple[str, str]]:
    """The pairs of a .tsv or .csv file; how it is read is noted. A row of a spreadsheet that ends before a column has
    an empty text there. Raises NmtError for a line of plain text that has too few columns, and for one of a .csv file
    that has more than the first."""
    layout = table_layout.layout_of(path, corpus, data)
    for remark in layout.remarks:
        note(remark)
    source, target, needed = layout.source, layout.target, max(layout.source, layout.target) + 1
    most = layout.columns if table_layout.is_csv(path) else None
    for number, fields in table_layout.rows(
        read_lines(path, digests), layout.delimiter, layout.quoted, layout.skipped, path
    ):
        if len(fields) < needed:
            if not layout.quoted:
                columns = f"no column {needed}: the line has {len(fields)}"
                raise NmtError(f"{path}:{number}: {columns}; a tab separates columns")
            fields += [""] * (needed - len(fields))
        elif most is not None and (found := table_layout.width(fields)) > most:
            raise NmtError(table_layout.too_wide(path, number, found, most, layout.delimiter))
        yield one_line(fields[source]), one_line(fields[target])
