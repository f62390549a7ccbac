"""How a file of columns is written: what separates the columns, whether fields are quoted, and whether the first line
holds headings. Nothing in such a file says so.

A `.tsv` file is plain text, in which a quote is a character like any other, unless its quotes can only be those of a
spreadsheet or of a CSV library:

- every field that has quotes begins and ends with one, those inside are doubled, and none holds a tab; and
- a field has doubled quotes or a line break, or all fields are quoted, or just those with a comma are (as Excel does).

In ordinary text with quotes the first is wrong after a few lines. The whole file is looked at: a wrong guess would join
lines. In a `.csv` file quotes always quote.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from nmt.config import schema
from nmt.config.language_codes import base, english_name, normal
from nmt.errors import NmtError
from nmt.files.compression import plain_name
from nmt.files.text import blocks_of_lines, opened, read_lines
from nmt.files.utf16 import as_utf8

_DELIMITERS = ("\t", ";", ",")  # of .csv; text holds a comma more often than a semicolon or a tab
_LINES = 1000  # of a .csv file that are read to find its delimiter
_FEWEST_COMMAS = 10  # fields, all of them quoted, that show that those with a comma are
_FEWEST_DOUBLED = 3  # fields that show that most of a file is quoted, though not all of it
_LONGEST_ROW = 1 << 20  # bytes of a row with line breaks
_QUOTED, _UNQUOTED = rb'"((?:[^"\t]++|"")*+)"', rb'([^"\t\n]*+)'
_FIELD = re.compile(rb"(?:%s|%s)(?=[\t\n])\t?" % (_QUOTED, _UNQUOTED))
_ROW = re.compile(rb"(?:(?:%s|%s)\t)*+(?:%s|%s)\n" % (_QUOTED, _UNQUOTED, _QUOTED, _UNQUOTED))
_OPEN_ROW = re.compile(rb'(?:(?:%s|%s)\t)*+"(?:[^"\t]++|"")*+' % (_QUOTED, _UNQUOTED))
_NUMBER = re.compile(rb"[\d.,:%/ +-]*")
_ABBREVIATIONS = {"source": "src", "target": "tgt|trg"}


class Layout(NamedTuple):
    """source, target: numbers of the columns, from 0; delimiter: what separates columns; skipped: lines before the
    first row of text; remarks: what to tell the user."""

    source: int
    target: int
    delimiter: str = "\t"
    quoted: bool = False
    skipped: int = 0
    columns: int = 0  # of the first row
    remarks: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        """How many columns a row must have."""
        return max(self.source, self.target) + 1

    @property
    def key(self) -> list[str]:
        """What the text of a file depends on besides its content and the columns that the corpus names, for the
        fingerprint: nothing for plain text without headings."""
        found = [self.delimiter, *["quoted"] * self.quoted, *["headings"] * bool(self.skipped)]
        return [] if found == ["\t"] else [*found, str(self.source), str(self.target)]


def is_csv(path: Path) -> bool:
    """Whether the name says that it is CSV."""
    return plain_name(path).lower().endswith(".csv")


def layout_of(path: Path, corpus: schema.Corpus, data: schema.DataConfig) -> Layout:
    """The layout of a .tsv or .csv file. A pipe, which can be read only once, is plain text. Raises NmtError if the
    file cannot be read or has no such columns."""
    named = corpus.source_column, corpus.target_column
    languages = data.source_language, data.target_language
    if not path.is_file():
        return _plain(named, path, [])
    stat = path.stat()
    return _layout(path, named, languages, (stat.st_ino, stat.st_size, stat.st_mtime_ns))


@cache  # a corpus is read several times
def _layout(
    path: Path, named: tuple[str | None, str | None], languages: tuple[str, str], file: tuple[int, ...]
) -> Layout:
    remarks, delimiter, quoted, before = list[str](), "\t", True, 0
    if is_csv(path):
        delimiter, before = _delimiter(path)
        remarks.append(f"read as CSV with {_shown(delimiter)} between columns")
    else:
        quoted, remark = _has_quoted_fields(path)
        remarks += [remark] if remark else []
    _check_line_ends(path, delimiter)
    first = next(rows(read_lines(path), delimiter, quoted, before, path), (0, []))[1]
    found = _named_columns(first, named, languages, path)
    if found is None:
        return _plain(named, path, first)._replace(
            delimiter=delimiter, quoted=quoted, skipped=before, columns=len(first), remarks=tuple(remarks)
        )
    source, target = found
    remarks.append(f"the first line is left out: it holds the headings {first[source]!r} and {first[target]!r}")
    lines = before + 1 + sum(cell.count("\n") for cell in first)
    return Layout(source, target, delimiter, quoted, lines, len(first), tuple(remarks))


def rows(
    lines: Iterator[str], delimiter: str, quoted: bool, skipped: int, path: Path
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, each with the number of its last line; without blank ones if they are quoted. Raises
    NmtError, with the path, for quotes that do not fit."""
    numbered = enumerate((line.replace("\r", " ") for line in islice(lines, skipped, None)), start=skipped + 1)
    if not quoted:
        yield from ((number, line.split(delimiter)) for number, line in numbered)
        return
    reader = csv.reader((f"{line}\n" for _, line in numbered), delimiter=delimiter, strict=True)
    try:
        for row in reader:
            if row:
                yield skipped + reader.line_num, row
    except csv.Error as error:
        raise NmtError(f"{path}:{skipped + reader.line_num}: not CSV: {error}: correct the quotes") from None


def width(row: Sequence[str]) -> int:
    """The number of columns of a row, without empty ones at its end."""
    return next((number for number in range(len(row), 0, -1) if row[number - 1]), 0)


def _check_line_ends(path: Path, delimiter: str) -> None:
    """Raise NmtError for a file whose rows end with carriage returns alone, as those of old Macs: it has one line."""
    lines = list(islice(read_lines(path), 2))
    if (
        len(lines) == 1
        and "\r" in (line := lines[0].rstrip("\r"))
        and all(delimiter in one for one in line.split("\r"))
    ):
        raise NmtError(f"{path}: its lines end with carriage returns alone: save it again, with line feeds")


def _plain(named: tuple[str | None, str | None], path: Path, first: Sequence[str]) -> Layout:
    source, target = (
        _number(column or default, path, first) for column, default in zip(named, ("1", "2"), strict=True)
    )
    return Layout(source, target)


def _number(column: str, path: Path, first: Sequence[str]) -> int:
    if not re.fullmatch("[1-9][0-9]*", column):
        kind = Path(plain_name(path)).suffix.lower()
        raise NmtError(
            f"{path}: no column {column!r}: columns of a {kind} file are numbered from 1, or named as in its first "
            f"line, which has {', '.join(map(repr, first[:10])) or 'none'}"
        )
    return int(column) - 1


def _named_columns(
    first: Sequence[str], named: tuple[str | None, str | None], languages: tuple[str, str], path: Path
) -> tuple[int, int] | None:
    """The numbers of the columns if the first row holds headings, from 0. A heading is the name that the corpus gives,
    or says the side or its language: `source`, `Source text`, `en`, `en-GB`, `English`."""
    cells, found = [normal(cell.strip()) for cell in first], list[int]()
    for side, column, language in zip(("source", "target"), named, languages, strict=True):
        if column and not column.isdecimal():
            if normal(column) not in cells:
                _number(column, path, first)  # raises
            found.append(cells.index(normal(column)))
            continue
        name = re.escape(english_name(language).lower())
        heading = re.compile(
            rf"{side}([ -](text|segment|sentence|language))?|{_ABBREVIATIONS[side]}|"
            rf"{re.escape(base(language))}(-\w+)*|{name}( \(.*\))?"
        )
        places = [int(column) - 1] if column else range(len(cells))
        place = next((one for one in places if 0 <= one < len(cells) and heading.fullmatch(cells[one])), None)
        if place is None:
            return None
        found.append(place)
    source, target = found
    return None if source == target and not all(named) else (source, target)


def _delimiter(path: Path) -> tuple[str, int]:
    """What separates the columns of a .csv file, and how many lines stand before its first row. Raises NmtError if
    nothing does: no row may have more columns than the first one."""
    lines = list(islice(read_lines(path), _LINES))
    if lines and (given := re.fullmatch("sep=([;,\t|])", lines[0].strip('" ').lower())):
        return given[1], 1  # as Excel writes for itself
    problem = ""
    for delimiter in _DELIMITERS:
        _check_line_ends(path, delimiter)
        table = list[tuple[int, list[str]]]()
        try:
            for row in rows(iter(lines), delimiter, True, 0, path):
                table.append(row)
        except NmtError as error:
            if not table or len(lines) < _LINES:  # otherwise a field may have been cut
                problem = problem or str(error)
                continue
        columns = len(table[0][1]) if table else 0
        wider = next(((number, width(cells)) for number, cells in table if width(cells) > columns), None)
        if not table or (columns > 1 and wider is None):
            return delimiter, 0
        if columns > 1 and wider:
            problem = too_wide(path, *wider, columns, delimiter)
    raise NmtError(problem or f"{path}:1: one column: separate columns by a comma, a semicolon or a tab")


def too_wide(path: Path, line: int, columns: int, expected: int, delimiter: str) -> str:
    """The message for a row that has more columns than the first one."""
    return (
        f"{path}:{line}: {columns} columns, and the first line has {expected}: put quotes around a field that holds "
        f"{_shown(delimiter)}"
    )


def _shown(delimiter: str) -> str:
    return "a tab" if delimiter == "\t" else f"'{delimiter}'"


class _QuotesAsText(Exception):
    """A line in which quotes are no quotes of a table."""


class _Quotes:
    """What the quotes of a file look like, row by row."""

    def __init__(self) -> None:
        self.quoted = self.doubled = self.breaks = self.commas = 0  # quoted fields
        self.plain_text = self.plain_commas = False  # whether fields without quotes have text, or a comma
        self.widths = set[int]()  # columns of rows without a line break
        self.widths_of_breaks = set[int]()

    def add_plain(self, line: bytes) -> None:
        """A row without quotes, or many."""
        self.plain_commas |= b"," in line
        self.plain_text |= not line.isspace()
        if len(self.widths) < 10:
            self.widths.add(line[: line.find(b"\n")].count(b"\t"))

    def add(self, row: bytes) -> None:
        """A row with quotes. Raises _QuotesAsText if it is not of a table."""
        if not _ROW.fullmatch(row):
            raise _QuotesAsText
        fields = [(one[1], one[2]) for one in _FIELD.finditer(row)]
        for quoted, plain in fields:
            if quoted is None:
                self.plain_text |= not _NUMBER.fullmatch(plain)
                self.plain_commas |= b"," in plain
                continue
            self.quoted += 1
            self.doubled += b'""' in quoted
            self.breaks += b"\n" in quoted
            self.commas += b"," in quoted
        has_break = row.count(b"\n") > 1
        (self.widths_of_breaks if has_break else self.widths).add(row.count(b"\t"))

    @property
    def of_a_table(self) -> bool:
        """Whether they can only be those of a table, if all rows have been added."""
        breaks = self.breaks and self.widths_of_breaks <= self.widths
        just_commas = self.commas >= _FEWEST_COMMAS and not self.plain_commas
        return bool(breaks or self.doubled or (self.quoted and not self.plain_text) or just_commas)


def _has_quoted_fields(path: Path) -> tuple[bool, str | None]:
    """Whether a .tsv file quotes its fields, and a remark if there is one."""
    found, line = _Quotes(), 0
    with opened(path) as stream:
        for row, first in _rows_of_bytes(blocks_of_lines(as_utf8(stream, str(path)))):
            line = first
            if b'"' not in row:
                found.add_plain(row)
                continue
            try:
                found.add(row)
            except _QuotesAsText:
                if found.doubled + found.breaks < _FEWEST_DOUBLED:
                    return False, None
                return False, (
                    f"quotes are read as text: {found.quoted:,} fields before line {line:,} are quoted as a "
                    "spreadsheet quotes them, but this line is not"
                )
    if not found.of_a_table:
        return False, None
    return True, "fields are quoted, as a spreadsheet writes them: the quotes around them are left out"


def _rows_of_bytes(blocks: Iterator[bytes]) -> Iterator[tuple[bytes, int]]:
    """The rows of a file with quotes, and the number of the first line of each; rows without quotes come together. A
    row that is cut off, or whose quotes are no quotes of a table, comes as it is."""
    number, row, start = 0, b"", 0
    for block in blocks:
        block = block.replace(b"\r\n", b"\n")
        block = block if number else block.removeprefix(codecs.BOM_UTF8)
        if not row and b'"' not in block:
            yield block, number + 1
            number += block.count(b"\n")
            continue
        for line in io.BytesIO(block):
            number += 1
            row, start = (row + line, start) if row else (line, number)
            if b'"' in row and _OPEN_ROW.fullmatch(row) and len(row) < _LONGEST_ROW:
                continue
            yield row if row.endswith(b"\n") else row + b"\n", start
            row = b""
    if row:
        yield row, start
