"""Reads glossary files."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError
from nmt.files.text import read_lines


class Row(NamedTuple):
    """An entry of a glossary file, and its line. `|` separates the forms of a term."""

    line: int
    source: str
    target: str


def read(path: Path, pair: LanguagePair | None) -> Iterator[Row]:
    """The entries of a UTF-8 file of lines `source term TAB target term`; empty lines and lines with # first are
    ignored. Raises NmtError if the file is missing or not UTF-8, or a line does not have exactly two terms."""
    for line_number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        terms = [term.strip() for term in line.split("\t")]
        if len(terms) != 2 or not all(terms):
            raise NmtError(f"{path}:{line_number}: {line[:80]!r}: write a source term, one tab and a target term")
        yield Row(line_number, terms[0], terms[1])
