"""Detect the layout of a file of columns: what separates the columns, whether fields are quoted, and whether the first
line holds headings.

In a `.csv` file quotes always quote. A `.tsv` file is plain text, in which a quote is an ordinary character. It is read
as CSV only if the whole file is CSV with tabs and rows of the same width, and if a quoted field contains doubled quotes
or a line break, or every field is quoted. A wrong guess would join lines, so quoted fields may not contain tabs.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nmt.config import schema
from nmt.config.language_codes import base, english_name, normal
from nmt.errors import NmtError
from nmt.files.compression import plain_ending, plain_name
from nmt.files.text import blocks_of_lines, opened, read_lines

_DELIMITERS = ("\t", ";", ",")  # of .csv
_LINES = 1000  # of a .csv file that are read to find its delimiter
_FEWEST_ROWS = 20  # rows whose fields are all quoted; fewer may be a dialogue
_FEWEST_QUOTED = 3  # rows that show that most of a .tsv file is quoted, though not all of it
_CLOSE = 0.8  # the choice is ambiguous if another delimiter fits such a share of the rows that the best one fits
_MOST_BREAKS = 20  # in a row: more are due to a quote that is not closed
_MOST_NAMED, _LONGEST_CELL = 5, 30  # unused columns that a remark names, characters of each that it shows
_ROWS_COMPARED = 100  # with the first one, which may hold headings
_FEWEST_COMPARED, _TIMES_SHORTER = 10, 3
_ABBREVIATIONS = {"source": "src", "target": "tgt|trg"}
_QUOTED_FIELD = re.compile(r'(?:^|(?<=\t))"(?:[^"\t]|"")*+"')


class TableLayout(NamedTuple):
    """How a file of columns is read."""

    source: int  # index of the source column
    target: int  # index of the target column
    delimiter: str = "\t"
    quoted: bool = False
    skipped: int = 0  # lines before the first row of text
    columns: int = 0  # of the first row
    remarks: tuple[str, ...] = ()  # messages for the user

    @property
    def needed(self) -> int:
        """How many columns a row must have."""
        return max(self.source, self.target) + 1


def is_csv(path: Path) -> bool:
    """Whether the name says that it is CSV."""
    return plain_name(path).lower().endswith(".csv")


def layout_of(path: Path, corpus: schema.Corpus, data: schema.DataConfig, errors: str = "strict") -> TableLayout:
    """The layout of a .tsv or .csv file. A pipe, which can be read only once, is plain text. errors: as in
    `read_lines`. Raises NmtError if the file cannot be read or has no such columns."""
    named = corpus.source_column, corpus.target_column
    languages = data.source_language, data.target_language
    if not path.is_file():
        return TableLayout(*_numbered_columns(named, path, []))
    stat = path.stat()
    scores = corpus.named_scores.values()
    scored = tuple(str(place.column) for place in scores if isinstance(place, schema.ScoreColumn))
    return _layout(path, named, languages, scored, errors, (stat.st_ino, stat.st_size, stat.st_mtime_ns))


@cache  # a corpus is read several times
def _layout(
    path: Path,
    named: tuple[str | None, str | None],
    languages: tuple[str, str],
    scored: tuple[str, ...],
    errors: str,
    file: tuple[int, ...],
) -> TableLayout:
    delimiter, quoted, before, remarks = "\t", True, 0, list[str]()
    _check_line_ends(path, errors)
    if is_csv(path):
        delimiter, before = _delimiter(path, errors)
    else:
        quoted, remarks = _quotes(path, errors)
    start = list(islice(rows(read_lines(path, errors=errors), delimiter, quoted, before, path), 1 + _ROWS_COMPARED))
    if not start:
        return TableLayout(*_numbered_columns(named, path, []))
    if is_csv(path):
        remarks.append(f"read as CSV with {shown(delimiter)} between columns")
    first, *others = [cells for _, cells in start]
    by_heading = _named_columns(first, named, languages, path)
    source, target = by_heading or _numbered_columns(named, path, first)
    if by_heading:
        before = start[0][0] + sum(cell.count("\n") for cell in first)
        remarks.append(f"the first line is left out: it holds the headings {first[source]!r} and {first[target]!r}")
    elif _may_be_headings(first, others, source, target):
        remarks.append(
            f"the first line is read as text: if {first[source]!r} and {first[target]!r} are headings, give them as "
            "source_column and target_column"
        )
    remarks += _unused(first, others[0] if by_heading and others else None, (source, target), scored)
    return TableLayout(source, target, delimiter, quoted, before, len(first), tuple(remarks))


def _named_columns(
    first: Sequence[str], named: tuple[str | None, str | None], languages: tuple[str, str], path: Path
) -> tuple[int, int] | None:
    """The indices of the columns if the first row holds headings. A heading is the name that the corpus gives, or the
    side or its language: `source`, `en`, `English`; or, if there is none, `Source text`, `en-GB`, `English (UK)`.
    Raises NmtError if several fit."""
    cells = [normal(cell.strip()) for cell in first]
    columns = list[list[int]]()
    for side, column, language in zip(("source", "target"), named, languages, strict=True):
        if column and not column.isdecimal():
            if normal(column) not in cells:
                _index(column, path, first)  # raises
            patterns, candidates = [re.escape(normal(column))], range(len(cells))
        else:
            code, name = re.escape(base(language)), re.escape(english_name(language).lower())
            full = re.escape(normal(language))
            exact = rf"{side}|{_ABBREVIATIONS[side]}|{full}|{name}"
            patterns = [exact, rf"{side}[ -](text|segment|sentence)|{code}(-\w+)*|{name} \(.*\)"]
            candidates = range(int(column) - 1, int(column)) if column else range(len(cells))
        fitting = list[int]()
        for pattern in patterns:
            fitting = fitting or [i for i in candidates if i < len(cells) and re.fullmatch(pattern, cells[i])]
        columns.append(fitting)
    if not all(columns):
        return None
    for side, several in zip(("source", "target"), columns, strict=True):
        if len(several) > 1:
            fit = " and ".join(f"{first[i]!r} (column {i + 1})" for i in several)
            raise NmtError(f'{path}: the headings {fit} all fit: choose one, as {side}_column: "{several[0] + 1}"')
    (source,), (target,) = columns
    return None if source == target and not all(named) else (source, target)


def _numbered_columns(named: tuple[str | None, str | None], path: Path, first: Sequence[str]) -> tuple[int, int]:
    """The indices of the columns whose numbers the corpus gives, or of the first two columns. Raises NmtError if the
    corpus gives a name."""
    source, target = named
    return _index(source or "1", path, first), _index(target or "2", path, first)


def _index(column: str, path: Path, first: Sequence[str]) -> int:
    if not re.fullmatch("[1-9][0-9]*", column):
        kind = plain_ending(path)
        raise NmtError(
            f"{path}: no column {column!r}: columns of a {kind} file are numbered from 1, or named as in its first "
            f"line, which has {', '.join(map(repr, first[:10])) or 'none'}"
        )
    return int(column) - 1


def _may_be_headings(first: Sequence[str], others: Sequence[Sequence[str]], source: int, target: int) -> bool:
    """Whether the text of the first row is much shorter than the text of the following rows. Headings can be in any
    language."""
    lengths = [sum(len(row[i]) for i in (source, target) if i < len(row)) for row in (first, *others)]
    if len(first) <= max(source, target) or len(others) < _FEWEST_COMPARED:
        return False
    return _TIMES_SHORTER * lengths[0] < sum(lengths[1:]) / len(others)


def _unused(
    first: Sequence[str], below: Sequence[str] | None, used: tuple[int, int], scored: Sequence[str]
) -> list[str]:
    """A remark on columns that are not read, if there are any. below: the row after the headings; None if the first row
    has no headings. scored: the names or numbers of columns of scores."""
    read = {*map(normal, scored)}
    unused = [i for i, cell in enumerate(first) if i not in used and not read & {str(i + 1), normal(cell.strip())}]
    names = []
    for i in unused[:_MOST_NAMED]:
        cells = [first[i]] if below is None else [first[i], *below[i : i + 1]]
        cells = [repr(cell if len(cell) <= _LONGEST_CELL else f"{cell[:_LONGEST_CELL]}…") for cell in cells]
        names.append(f"{i + 1} ({', such as '.join(cells)})")
    if len(unused) > _MOST_NAMED:
        names.append("…")
    are = "is" if len(unused) == 1 else "are"
    return [f"{len(unused)} of {len(first)} columns {are} not used: {', '.join(names)}"] if unused else []


def rows(
    lines: Iterator[str], delimiter: str, quoted: bool, skipped: int, path: Path
) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table, each with the number of its first line. Blank rows of a quoted table are skipped.
    Raises NmtError, with the path, for wrong quotes."""
    numbered = enumerate((line.replace("\r", " ") for line in islice(lines, skipped, None)), start=skipped + 1)
    if not quoted:
        yield from ((line_number, line.split(delimiter)) for line_number, line in numbered)
        return
    first = skipped + 1  # line of the row

    def fed() -> Iterator[str]:
        for line_number, line in numbered:
            if line_number - first > _MOST_BREAKS:
                raise csv.Error(f"a quoted field has more than {_MOST_BREAKS} line breaks")
            yield f"{line}\n"

    reader = csv.reader(fed(), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield first, row
            first = skipped + reader.line_num + 1
    except csv.Error as error:
        problem = str(error).replace("unexpected end of data", "a quote is not closed")
        problem = re.sub(
            r"field larger than field limit \((\d+)\)",
            r"a field has more than \1 characters (if so, leave it out)",
            problem,
        )
        raise NmtError(
            f"{path}:{first}: the row that begins here is not CSV: {problem}: close the quotes around a field, and "
            "double those inside"
        ) from None


def _check_line_ends(path: Path, errors: str) -> None:
    """Raise NmtError for a file whose lines end with carriage returns only, as on old Macs."""
    lines = list(islice(read_lines(path, errors=errors), 2))
    parts = lines[0].rstrip("\r").split("\r") if len(lines) == 1 else []
    delimiters = _DELIMITERS if is_csv(path) else "\t"
    if len(parts) > 1 and any(all(delimiter in part for part in parts) for delimiter in delimiters):
        raise NmtError(f"{path}: its lines end with carriage returns alone: save it again, with line feeds")


def _delimiter(path: Path, errors: str) -> tuple[str, int]:
    """Return the delimiter of a .csv file and the number of lines before its first row. With the delimiter, most rows
    have as many columns as the first row. Raises NmtError if no delimiter fits, or if two do."""
    lines = list(islice(read_lines(path, errors=errors), _LINES))
    if lines and (declared := re.fullmatch("sep=([;,\t|])", lines[0].strip('" ').lower())):
        return declared[1], 1  # Excel writes such a line
    fitting, problem = dict[str, int](), ""
    for delimiter in _DELIMITERS:
        widths = list[int]()
        try:
            for _, cells in rows(iter(lines), delimiter, True, 0, path):
                widths.append(len(cells))
        except NmtError as error:  # raised below if no other delimiter fits
            problem = problem if widths else str(error)
        if widths and widths[0] > 1:
            fitting[delimiter] = widths.count(widths[0])
    best, *others = sorted(fitting, key=fitting.__getitem__, reverse=True) or [","]
    if not fitting and any(line.strip() for line in lines):
        raise NmtError(problem or f"{path}:1: one column: separate columns by a comma, a semicolon or a tab")
    if others and fitting[others[0]] >= _CLOSE * fitting[best]:
        raise NmtError(
            f"{path}: the delimiter of columns can be {shown(best)} or {shown(others[0])}: add a first line that names "
            "it, such as sep=;"
        )
    return best, 0


def shown(delimiter: str) -> str:
    """The name of a delimiter in messages."""
    return "a tab" if delimiter == "\t" else f"'{delimiter}'"


def _quotes(path: Path, errors: str) -> tuple[bool, list[str]]:
    """Whether a .tsv file quotes its fields, and remarks for the user."""
    with opened(path) as stream:
        if not any(b'"' in block for block in blocks_of_lines(stream)):
            return False, []
    raw, columns, end, quoted_rows, entirely, count = list[str](), 0, 0, 0, True, 0

    def recorded() -> Iterator[str]:
        for line in read_lines(path, errors=errors):
            raw.append(line)
            yield line

    try:
        for line, row in rows(recorded(), "\t", True, 0, path):
            columns, end, text = columns or len(row), line, "\n".join(raw).lstrip("\n")
            raw.clear()
            unquoted = _QUOTED_FIELD.sub("", text)
            if len(row) != columns or '"' in unquoted:
                break
            entirely, count = entirely and not unquoted.strip("\t\n"), count + 1
            quoted_rows += any('"' in cell or "\n" in cell for cell in row)
        else:
            remark = "fields are quoted, as a spreadsheet writes them: the quotes around them are left out"
            quoted = quoted_rows > 0 or (entirely and count >= _FEWEST_ROWS)
            return quoted, [remark] if quoted else []
    except NmtError:  # wrong quotes; other errors are raised again when the file is read
        end += 1
    remark = (
        f"quotes are read as text: the rows before line {end:,} are quoted as in a spreadsheet, but line {end:,} is not"
    )
    return False, [remark] if quoted_rows >= _FEWEST_QUOTED else []
