"""Aligned plain-text tables, and paragraphs instead of them on narrow terminals."""

import shutil
import textwrap
from collections.abc import Collection, Sequence

_NARROWEST = 40
_NO_BREAK = "\N{NO-BREAK SPACE}"


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Each row of cells as one line, all of the same width.

    left: the indices of the left-aligned columns; the other columns are right-aligned. Raises ValueError if the rows
    have different numbers of cells.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        columns = enumerate(zip(row, widths, strict=True))
        lines.append("  ".join(cell.ljust(width) if i in left else cell.rjust(width) for i, (cell, width) in columns))
    return lines


def table(
    rows: Sequence[Sequence[str]], left: Collection[int] = (0,), *, rule: bool = False, mark: int | None = None
) -> str:
    """`aligned` rows without spaces at the ends. rule: add a line of dashes below the first row. mark: the index of the
    row that is marked with a star."""
    lines = [line.rstrip() for line in aligned(rows, left)]
    if mark is not None:
        lines = [f"{'*' if i == mark else ' '} {line}" for i, line in enumerate(lines)]
    if rule:
        lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def fitted(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> str:
    """The `table` if it fits the terminal, or 80 columns if there is none. Otherwise a paragraph for each row: its
    first cell, then the other cells that are not zero or empty, each after its heading. Text columns (in `left`) have
    no heading in paragraphs."""
    width, (headings, *body) = terminal_width(), rows
    plain = table(rows, left)
    if max(map(len, plain.split("\n"))) <= width:
        return plain
    paragraphs = []
    for label, *cells in body:
        named = [
            cell if i in left else f"{heading} {cell}".replace(" ", _NO_BREAK)
            for i, (heading, cell) in enumerate(zip(headings[1:], cells, strict=True), start=1)
            if cell not in ("0", "")
        ]
        wrapper = textwrap.TextWrapper(
            width, initial_indent="  ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
        lines = wrapper.wrap(", ".join(named) or "none")
        paragraphs.append("\n".join([f"{headings[0]}: {label}", *lines]).replace(_NO_BREAK, " "))
    return "\n".join(paragraphs)


def without_zeros(rows: Sequence[Sequence[str]], keep: Collection[str] = ()) -> list[list[str]]:
    """The rows without columns that are 0 in all rows below their headings. The first column and columns with a heading
    in `keep` are kept."""
    columns = list(zip(*rows, strict=True))
    kept = [column for column in columns[1:] if column[0] in keep or set(column[1:]) != {"0"}]
    return [list(row) for row in zip(*columns[:1], *kept, strict=True)]


def terminal_width() -> int:
    """The width of the terminal of standard output, or the variable COLUMNS; otherwise 80."""
    return max(_NARROWEST, shutil.get_terminal_size().columns)
