"""String tables in JSON, as i18next and others have them, and ARB (Flutter). Not text are in ARB keys with `@`, and in
others `@metadata`, which MediaWiki's have. A file with a key such as `@@locale` is ARB, whatever its name is.

A table has one language. What the table of the other language has already stays, also under keys that the source does
not have, such as the forms of plurals that only the other language needs.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nmt.documents.document import Document, Segment
from nmt.documents.placeholders.messages import KEPT, message_template
from nmt.errors import NmtError
from nmt.files.notes import counted

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')
_DEEPEST = 500  # objects and lists in one another


@dataclass
class _Member:
    """The characters of a file from a key, or in a list a value, up to the end of the value. key: in a list the number
    of the value. value: a string or a table, or None for anything else."""

    key: str | int
    start: int
    stop: int = 0
    value: "re.Match[str] | _Table | None" = None


@dataclass
class _Table:
    """An object, or a list. content: all of the file; start: inside of the bracket. members: in their order; of a list
    only strings and tables. commas: how many are between the members."""

    content: str
    is_object: bool
    start: int
    members: list[_Member] = field(default_factory=list)
    commas: int = 0

    @property
    def by_key(self) -> dict[tuple[str | int, int], _Member]:
        """Each member by its key, and by how often the key comes again behind it: programs read the last one."""
        found, counts = dict[tuple[str | int, int], _Member](), Counter[str | int]()
        for member in reversed(self.members):
            found[member.key, counts[member.key]] = member
            counts[member.key] += 1
        return dict(reversed(found.items()))


def read(content: str, path: Path, *, translated: tuple[str, Path] | None = None) -> Document:
    """Every string that is a value, unless it has one in `translated`, the content and the path of the table of the
    other language. Raises NmtError for what is not JSON."""
    other = None if translated is None else _parsed(*translated)
    table = _parsed(content, path)
    tables = [member.value for member in table.members if isinstance(member.value, _Table)]
    has_locale = any(str(member.key).startswith("@@") for each in tables for member in each.members)
    reader = _Reader(is_arb=has_locale or path.suffix.lower() == ".arb")
    segments = list(reader.segments(table, other))
    return Document(content, segments, KEPT, reader.existing, lambda _: reader.report())


@dataclass
class _Reader:
    """existing: how many strings have a translation. left_out: how many values of the other language have no place."""

    is_arb: bool
    existing: int = 0
    left_out: int = 0

    def report(self) -> Iterator[str]:
        if self.left_out:
            number = counted(self.left_out, "value that was there is", "values that were there are")
            yield f"{number} left out: the source has something else in that place"

    def segments(self, table: _Table, other: _Table | None) -> Iterator[Segment]:
        """Those of a table. other: what stands in its place in the other language."""
        if other is not None and other.is_object != table.is_object:
            self.left_out, other = self.left_out + 1, None
        others = other.by_key if other else {}
        members = table.by_key
        for place, member in members.items():
            found = others.get(place)
            if table.is_object and not self._is_text(str(member.key)):
                if found and other and self._is_of_file(str(member.key)):
                    yield _fixed(member.start, member.stop, other.content[found.start : found.stop])
                continue
            instead = found.value if found and isinstance(found.value, type(member.value)) else None
            self.left_out += found is not None and found.value is not None and instead is None
            if isinstance(member.value, _Table):
                yield from self.segments(member.value, instead if isinstance(instead, _Table) else None)
            elif member.value is not None:
                yield self._segment(member.value, instead)
        more = [member for place, member in others.items() if place not in members]
        if other is not None and table.is_object:
            keys = {member.key for member in table.members}
            added = [member for member in more if member.key not in keys]
            self.left_out += len(more) - len(added)
            yield from _added(table, [other.content[member.start : member.stop] for member in added])
        else:
            self.left_out += len(more)

    def _is_text(self, key: str) -> bool:
        return not key.startswith("@") if self.is_arb else key != "@metadata"

    def _is_of_file(self, key: str) -> bool:
        """Whether it tells of the file, such as its language."""
        return not self.is_arb or key.startswith("@@")

    def _segment(self, string: re.Match[str], found: "re.Match[str] | _Table | None") -> Segment:
        if not isinstance(found, re.Match) or found[0] == '""':
            return _segment(string)
        self.existing += 1
        return _fixed(*string.span(), found[0])


def _parsed(content: str, path: Path) -> _Table:
    """The values of a file, as a list of one."""
    try:
        json.loads(content, parse_int=str)  # which reads integers of any length
    except RecursionError:
        raise NmtError(f"{path}: objects nested too deeply to be read") from None
    except ValueError as error:
        # `arb` is also the code of Arabic.
        lines = f"; if it has lines of text: nmt translate MODEL < {path}" if path.suffix.lower() == ".arb" else ""
        raise NmtError(f"{path}: not JSON: {error}{lines}") from None
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
                    raise NmtError(f"{path}: objects nested too deeply to be read")
        before = kind
    return tables[0]


def _without_white_space(content: str, stop: int) -> int:
    while content[stop - 1] in " \t\r\n":
        stop -= 1
    return stop


def _added(table: _Table, texts: Sequence[str]) -> Iterator[Segment]:
    """Members of the other language behind the last one of an object."""
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
    in_ascii = "\\u" in token[0] and token[0].isascii()  # so the others are written as they are

    def write(texts: list[str]) -> str:
        new = template.with_texts(texts)
        return token[0] if new == string else json.dumps(new, ensure_ascii=in_ascii)

    return Segment(token.start(), token.end(), template.texts, write)  # type: ignore[arg-type]
