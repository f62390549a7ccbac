"""Read YAML text as values with their positions, and write values as YAML text.

Mappings, lists and the plain scalars of YAML 1.2 are supported: `no` is Norwegian, not false, and 1e-9 is a number.
Anchors, aliases and tags are rejected, because in settings they only hide values.
"""

import re
import sys
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.reader import ReaderError

from nmt.errors import NmtError

Scalar = str | int | float | bool | None

_DEEPEST = 20  # levels of nested mappings and lists; settings need five
_OTHER_BREAKS = re.compile("[\x85\u2028\u2029]")
_MOST_SHOWN = 60  # characters of a text in a message
MOST_DIGITS = 18  # of a whole number: no setting needs more, and longer numbers are slow to check


@dataclass(frozen=True)
class Node:
    """A value, its text as written (shortened), and its location for messages, such as `line 12: `."""

    value: "Scalar | list[Node] | dict[str, Node]"
    written: str
    where: str


def read(text: str, problems: list[str], path: str = "", where: str | None = None) -> Node:
    """Read a text with one document. An empty text is null.

    path: the key of the value, for messages. where: replaces the line numbers if the text is not a file. Keys that are
    given twice or are not plain text are added to `problems`. Raises NmtError if the text cannot be read. Its message
    begins with the location unless `where` is given.
    """

    def line(position: int) -> str:
        return "" if where else f"line {text.count(chr(10), 0, position) + 1}: "

    if breaks := _OTHER_BREAKS.search(text):  # PyYAML ends lines there, and comments; YAML 1.2 does not
        character = f"U+{ord(breaks[0]):04X}"
        raise NmtError(
            f"{line(breaks.start())}delete the character {character}: some programs treat it as a line break"
        )
    try:
        node = yaml.compose(text, Loader=_Loader)
    except ReaderError as error:
        character = f"U+{int(error.character):04X}"
        raise NmtError(f"{line(error.position)}not valid YAML: delete the character {character}") from None
    except yaml.MarkedYAMLError as error:
        raise NmtError(_explained(error, where is None)) from None
    if node is None:
        return Node(None, "nothing", where or "")
    return _Converter(text, where, problems).node(node, path)


def dump(value: Any, *, in_one_line: bool = False) -> str:
    """Dicts, lists and scalars as YAML that `read` and any other YAML reader understand in the same way."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=sys.maxsize, default_flow_style=in_one_line
    )
    return text.removesuffix("...\n").strip() if in_one_line else text


def shortened(text: str) -> str:
    """The first characters of a text, in one line."""
    text = " ".join(text.split())
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


_NO_ANCHORS = "anchors, aliases and tags (&, *, !) are not allowed: write the value itself, or put text in quotes"


class _UnsupportedYaml(yaml.MarkedYAMLError):
    """Valid YAML that is not supported here."""


class _Loader(yaml.SafeLoader):
    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None or getattr(event, "tag", None) is not None:
            raise _UnsupportedYaml(problem=_NO_ANCHORS, problem_mark=event.start_mark)
        if self._depth > _DEEPEST:
            problem = f"nested more than {_DEEPEST} levels deep: settings need fewer"
            raise _UnsupportedYaml(problem=problem, problem_mark=event.start_mark)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes every text that YAML 1.1 or 1.2 would read as another type."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9]+(_[0-9]+)*",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(_[0-9]+)*(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
}.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), None)

_IN_OTHER_WORDS = {  # part of the library's message: the usual cause
    r"'\t'": "indent with spaces, not tabs",
    "cannot start any token": "put text that begins with @, %, ` or the like in quotes",
    "mapping values are not allowed": "a second colon in a line: put a value with a colon in quotes",
    "could not find expected ':'": "no colon and space after a key: write key: value",
    "but found '<scalar>'": "unexpected text: is a quote or bracket closed too early?",
    "expected <block end>": "the indentation does not fit the lines above",
    "expected ',' or": "a comma or a closing bracket is missing",
    "expected the node content": "a value or a closing bracket is missing",
    "unexpected end of stream": "a quote that is not closed",
    "another document": "a second document begins here: delete the line ---",
}


def _explained(error: yaml.MarkedYAMLError, with_location: bool) -> str:
    """The problem in a text and its location: the start of the key or quote, not where the library stopped."""
    problem = str(error.problem or error.context)
    begun = error.context_mark if "key" in str(error.context) or "quoted" in str(error.context) else None
    mark = begun or error.problem_mark
    location = f"line {mark.line + 1}, column {mark.column + 1}: " if mark and with_location else ""
    if isinstance(error, _UnsupportedYaml):
        return f"{location}{problem}"
    problem = next((words for part, words in _IN_OTHER_WORDS.items() if part in problem), problem)
    return f"{location}not valid YAML: {problem}"


def _scalar(node: yaml.ScalarNode) -> Scalar:
    text = str(node.value)
    plain = text.replace("_", "")
    match node.tag.rsplit(":", 1)[-1]:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(plain) if len(plain.lstrip("+-")) <= MOST_DIGITS else float(plain)
        case "float":
            return float(plain)
    return text


@dataclass(frozen=True)
class _Converter:
    """Turns the library's nodes into ours."""

    text: str
    where: str | None
    problems: list[str]

    def node(self, node: yaml.Node, path: str) -> Node:
        value: Scalar | list[Node] | dict[str, Node]
        if isinstance(node, yaml.MappingNode):
            value = self._mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            value = [self.node(item, f"{path}[{i}]") for i, item in enumerate(node.value)]
        else:
            assert isinstance(node, yaml.ScalarNode)
            value = _scalar(node)
        return Node(value, self._written(node) or "nothing", self._where(node))

    def _mapping(self, node: yaml.MappingNode, path: str) -> dict[str, Node]:
        mapping: dict[str, Node] = {}
        for key_node, value_node in node.value:
            where = self._where(key_node)
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else ""
            if not key.strip() or not key.isprintable():
                written = self._written(key_node) or "nothing"
                self.problems.append(f"{where}{path and f'{path}: '}a key must be plain text, not {written}")
                continue
            child = f"{path}.{key}" if path else key
            if key in mapping:
                first = mapping[key].where.removesuffix(": ")
                since = "" if self.where else f", first in {first}"
                self.problems.append(f"{where}{child} is given twice{since}: delete one")
            # A block value may start on the line after its key; the message names the line of the key.
            value = self.node(value_node, child)
            mapping[key] = Node(value.value, value.written, where)
        return mapping

    def _where(self, node: yaml.Node) -> str:
        return self.where if self.where is not None else f"line {node.start_mark.line + 1}: "

    def _written(self, node: yaml.Node) -> str:
        return shortened(self.text[node.start_mark.index : node.end_mark.index])
