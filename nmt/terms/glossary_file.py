"""Reads glossary files: tables with tabs, CSV, and TBX (TermBase eXchange, ISO 30042, versions 2 and 3)."""

import csv
import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, TreeBuilder

from nmt.config.language_codes import english_name, is_known, matching, normal
from nmt.config.language_pairs import LanguagePair
from nmt.errors import NmtError
from nmt.files.compression import plain_ending
from nmt.files.text import opened, read_lines
from nmt.files.utf16 import as_utf8
from nmt.files.xml import guarded_parser, parse

log = logging.getLogger("nmt")

_STATUSES = ("preferredTerm", "deprecatedTerm", "supersededTerm")  # perhaps with -admn-sts after it


class Entry(NamedTuple):
    """An entry of a glossary file, and its line. `|` separates the forms of a term."""

    line: int
    source: str
    target: str


def read(path: Path, pair: LanguagePair | None) -> list[Entry]:
    """The entries of a glossary file: TBX if its name ends in .tbx or .xml, CSV if it ends in .csv, otherwise a table
    with tabs. pair: the languages of the job, which choose the columns; None: they are not known.

    A table has two columns, or headings in its first row: `source` and `target`, or languages. Empty lines, and lines
    that begin with #, are ignored. Warns if there are no entries. Raises NmtError for a file that cannot be read so.
    """
    if plain_ending(path) == ".tmx":
        raise NmtError(f"{path}: a translation memory (TMX), which is no glossary: give a table of terms, or TBX")
    is_tbx = plain_ending(path) in (".tbx", ".xml")
    entries = _tbx_entries(path, pair) if is_tbx else _table_entries(path, pair)
    if not entries:
        log.warning("%s: the glossary is empty", path)
    return entries


def _table_entries(path: Path, pair: LanguagePair | None) -> list[Entry]:
    rows = _rows(path)
    columns = _columns(f"{path}:{rows[0][0]}", rows[0][1], pair) if rows else None
    entries = list[Entry]()
    for line, cells in rows[1:] if columns else rows:
        terms = [cells[i] if i < len(cells) else "" for i in columns] if columns else cells
        if len(terms) == 2 and all(terms):
            entries.append(Entry(line, *terms))
        elif not columns:
            columns_wanted = "write a source term, one tab (in .csv: a comma or semicolon) and a target term"
            more = "; for more columns, name them in the first line, such as en, de, note" if len(cells) > 2 else ""
            raise NmtError(f"{path}:{line}: {' | '.join(cells)[:80]!r}: {columns_wanted}{more}")
    return entries


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a table, with the numbers of their first lines, without empty rows and comments. Cells may be quoted,
    as a spreadsheet writes them."""
    lines, is_csv = list(read_lines(path)), plain_ending(path) == ".csv"
    start = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    delimiter = next((one for one in ";\t" if one in start), ",") if is_csv else "\t"
    reader = csv.reader((f"{line}\n" for line in lines), delimiter=delimiter, strict=True)
    rows, first = list[tuple[int, list[str]]](), 1
    try:
        for row in reader:
            cells = [" ".join(cell.split()) for cell in row]
            while cells and not cells[-1]:
                cells.pop()  # a spreadsheet adds empty cells
            if cells and not cells[0].startswith(("#", "sep=")):
                rows.append((first, cells))
            first = reader.line_num + 1
    except csv.Error as error:
        remedy = "close quotes, and double those inside"
        raise NmtError(f"{path}:{first}: the row that begins here cannot be read: {error}: {remedy}") from None
    return rows


def _columns(where: str, cells: Sequence[str], pair: LanguagePair | None) -> tuple[int, int] | None:
    """The source and the target column by the headings in the first row; None if it has none. Raises NmtError for
    headings that are other languages than those of the job."""
    names, found = [cell.lower() for cell in cells], list[str | None]()
    for side, language in zip(("source", "target"), pair or ("", ""), strict=True):
        called = english_name(language).lower() or side
        fits = [name for name in names if name in (side, f"{side} term", called) or name.startswith(f"{called} (")]
        found.append(fits[0] if len(fits) == 1 else matching(language or side, names))
    source, target = found
    if source and target and source != target:
        return names.index(source), names.index(target)
    if len(names) > 1 and all(map(is_known, names[:2])):
        wanted = " and ".join(filter(None, pair)) if pair else "the languages, which are not known here"
        raise NmtError(
            f"{where}: the headings {', '.join(cells)} do not fit {wanted}: give source and target as headings"
        )
    return None


def _tbx_entries(path: Path, pair: LanguagePair | None) -> list[Entry]:
    """The concepts that have both languages. Several terms of a language are forms, the preferred one first. Deprecated
    and superseded terms are left out."""
    if pair is None or not pair.source:
        raise NmtError(f"{path}: the languages to translate are not known: give --from, or a table instead of TBX")
    entries, languages = list[Entry](), set[str]()
    for concept in _tree(path).iter():
        if concept.tag in ("termEntry", "conceptEntry"):
            terms = _terms(concept)
            languages.update(terms)
            source, target = (_forms(terms, language) for language in pair)
            if source and target:
                entries.append(Entry(int(concept.attrib["line"]), source, target))
    if not entries:
        there = ", ".join(sorted(languages)) or "none"
        raise NmtError(f"{path}: no concept has both {pair.source} and {pair.target}: its languages are {there}")
    return entries


def _terms(concept: Element) -> dict[str, list[tuple[str, str]]]:
    """The terms of each language, each with its status, such as `preferredTerm-admn-sts`."""
    terms = defaultdict[str, list[tuple[str, str]]](list)
    for section in concept:
        for term in section if section.tag in ("langSet", "langSec") else ():
            text = " ".join("".join(part.itertext()) for part in term.iter("term"))
            notes = ((part.text or "").strip() for part in term.iter() if part.tag != "term")
            status = next((note for note in notes if note.startswith(_STATUSES)), "")
            if text.strip():
                terms[section.get("xml:lang", "")].append((" ".join(text.split()), status))
    return terms


def _forms(terms: Mapping[str, Sequence[tuple[str, str]]], language: str) -> str:
    exact = [code for code in terms if normal(code) == normal(language)]
    found = [term for code in exact or terms if matching(language, [code]) for term in terms[code]]
    used = [(text, status) for text, status in found if not status.startswith(_STATUSES[1:])]
    used.sort(key=lambda term: not term[1])
    return "|".join(dict.fromkeys(text.replace("|", r"\|") for text, _ in used))


def _tree(path: Path) -> Element:
    """The elements of a TBX file, each with its `line`."""
    tree = TreeBuilder()

    def start(name: str, attributes: dict[str, str]) -> None:
        tree.start(name, attributes | {"line": str(parser.CurrentLineNumber)})

    with opened(path) as stream:
        content = as_utf8(stream, str(path))
        parser = guarded_parser(str(path), None if content is stream else "utf-8")
        parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, tree.end, tree.data
        parse(parser, content.read(), str(path))
    root = tree.close()
    if root.tag not in ("martif", "tbx"):
        raise NmtError(f"{path}:{root.attrib['line']}: not a TBX file: its first element is <{root.tag}>")
    return root
