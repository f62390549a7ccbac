"""Aligned plain-text tables."""

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], left: Collection[int] = (0,)) -> list[str]:
    """Each row of cells as one line, all of the same width.

    left: the numbers of the columns that are aligned to the left; the others are aligned to the right. Raises
    ValueError if the rows do not all have the same number of cells.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place in left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def table(
    rows: Sequence[Sequence[str]], left: Collection[int] = (0,), *, rule: bool = False, mark: int | None = None
) -> str:
    """`aligned` rows without spaces at the ends. rule: a line of dashes below the first row; mark: the number of the
    row that gets a star in front."""
    lines = [line.rstrip() for line in aligned(rows, left)]
    if mark is not None:
        lines = [f"{'*' if place == mark else ' '} {line}" for place, line in enumerate(lines)]
    if rule:
        lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)
