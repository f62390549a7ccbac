"""PO files of GNU gettext. What is translated is marked as fuzzy, so that no program shows it before a person has read
it. Format: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

import gettext
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.documents.document import Document, Segment
from nmt.documents.encoding import declared_codec
from nmt.documents.file_formats import FORMATS
from nmt.documents.placeholders.messages import KEPT, message_template
from nmt.documents.placeholders.printf import ArgumentOrder
from nmt.errors import NmtError

_WHITE = r"[ \t\r\n\f\v]*+"
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
_KEYWORD = rf"domain|msgctxt|msgid_plural|msgid|msgstr(?:{_WHITE}\[{_WHITE}\d+{_WHITE}\])?"
_COMMENT_OR_KEYWORD = re.compile(
    rf"(?P<comment>#[^\n]*)|(?P<keyword>{_KEYWORD}){_WHITE}(?P<strings>(?:{_STRING.pattern}{_WHITE})++)"
)
_OPEN = re.compile(rf'(?:{_KEYWORD})?{_WHITE}"(?:[^"\\]|\\.)*+')
_BLANK = re.compile(_WHITE)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\]')
_FIXED_ORDER = {"python-format", "lua-format", "go-format", "object-pascal-format"}  # in which there is no `%1$s`
_BRACES = {"python-brace-format", "rust-format", "c++-format"}  # in which `{}` is `{0}`
_PLURAL_FORMS = re.compile(r"(?im)^Plural-Forms:.{0,200}?nplurals\s*=\s*(\d+).{0,200}?plural\s*=\s*([^;\n]+)")


@dataclass
class _Entry:
    """start: of its flags, of its previous msgid (`#|`), or else of its first keyword; fuzzy: where that flag is
    written, which must be before a previous msgid. flags: all lines of them; gettext reads the last one alone. domain:
    in which it is. strings and places: of each keyword, from its first quote to its last one."""

    domain: str = ""
    start: int = -1
    fuzzy: int = -1
    flags: list[str] = field(default_factory=list)
    strings: dict[str, str] = field(default_factory=dict)
    places: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def forms(self) -> list[str]:
        """The keywords of its translations."""
        return [keyword for keyword in self.strings if keyword.startswith("msgstr")]

    @property
    def is_header(self) -> bool:
        return not self.strings["msgid"] and "msgctxt" not in self.strings

    def begin(self, place: int) -> None:
        """What can be written begins at this place, unless it began before it."""
        if self.start < 0:
            self.start = self.fuzzy = place


def read(content: str, path: Path, *, only_missing: bool = True) -> Document:
    """only_missing: translations stay, also those that are fuzzy. Obsolete entries always stay. Raises NmtError for
    what is not a PO file."""
    entries = _entries(content, path)
    headers = {entry.domain: entry.strings.get("msgstr", "") for entry in entries if entry.is_header}
    singular = {domain: _singular_form(header) for domain, header in headers.items()}
    break_ = "\r\n" if content[: content.find("\n")].endswith("\r") else "\n"
    segments, existing = list[Segment](), 0
    for entry in entries:
        if not entry.strings["msgid"] or not entry.forms:
            continue
        if forms := [form for form in entry.forms if not (only_missing and entry.strings[form])]:
            segments.append(_segment(content, entry, forms, singular.get(entry.domain, 0), break_))
        else:
            existing += 1
    return Document(content, segments, KEPT, existing)


def _entries(content: str, path: Path) -> list[_Entry]:
    codec = declared_codec(content, FORMATS[".po"].declaration)
    entries, entry = list[_Entry](), _Entry()
    for found in _comments_and_keywords(content, path):
        keyword = _BLANK.sub("", found["keyword"] or "")
        if entry.strings and (keyword in ("", "domain", "msgctxt") or keyword in entry.strings):
            entries.append(entry)
            entry = _Entry(entry.domain)
        if not keyword:
            _add_comment(entry, found)
            continue
        string = _unescaped(_STRING.findall(found["strings"]), codec)
        if keyword == "domain":
            entry.domain = string
            continue
        entry.begin(found.start())
        entry.strings[keyword] = string
        entry.places[keyword] = found.start("strings"), content.rindex('"', 0, found.end()) + 1
    if entry.strings:
        entries.append(entry)
    for each in entries:
        if "msgid" not in each.strings:
            raise NmtError(f"{path}: an entry has no msgid: {next(iter(each.strings.values()))[:60]!r}")
    return entries


def _comments_and_keywords(content: str, path: Path) -> Iterator[re.Match[str]]:
    """Each comment, and each keyword with its strings. Raises NmtError for anything else."""
    place = 0
    while True:
        blank = _BLANK.match(content, place)
        assert blank is not None
        place = blank.end()
        if place == len(content):
            return
        found = _COMMENT_OR_KEYWORD.match(content, place)
        if found is None:
            number, line = content.count("\n", 0, place) + 1, content[place:].partition("\n")[0].strip()
            what = "a quotation mark is not closed" if _OPEN.fullmatch(line) else "not a line of a PO file"
            raise NmtError(f"{path}: line {number:,}: {what}: {line[:60]!r}")
        yield found
        place = found.end()


def _add_comment(entry: _Entry, found: re.Match[str]) -> None:
    kind = found["comment"][:2]
    if kind == "#~":  # of an entry that is obsolete
        entry.start, entry.flags = -1, []
    elif kind in ("#,", "#=", "#|"):
        entry.begin(found.start())
    if kind in ("#,", "#="):  # of gettext 0.26, whose `#=` never has `fuzzy`
        entry.flags.append(found["comment"])
    if kind == "#,":
        entry.fuzzy = found.start() + len(kind)


def _segment(content: str, entry: _Entry, forms: Sequence[str], singular: int, break_: str) -> Segment:
    """forms: the keywords of the translations that are made; singular: the number of the form for one thing; break_:
    how lines end."""
    sources = {
        form: entry.strings["msgid" if form in ("msgstr", f"msgstr[{singular}]") else "msgid_plural"]
        if "msgid_plural" in entry.strings
        else entry.strings["msgid"]
        for form in forms
    }
    flags = {flag.strip() for line in entry.flags for flag in line[2:].split(",")}
    order = ArgumentOrder(printf=not flags & _FIXED_ORDER, braces=bool(flags & _BRACES))
    lines = [line for line in entry.flags if line.startswith("#,")]
    templates = {form: message_template(source, order) for form, source in sources.items()}
    stop = max(stop for _, stop in entry.places.values())

    def write(texts: Sequence[str]) -> str:
        left, written, end = iter(texts), "", entry.start
        new = {form: each.with_texts([next(left) for _ in each.texts]) for form, each in templates.items()}
        if all(new[form] == entry.strings[form] for form in new):
            return content[entry.start : stop]
        if not lines or not re.search(r"\bfuzzy\b", lines[-1]):
            written, end = content[entry.start : entry.fuzzy], entry.fuzzy
            written += " fuzzy," if lines else f"#, fuzzy{break_}"
        for form in forms:
            start, last = entry.places[form]
            written += content[end:start] + _quoted(new[form], break_)
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


def _unescaped(strings: Sequence[str], codec: str | None) -> str:
    """The text of adjacent strings. `\303` is a byte, in UTF-8 or else in the codec that the file declares."""
    parts = list[str | bytes]()
    for string in strings:
        end = 0
        for found in _ESCAPE.finditer(string):
            octal, hexadecimal, character = found.groups()
            parts.append(string[end : found.start()])
            if character:
                parts.append(_ESCAPES.get(character, character))
            else:
                code = int(octal, 8) if octal else int(hexadecimal[-2:], 16)  # as gettext: the last byte counts
                parts.append(bytes([code & 0xFF]))
            end = found.end()
        parts.append(string[end:])
    for each in ("utf-8", codec):
        if each is None:
            continue
        try:
            return b"".join(part if isinstance(part, bytes) else part.encode(each) for part in parts).decode(each)
        except ValueError:
            continue
    return "".join(part.decode("latin-1") if isinstance(part, bytes) else part for part in parts)


def _quoted(string: str, break_: str) -> str:
    """As the strings of a PO file: one of several lines begins with an empty one. break_: between them."""
    names = {character: name for name, character in _ESCAPES.items()} | {'"': '"', "\\": "\\"}

    def escaped(found: re.Match[str]) -> str:
        return f"\\{names[found[0]]}" if found[0] in names else f"\\{ord(found[0]):03o}"

    lines = [f'"{_ESCAPED.sub(escaped, line)}"' for line in re.findall(r"[^\n]*\n|[^\n]+", string)]
    return break_.join(['""', *lines] if len(lines) != 1 else lines)
