"""PO files of GNU gettext. Translations are marked as fuzzy, so that no program shows them before a person has checked
them. Format: https://www.gnu.org/software/gettext/manual/html_node/PO-Files.html
"""

import gettext
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path

from nmt.documents.document import Document, Segment, Template
from nmt.documents.encoding import declared_codec
from nmt.documents.file_formats import FORMATS
from nmt.documents.placeholders.messages import PLACEHOLDERS, Message, message_template
from nmt.documents.placeholders.printf import ArgumentOrder
from nmt.errors import NmtError

_WHITE = r"[ \t\r\n\f\v]*+"
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*+)"')
_KEYWORD = rf"domain|msgctxt|msgid_plural|msgid|msgstr(?:{_WHITE}\[{_WHITE}\d+{_WHITE}\])?"
_COMMENT_OR_KEYWORD = re.compile(
    rf"(?P<comment>#[^\n]*)|(?P<keyword>{_KEYWORD}){_WHITE}(?P<strings>(?:{_STRING.pattern}{_WHITE})++)"
)
_NOTE = re.compile(r"# nmt: confidence \d+\s*")
_OPEN = re.compile(rf'(?:{_KEYWORD})?{_WHITE}"(?:[^"\\]|\\.)*+')
_BLANK = re.compile(_WHITE)
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]+)|(.))")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPED = re.compile(r'[\x00-\x1f\x7f"\\]')
_FIXED_ORDER = {"python-format", "lua-format", "go-format", "object-pascal-format"}  # without `%1$s`
_BRACES = {"python-brace-format", "rust-format", "c++-format"}  # `{}` is the same as `{0}`
_PLURAL_FORMS = re.compile(r"(?im)^Plural-Forms:.{0,200}?nplurals\s*=\s*(\d+).{0,200}?plural\s*=\s*([^;\n]+)")


@dataclass
class _Entry:
    """An entry: a message and its translations."""

    domain: str = ""
    start: int = -1  # of its flags, its previous msgid (`#|`), or else its first keyword
    fuzzy: int = -1  # where the fuzzy flag is written, before a previous msgid
    note: tuple[int, int] | None = None  # where its comment with a confidence is, or where a new one is inserted
    flags: list[str] = field(default_factory=list)  # all lines of flags; gettext reads only the last one
    strings: dict[str, str] = field(default_factory=dict)  # by keyword
    spans: dict[str, tuple[int, int]] = field(default_factory=dict)  # of the strings, with their quotes, by keyword

    @property
    def forms(self) -> list[str]:
        """The keywords of the translations."""
        return [keyword for keyword in self.strings if keyword.startswith("msgstr")]

    @property
    def is_header(self) -> bool:
        return not self.strings["msgid"] and "msgctxt" not in self.strings

    def begin(self, start: int) -> None:
        """Sets the start, unless it is set."""
        if self.start < 0:
            self.start = self.fuzzy = start


def read(content: str, path: Path, *, only_missing: bool = True) -> Document:
    """Reads a PO file. only_missing: existing translations stay, also fuzzy ones. Obsolete entries always stay. Raises
    NmtError for content that is not a PO file."""
    entries = _entries(content, path)
    headers = {entry.domain: entry.strings.get("msgstr", "") for entry in entries if entry.is_header}
    singular = {domain: _singular_form(header) for domain, header in headers.items()}
    newline = "\r\n" if content[: content.find("\n")].endswith("\r") else "\n"
    segments, notes, existing = list[Segment](), list[Segment](), 0
    for entry in entries:
        if not entry.strings["msgid"] or not entry.forms:
            continue
        if forms := [form for form in entry.forms if not (only_missing and entry.strings[form])]:
            segments.append(_segment(content, entry, forms, singular.get(entry.domain, 0), newline))
            place = entry.note or (entry.start, entry.start)
            notes.append(Segment(*place, [], lambda texts: f"# nmt: {texts[0]}{newline}", entry.start))
        else:
            existing += 1
    return Document(content, segments, PLACEHOLDERS, existing, notes=notes)


def _entries(content: str, path: Path) -> list[_Entry]:
    codec = declared_codec(content, FORMATS[".po"].declaration)
    entries, entry = list[_Entry](), _Entry()
    for match in _comments_and_keywords(content, path):
        keyword = _BLANK.sub("", match["keyword"] or "")
        if entry.strings and (keyword in ("", "domain", "msgctxt") or keyword in entry.strings):
            entries.append(entry)
            entry = _Entry(entry.domain)
        if not keyword:
            _add_comment(entry, match)
            continue
        string = _unescaped(_STRING.findall(match["strings"]), codec)
        if keyword == "domain":
            entry.domain = string
            continue
        entry.begin(match.start())
        entry.strings[keyword] = string
        entry.spans[keyword] = match.start("strings"), content.rindex('"', 0, match.end()) + 1
    if entry.strings:
        entries.append(entry)
    for entry in entries:
        if "msgid" not in entry.strings:
            raise NmtError(f"{path}: an entry has no msgid: {next(iter(entry.strings.values()))[:60]!r}")
    return entries


def _comments_and_keywords(content: str, path: Path) -> Iterator[re.Match[str]]:
    """Each comment, and each keyword with its strings. Raises NmtError for anything else."""
    offset = 0
    while True:
        blank = _BLANK.match(content, offset)
        assert blank is not None
        offset = blank.end()
        if offset == len(content):
            return
        match = _COMMENT_OR_KEYWORD.match(content, offset)
        if match is None:
            line_number, line = content.count("\n", 0, offset) + 1, content[offset:].partition("\n")[0].strip()
            problem = "a quotation mark is not closed" if _OPEN.fullmatch(line) else "not a line of a PO file"
            raise NmtError(f"{path}: line {line_number:,}: {problem}: {line[:60]!r}")
        yield match
        offset = match.end()


def _add_comment(entry: _Entry, match: re.Match[str]) -> None:
    kind = match["comment"][:2]
    if kind == "#~":  # an obsolete entry
        entry.start, entry.flags, entry.note = -1, [], None
    elif kind in ("#,", "#=", "#|"):
        entry.begin(match.start())
    elif entry.start < 0 and _NOTE.fullmatch(match["comment"]):
        entry.note = match.start(), match.end() + 1
    elif entry.start < 0 and kind in ("#.", "#:"):
        entry.note = entry.note or (match.start(), match.start())
    if kind in ("#,", "#="):  # `#=` is from gettext 0.26 and never has `fuzzy`
        entry.flags.append(match["comment"])
    if kind == "#,":
        entry.fuzzy = match.start() + len(kind)


def _segment(content: str, entry: _Entry, forms: Sequence[str], singular: int, newline: str) -> Segment:
    """The segment of an entry. forms: the keywords of the translations to write. singular: the index of the singular
    form. newline: the line break of the file."""
    flags = set[str]()
    for line in entry.flags:
        flags.update(map(str.strip, line[2:].split(",")))
    order = ArgumentOrder(printf=not flags & _FIXED_ORDER, braces=bool(flags & _BRACES))
    lines = [line for line in entry.flags if line.startswith("#,")]
    templates = dict[str, Message | Template]()
    for form in forms:
        is_plural = "msgid_plural" in entry.strings and form not in ("msgstr", f"msgstr[{singular}]")
        templates[form] = message_template(entry.strings["msgid_plural" if is_plural else "msgid"], order)
    stop = max(stop for _, stop in entry.spans.values())

    def write(texts: Sequence[str]) -> str:
        remaining, written, end = iter(texts), "", entry.start
        new = {form: each.with_texts(list(islice(remaining, len(each.texts)))) for form, each in templates.items()}
        if all(new[form] == entry.strings[form] for form in new):
            return content[entry.start : stop]
        if not lines or not re.search(r"\bfuzzy\b", lines[-1]):
            written, end = content[entry.start : entry.fuzzy], entry.fuzzy
            written += " fuzzy," if lines else f"#, fuzzy{newline}"
        for form in forms:
            start, form_end = entry.spans[form]
            written += content[end:start] + _quoted(new[form], newline)
            end = form_end
        return written + content[end:stop]

    texts = chain.from_iterable(template.texts for template in templates.values())
    return Segment(entry.start, stop, list(texts), write, entry.start)


def _singular_form(header: str) -> int:
    """The index of the singular form by the header; -1 if there is only one form."""
    if match := _PLURAL_FORMS.search(header):
        if match[1] == "1":
            return -1
        try:
            return gettext.c2py(match[2].strip())(1)
        except (ValueError, RecursionError, ZeroDivisionError):
            return 0
    return 0


def _unescaped(strings: Sequence[str], codec: str | None) -> str:
    """The text of adjacent strings. `\303` is a byte in UTF-8, or else in the codec that the file declares."""
    parts = list[str | bytes]()
    for string in strings:
        end = 0
        for match in _ESCAPE.finditer(string):
            octal, hexadecimal, character = match.groups()
            parts.append(string[end : match.start()])
            if character:
                parts.append(_ESCAPES.get(character, character))
            else:
                code = int(octal, 8) if octal else int(hexadecimal[-2:], 16)  # as gettext: the last byte counts
                parts.append(bytes([code & 0xFF]))
            end = match.end()
        parts.append(string[end:])
    for encoding in filter(None, ("utf-8", codec)):
        try:
            encoded = [part if isinstance(part, bytes) else part.encode(encoding) for part in parts]
            return b"".join(encoded).decode(encoding)
        except ValueError:
            continue
    return "".join(part.decode("latin-1") if isinstance(part, bytes) else part for part in parts)


def _quoted(string: str, newline: str) -> str:
    """A string as it is written in a PO file: if it has several lines, an empty string comes first."""
    names = {character: name for name, character in _ESCAPES.items()} | {'"': '"', "\\": "\\"}

    def escaped(character: re.Match[str]) -> str:
        return f"\\{names[character[0]]}" if character[0] in names else f"\\{ord(character[0]):03o}"

    lines = [f'"{_ESCAPED.sub(escaped, line)}"' for line in re.findall(r"[^\n]*\n|[^\n]+", string)]
    return newline.join(['""', *lines] if len(lines) != 1 else lines)
