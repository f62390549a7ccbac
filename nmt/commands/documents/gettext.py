"""PO files of GNU gettext. What is translated is marked as fuzzy, so that no program shows it before a person has read
it. Format: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

import gettext
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.commands.documents.document import Document, Segment
from nmt.commands.documents.messages import KEPT, message_template
from nmt.commands.documents.printf import Order
from nmt.errors import NmtError

_LINE = re.compile(r"[^\n]*(?:\n|\Z)")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"\s*$')
_KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d+)\])?)\s*(?=\")")
_ESCAPE = re.compile(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_FIXED_ORDER = re.compile(r"\b(?:python|lua|go|object-pascal)-format")  # in which there is no `%1$s`
_BRACES = re.compile(r"\b(?:python-brace|rust|c\+\+)-format")  # in which `{}` is `{0}`
_PLURAL_FORMS = re.compile(r"(?im)^Plural-Forms:.{0,200}?nplurals\s*=\s*(\d+).{0,200}?plural\s*=\s*([^;\n]+)")


@dataclass
class _Entry:
    """start: of its flags or else of its first keyword. strings and places: of each keyword, without its name's line
    end. parts: of each string the lines."""

    start: int
    flags: str = ""  # the line of flags, if it has one
    strings: dict[str, str] = field(default_factory=dict)
    parts: dict[str, list[str]] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def forms(self) -> list[str]:
        """The keywords of its translations."""
        return [keyword for keyword in self.strings if keyword.startswith("msgstr")]


def read(content: str, path: Path, *, only_missing: bool = True) -> Document:
    """only_missing: translations stay, also those that are fuzzy. Obsolete entries always stay. Raises NmtError for
    a line that is none of a PO file."""
    entries = _entries(content, path)
    header = next((entry.strings.get("msgstr", "") for entry in entries if not entry.strings["msgid"]), "")
    singular = _singular_form(header)
    segments, existing = list[Segment](), 0
    for entry in entries:
        if not entry.strings["msgid"] or not entry.forms:
            continue
        if forms := [form for form in entry.forms if not (only_missing and entry.strings[form])]:
            segments.append(_segment(content, entry, forms, singular))
        else:
            existing += 1
    return Document(content, segments, KEPT, existing)


def _entries(content: str, path: Path) -> list[_Entry]:
    entries, entry = list[_Entry](), _Entry(-1)
    keyword = ""
    for number, found in enumerate(_LINE.finditer(content), start=1):
        line, start = found[0].strip(), found.start()
        if line.startswith("#") or not line:
            if entry.strings:
                entries.append(entry)
                entry, keyword = _Entry(-1), ""
            if line.startswith("#,"):
                entry.start, entry.flags = start, found[0]
            elif line.startswith("#~") or not line:
                entry = _Entry(-1)
            continue
        begun = found[0].find(line)
        name = _KEYWORD.match(line)
        string = _STRING.match(line, name.end() if name else 0)
        if string is None or not (name or keyword):
            raise NmtError(f"{path}: line {number:,}: not a line of a PO file: {line[:60]!r}")
        if name:
            keyword = name[0].strip()
            if keyword in entry.strings or (keyword == "msgctxt" and entry.strings):
                entries.append(entry)
                entry = _Entry(-1)
            if entry.start < 0:
                entry.start = start
            entry.strings[keyword], entry.parts[keyword] = "", []
            entry.places[keyword] = start + begun + name.end(), 0
        entry.parts[keyword].append(_unescaped(string[1]))
        entry.places[keyword] = entry.places[keyword][0], start + begun + len(line)
    if entry.strings:
        entries.append(entry)
    for each in entries:
        each.strings = {name: "".join(parts) for name, parts in each.parts.items()}
        if "msgid" not in each.strings:
            raise NmtError(f"{path}: an entry has no msgid: {next(iter(each.strings.values()))[:60]!r}")
    return entries


def _segment(content: str, entry: _Entry, forms: Sequence[str], singular: int) -> Segment:
    """forms: the keywords of the translations that are made; singular: the number of the form for one thing."""
    sources = {
        form: entry.strings["msgid" if form in ("msgstr", f"msgstr[{singular}]") else "msgid_plural"]
        if "msgid_plural" in entry.strings
        else entry.strings["msgid"]
        for form in forms
    }
    order = Order(printf=not _FIXED_ORDER.search(entry.flags), braces=bool(_BRACES.search(entry.flags)))
    templates = {form: message_template(source, order) for form, source in sources.items()}
    stop = max(stop for _, stop in entry.places.values())

    def write(texts: Sequence[str]) -> str:
        left, written, end = iter(texts), "", entry.start
        found = {form: each.with_texts([next(left) for _ in each.texts]) for form, each in templates.items()}
        new = {form: string for form, string in found.items() if string is not None}
        if len(new) < len(found) or all(new[form] == entry.strings[form] for form in new):
            return content[entry.start : stop]
        if not re.search(r"\bfuzzy\b", entry.flags):
            break_ = "\r\n" if "\r\n" in content[entry.start : stop] else "\n"
            end += len("#,") * bool(entry.flags)
            written = "#, fuzzy," if entry.flags else f"#, fuzzy{break_}"
        for form in forms:
            start, last = entry.places[form]
            written += content[end:start] + _quoted(new[form], content[start:last])
            end = last
        return written + content[end:stop]

    return Segment(entry.start, stop, [text for each in templates.values() for text in each.texts], write)


def _singular_form(header: str) -> int:
    """The number of the form for one thing, as the header says it; -1 if there is but one form."""
    if found := _PLURAL_FORMS.search(header):
        if found[1] == "1":
            return -1
        try:
            return gettext.c2py(found[2].strip())(1)
        except (ValueError, RecursionError, ZeroDivisionError):
            return 0
    return 0


def _unescaped(string: str) -> str:
    def character(found: re.Match[str]) -> str:
        code = found[1]
        if code[0] in "01234567":
            return chr(int(code, 8))
        if code[0] == "x" and len(code) > 1:
            return chr(int(code[1:], 16))
        return _ESCAPES.get(code, code)

    return _ESCAPE.sub(character, string)


def _quoted(string: str, before: str) -> str:
    """As the strings of a PO file: one of several lines begins with an empty one. before: what stood there."""
    names = {character: name for name, character in _ESCAPES.items()} | {'"': '"', "\\": "\\"}
    lines = [
        '"' + "".join(f"\\{names[each]}" if each in names else each for each in line) + '"'
        for line in re.findall(r"[^\n]*\n|[^\n]+", string)
    ]
    break_ = "\r\n" if "\r\n" in before else "\n"
    return break_.join(['""', *lines] if len(lines) != 1 else lines)
