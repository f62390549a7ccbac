"""String tables in JSON, as in i18next and others, and ARB (Flutter).

Values are not translated under keys that begin with `@` in ARB, and under `@metadata` (MediaWiki) in other tables. A
file with a key such as `@@locale` is ARB, whatever its name is.

A table has one language. Strings that the table of the target language has already stay, also under keys that the
source does not have, such as plural forms that only the target language needs.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from nmt.documents.document import Document, Segment
from nmt.documents.placeholders.messages import PLACEHOLDERS, message_template
from nmt.errors import NmtError
from nmt.files.notes import counted

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
_DEEPEST = 500  # maximum depth of nested objects and lists


@dataclass
class _Member:
    """A member of an object, or an element of a list: the characters [start, stop) of a file, with the key."""

    key: str | int  # in a list the index
    start: int
    stop: int = 0
    value: "re.Match[str] | _Table | None" = None  # a string or a table; None for anything else


@dataclass
class _Table:
    """An object or a list."""

    content: str  # of the whole file
    is_object: bool
    start: int  # after the opening bracket
    members: list[_Member] = field(default_factory=list)  # in order; of a list only strings and tables
    commas: int = 0  # between the members

    @property
    def by_key(self) -> dict[tuple[str | int, int], _Member]:
        """Each member by its key, and by how often the key follows again: programs read the last one."""
        members, counts = dict[tuple[str | int, int], _Member](), Counter[str | int]()
        for member in reversed(self.members):
            members[member.key, counts[member.key]] = member
            counts[member.key] += 1
        return dict(reversed(members.items()))


def read(content: str, path: Path, *, translated: tuple[str, Path] | None = None) -> Document:
    """Reads the strings that are values and have no translation. translated: content and path of the table in the
    target language. Raises NmtError for content that is not JSON."""
    other = None if translated is None else _parsed(*translated)
    table = _parsed(content, path)
    tables = [member.value for member in table.members if isinstance(member.value, _Table)]
    members = chain.from_iterable(each.members for each in tables)
    has_locale = any(str(member.key).startswith("@@") for member in members)
    reader = _Reader(is_arb=has_locale or path.suffix.lower() == ".arb")
    segments = list(reader.segments(table, other))
    return Document(content, segments, PLACEHOLDERS, reader.existing, lambda _: reader.report())


@dataclass
class _Reader:
    is_arb: bool
    existing: int = 0  # number of strings that have a translation
    dropped: int = 0  # number of values of the target language that do not fit into the source

    def report(self) -> Iterator[str]:
        if self.dropped:
            values = counted(self.dropped, "value is", "values are")
            yield f"{values} missing from the output: the source has values of other types under these keys"

    def segments(self, table: _Table, other: _Table | None) -> Iterator[Segment]:
        """The segments of a table. other: the same table in the target language."""
        if other is not None and other.is_object != table.is_object:
            self.dropped, other = self.dropped + 1, None
        others = other.by_key if other else {}
        members = table.by_key
        for key, member in members.items():
            old = others.get(key)
            if table.is_object and not self._is_text(str(member.key)):
                if old and other and self._describes_file(str(member.key)):
                    yield _fixed(member.start, member.stop, other.content[old.start : old.stop])
                continue
            translation = old.value if old and isinstance(old.value, type(member.value)) else None
            self.dropped += old is not None and old.value is not None and translation is None
            if isinstance(member.value, _Table):
                yield from self.segments(member.value, translation if isinstance(translation, _Table) else None)
            elif member.value is not None:
                yield self._segment(member.value, translation)
        more = [member for key, member in others.items() if key not in members]
        if other is not None and table.is_object:
            keys = {member.key for member in table.members}
            added = [member for member in more if member.key not in keys]
            self.dropped += len(more) - len(added)
            yield from _added(table, [other.content[member.start : member.stop] for member in added])
        else:
            self.dropped += len(more)

    def _is_text(self, key: str) -> bool:
        return not key.startswith("@") if self.is_arb else key != "@metadata"

    def _describes_file(self, key: str) -> bool:
        """Whether the value describes the file, for example its language."""
        return not self.is_arb or key.startswith("@@")

    def _segment(self, string: re.Match[str], translation: "re.Match[str] | _Table | None") -> Segment:
        if not isinstance(translation, re.Match) or translation[0] == '""':
            return _segment(string)
        self.existing += 1
        return _fixed(*string.span(), translation[0])


def _parsed(content: str, path: Path) -> _Table:
    """A list with the one value of a file."""
    try:
        json.loads(content, parse_int=str)  # parse_int: for integers of any length
    except RecursionError:
        raise NmtError(f"{path}: objects are nested too deeply") from None
    except ValueError as error:
        # `arb` is also the code of Arabic.
        fix = f"; if it has lines of text: nmt translate MODEL < {path}" if path.suffix.lower() == ".arb" else ""
        raise NmtError(f"{path}: not JSON: {error}{fix}") from None
    tables, before = [_Table(content, is_object=False, start=0)], ""
    for token in _TOKEN.finditer(content):
        kind, table = token[0][0], tables[-1]
        if kind in "}],":
            if table.members and not table.members[-1].stop:
                table.members[-1].stop = _without_white_space(content, token.start())
            if kind == ",":
                table.commas += 1
            else:
                tables.pop()
        elif kind == '"' and table.is_object and before != ":":
            table.members.append(_Member(json.loads(token[0], strict=False), token.start()))
        elif kind != ":":
            value = token if kind == '"' else _Table(content, kind == "{", token.end())
            if not table.is_object:
                table.members.append(_Member(table.commas, token.start()))
            table.members[-1].value = value
            if isinstance(value, _Table):
                tables.append(value)
                if len(tables) > _DEEPEST:
                    raise NmtError(f"{path}: objects are nested too deeply")
        before = kind
    return tables[0]


def _without_white_space(content: str, stop: int) -> int:
    while content[stop - 1] in " \t\r\n":
        stop -= 1
    return stop


def _added(table: _Table, texts: Sequence[str]) -> Iterator[Segment]:
    """Adds members of the target language after the last one of an object."""
    if not table.members:
        yield _fixed(table.start, table.start, ", ".join(texts))
        return
    last = table.members[-1]
    white = table.content[_without_white_space(table.content, last.start) : last.start]
    yield _fixed(last.stop, last.stop, "".join(f",{white}{text}" for text in texts))


def _fixed(start: int, stop: int, text: str) -> Segment:
    return Segment(start, stop, [], lambda _: text)


def _segment(token: re.Match[str]) -> Segment:
    string = json.loads(token[0], strict=False)
    template = message_template(string)
    in_ascii = "\\u" in token[0] and token[0].isascii()  # the file escapes other characters

    def write(texts: list[str]) -> str:
        new = template.with_texts(texts)
        return token[0] if new == string else json.dumps(new, ensure_ascii=in_ascii)

    return Segment(token.start(), token.end(), template.texts, write)  # type: ignore[arg-type]
