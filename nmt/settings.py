"""Frozen dataclasses read strictly from YAML: every problem in one report, each with its place.

Knows nothing of translation: a declaration (`setting`) goes in, a typed value or a list of problems
comes out, and the same declaration prints the reference of every setting.
"""

import dataclasses
import difflib
import inspect
import re
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml

from nmt.errors import NmtError

T = TypeVar("T")
Scalar = str | int | float | bool | None


def setting(
    default: T,
    meaning: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
) -> T:
    """Declare a setting: its default, its meaning in one line, and the range its number lies in.

    The annotation beside it is its type.
    """
    bounds = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    metadata = {"meaning": meaning, "bounds": {name: b for name, b in bounds.items() if b is not None}}
    return dataclasses.field(default=default, metadata=metadata)


def required(meaning: str) -> Any:
    """Declare a setting without a default: leaving it out is an error."""
    return dataclasses.field(metadata={"meaning": meaning, "bounds": {}})


def section(declaration: type[T], meaning: str) -> T:
    """Declare a section: a frozen dataclass of settings, read from a nested mapping."""
    if any(field.default is dataclasses.MISSING for field in dataclasses.fields(declaration)):  # type: ignore[arg-type]
        return typing.cast(T, required(meaning))
    return setting(declaration(), meaning)


# --------------------------------------------------------------------------- YAML with places


@dataclasses.dataclass
class Located:
    """A YAML value that remembers where it was written (`line 12` or `override a.b=3`)."""

    value: "Scalar | list[Located] | dict[str, Located]"
    place: str


class _Loader(yaml.SafeLoader):
    """YAML 1.2's plain scalars: `no` is Norwegian rather than false, and 1e-9 is a number."""


_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern in {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?[0-9][0-9_]*",
    "float": r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.inf|\.nan",
}.items():
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(f"^(?:{_pattern})$"), None)


def _scalar(node: yaml.ScalarNode) -> Scalar:
    text = str(node.value)
    match node.tag.rsplit(":", 1)[-1]:
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text.replace("_", ""))
        case "float":
            return float(text.replace("_", "").replace(".inf", "inf").replace(".nan", "nan"))
    return text


def _located(node: yaml.Node, place: str | None, path: str, problems: list[str]) -> Located:
    here = place or f"line {node.start_mark.line + 1}"
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Located] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            child = f"{path}.{key}" if path else key
            if key in mapping:
                second = place or f"line {key_node.start_mark.line + 1}"
                problems.append(f"{second}: {child} is given twice (first at {mapping[key].place}): delete one")
            mapping[key] = _located(value_node, place, child, problems)
            if not place:  # a block value starts on the line below its key; the key is what one looks for
                mapping[key].place = f"line {key_node.start_mark.line + 1}"
        return Located(mapping, here)
    if isinstance(node, yaml.SequenceNode):
        items = [_located(item, place, f"{path}[{i}]", problems) for i, item in enumerate(node.value)]
        return Located(items, here)
    assert isinstance(node, yaml.ScalarNode)
    return Located(_scalar(node), here)


def _compose(text: str, what: str, place: str | None, problems: list[str]) -> Located:
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark and not place else ""
        raise NmtError(f"{what}{where}: not valid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise NmtError(f"{what}: not valid YAML: {error}") from None
    if node is None:
        return Located({} if not place else None, place or "line 1")
    return _located(node, place, "", problems)


def _override(tree: Located, override: str, problems: list[str]) -> None:
    """Set `section.key=value` in the tree, making sections on the way where they are missing."""
    key, equals, text = override.partition("=")
    place = f"override {key}"
    if not equals or not key:
        problems.append(f"override {override!r}: write it as section.key=value")
        return
    try:
        value = _compose(text, f"override {override!r}", place, problems)
    except NmtError as error:
        problems.append(str(error))
        return
    *sections, last = key.split(".")
    for name in sections:
        if not isinstance(tree.value, dict):
            break
        child = tree.value.get(name)
        if child is None or child.value is None:
            child = tree.value[name] = Located({}, place)
        tree = child
    if not isinstance(tree.value, dict):
        problems.append(f"{place}: {key.rpartition('.')[0]} is not a mapping here: give its value whole")
        return
    tree.value[last] = value


# --------------------------------------------------------------------------- typed values


def _shown(value: object) -> str:
    return yaml.safe_dump(value, default_flow_style=True, allow_unicode=True).removesuffix("...\n").strip()


def _plain(located: Located) -> object:
    if isinstance(located.value, dict):
        return {key: _plain(child) for key, child in located.value.items()}
    if isinstance(located.value, list):
        return [_plain(child) for child in located.value]
    return located.value


def type_name(annotation: Any) -> str:
    """A setting's type in the words of the messages and the reference (`whole number`, `a | b`)."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(type_name(argument) for argument in arguments)
    if origin is tuple:
        inner = type_name(arguments[0])
        return f"list of {inner}" if arguments[-1] is Ellipsis else f"list of {len(arguments)} {inner}s"
    if dataclasses.is_dataclass(annotation):
        return "mapping"
    names = {str: "text", int: "whole number", float: "number", bool: "true | false", type(None): "null"}
    return names[annotation]


class _Mismatch(Exception):
    """A value is not of the type; carries the place and what was wrong."""


class _Reader:
    """Reads typed values out of a located tree and collects what is wrong."""

    def __init__(self, root: type, problems: list[str]):
        self.root, self.problems = root, problems
        self.broken = False  # some setting has no value to go on with; an unknown name alone breaks nothing

    def _break(self, problem: str) -> None:
        self.broken = True
        self.problems.append(problem)

    def mapping(self, declaration: type[T], located: Located, path: str) -> T | None:
        """A dataclass from a mapping; None once any setting had no usable value."""
        prefix = f"{path}." if path else ""
        if not isinstance(located.value, dict):
            self._break(f"{located.place}: {path} must be a mapping, not {_shown(_plain(located))}")
            return None
        hints = typing.get_type_hints(declaration)
        fields = {field.name: field for field in dataclasses.fields(declaration)}  # type: ignore[arg-type]
        for key, child in located.value.items():
            if key not in fields:
                self.problems.append(
                    f"{child.place}: {prefix}{key}: unknown setting{self._suggestion(key, list(fields), prefix)}"
                )
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name not in located.value:
                if field.default is dataclasses.MISSING:
                    what = field.metadata["meaning"]
                    self._break(f"{located.place}: {prefix}{name} is missing ({what})")
                continue
            values[name] = self._setting(field, hints[name], located.value[name], prefix + name)
        return None if self.broken else declaration(**values)

    def _setting(self, field: "dataclasses.Field[Any]", annotation: Any, located: Located, path: str) -> Any:
        try:
            value = self._value(annotation, located, path)
        except _Mismatch:
            self._break(f"{located.place}: {path} must be {type_name(annotation)}, not {_shown(_plain(located))}")
            return None
        for number in value if isinstance(value, tuple) else (value,):
            for name, bound in field.metadata["bounds"].items():
                if isinstance(number, int | float) and not _within(number, name, bound):
                    self._break(f"{located.place}: {path} must be {name} {bound:g}, not {number:g}")
        return value

    def _value(self, annotation: Any, located: Located, path: str) -> Any:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        value = located.value
        if origin in (types.UnionType, typing.Union):
            if value is None and type(None) in arguments:
                return None
            rest = [argument for argument in arguments if argument is not type(None)]
            for argument in rest[:-1]:
                try:
                    return self._value(argument, located, path)
                except _Mismatch:
                    continue
            return self._value(rest[-1], located, path)
        if dataclasses.is_dataclass(annotation):
            return self.mapping(typing.cast(type, annotation), located, path)
        if origin is tuple:
            if not isinstance(value, list) or (arguments[-1] is not Ellipsis and len(value) != len(arguments)):
                raise _Mismatch
            return tuple(self._value(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
        if origin is Literal:
            if value not in arguments or isinstance(value, bool):
                raise _Mismatch
            return value
        if annotation is float and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if type(value) is not annotation:
            raise _Mismatch
        return value

    def _suggestion(self, key: str, known: list[str], prefix: str) -> str:
        elsewhere = [path for path in setting_paths(self.root) if path.rpartition(".")[2] == key]
        if elsewhere:
            return f"; did you mean {elsewhere[0]}?"
        close = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
        if close:
            return f"; did you mean {prefix}{close[0]}?"
        return f"; {prefix.rstrip('.') or 'the file'} takes {', '.join(known)}"


def _within(number: float, name: str, bound: float) -> bool:
    match name:
        case "at least":
            return number >= bound
        case "above":
            return number > bound
        case "at most":
            return number <= bound
    return number < bound


def setting_paths(declaration: type, prefix: str = "") -> Iterator[str]:
    """Every setting's dotted path, sections opened, in the order declared."""
    hints = typing.get_type_hints(declaration)
    for field in dataclasses.fields(declaration):
        path = prefix + field.name
        if dataclasses.is_dataclass(hints[field.name]):
            yield from setting_paths(typing.cast(type, hints[field.name]), f"{path}.")
        else:
            yield path


def parse(declaration: type[T], text: str, what: str, overrides: Sequence[str] = ()) -> T:
    """Read `declaration` from YAML text, the overrides (`section.key=value`) laid over it.

    Raises NmtError with every problem found, each on a line with its place; `what` names the text.
    """
    problems: list[str] = []
    tree = _compose(text, what, None, problems)
    if not isinstance(tree.value, dict):
        raise NmtError(f"{what}: must hold a mapping of settings, not {_shown(_plain(tree))}")
    for override in overrides:
        _override(tree, override, problems)
    value = _Reader(declaration, problems).mapping(declaration, tree, "")
    check = getattr(value, "impossible", None)
    if check is not None:
        problems.extend(check())
    if problems:
        raise NmtError(report(what, problems))
    assert value is not None
    return value


def report(what: str, problems: Sequence[str]) -> str:
    """One message for all the problems: a line if there is one, else a headed list."""
    if len(problems) == 1:
        return f"{what}: {problems[0]}"
    return f"{what}: {len(problems)} problems\n" + "\n".join(f"  {problem}" for problem in problems)


def load(declaration: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """`parse` for a file. Raises NmtError where it can't be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NmtError(f"{path}: no such file: give the path of a YAML file of settings") from None
    except UnicodeDecodeError as error:
        raise NmtError(f"{path}: not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror}") from None
    return parse(declaration, text, str(path), overrides)


def to_yaml(value: Any) -> str:
    """The dataclass as YAML that `parse` reads back to an equal value."""
    return yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True)


def plain(value: Any) -> Any:
    """The dataclass as dicts, lists and scalars."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def differences(old: Any, new: Any) -> list[str]:
    """`path: old -> new` for each setting in which two values of one declaration differ."""
    rows = []
    for path in setting_paths(type(new)):
        before, after = old, new
        for name in path.split("."):
            before, after = getattr(before, name), getattr(after, name)
        if before != after:
            rows.append(f"{path}: {_shown(plain(before))} -> {_shown(plain(after))}")
    return rows


def reference(declaration: type) -> str:
    """The Markdown tables of every setting: key, type, default, meaning."""
    hints = typing.get_type_hints(declaration)
    rows, inner = [], []
    for field in dataclasses.fields(declaration):
        annotation = hints[field.name]
        if dataclasses.is_dataclass(annotation):
            table = reference(typing.cast(type, annotation))
            inner.append(f"## {field.name}\n\n{field.metadata['meaning']}\n\n{table}")
            continue
        for nested in filter(dataclasses.is_dataclass, typing.get_args(annotation)):
            title_of_nested = f"### {typing.cast(type, nested).__name__}"
            if not any(part.startswith(title_of_nested) for part in inner):
                about = inspect.cleandoc(nested.__doc__ or "")
                inner.append(f"{title_of_nested}\n\n{about}\n\n{reference(typing.cast(type, nested))}")
        default = "**required**" if field.default is dataclasses.MISSING else f"`{_shown(plain(field.default))}`"
        limits = ", ".join(f"{name} {bound:g}" for name, bound in field.metadata["bounds"].items())
        kind = f"{type_name(annotation)}{f', {limits}' if limits else ''}".replace("|", "\\|")
        rows.append(f"| `{field.name}` | {kind} | {default} | {field.metadata['meaning']} |")
    head = "| setting | type | default | meaning |\n| --- | --- | --- | --- |\n"
    parts = [head + "\n".join(rows) + "\n"] if rows else []
    return "\n".join(parts + inner)
