"""Read settings strictly from YAML. All problems are reported together, each with its location.

This module is independent of translation: it reads a declaration (`nmt.config.declaration`) and returns a typed value,
or raises an error with the list of problems.
"""

import contextlib
import dataclasses
import math
import os
import re
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from nmt.config import located_yaml, writer
from nmt.config.declaration import Setting, Text, all_settings, settings
from nmt.config.located_yaml import Node, shortened
from nmt.config.suggestions import settings_like
from nmt.errors import NmtError
from nmt.files.text import reading

T = TypeVar("T")
_LONGEST = 2**20  # characters of a file; reading more takes many seconds
LONGEST_IN_FULL = 32 * _LONGEST  # with all defaults, as in a model file
_MOST_PROBLEMS = 50  # shown of one file
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]"
)  # never part of a language, path or name; some have no UTF-8


def read_text(path: Path) -> str:
    """The text of a settings file. Raises NmtError if it cannot be read or is too long to be settings."""
    try:
        with reading(path), path.open(encoding="utf-8-sig") as file:
            text = file.read(_LONGEST + 1)  # so that a corpus that is given by mistake is not read completely
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise NmtError(f"{path}: line {line}: not UTF-8 text: save the file as UTF-8") from None
    check_length(text, str(path))
    return text


def check_length(text: str, name: str, longest: int = _LONGEST) -> None:
    """Raises NmtError for a text that is too long to be settings."""
    if len(text) > longest:
        raise NmtError(f"{name}: too long: settings have at most {longest:,} characters")


def parse(declaration: type[T], text: str, name: str, overrides: Sequence[str] = ()) -> T:
    """Read `declaration` from YAML text. Overrides (`section.key=value`) replace its values; later ones replace earlier
    ones.

    A declaration may have a method `conflicts`, which returns messages on values that do not go together. Raises
    NmtError with all problems, each on a line with its location. name: of the text, in messages.
    """
    problems: list[str] = []
    try:
        tree = located_yaml.read(text, problems)
    except NmtError as error:
        raise NmtError(f"{name}: {error}") from None
    tree = Node({}, "", "") if tree.value is None else tree
    if not isinstance(tree.value, dict):
        raise NmtError(f"{name}: expected settings, each as key: value; found {tree.written}")
    return _read(declaration, tree, name, overrides, problems)


def override(value: T, name: str, overrides: Sequence[str]) -> T:
    """The dataclass with overrides. The result is equal to `parse` of its text, and faster.

    Raises NmtError as `parse` does."""
    return _read(type(value), _tree(writer.to_dict(value)), name, overrides, [])


def from_dict(declaration: type[T], values: Mapping[str, Any], name: str, overrides: Sequence[str] = ()) -> T:
    """Read `declaration` from dicts, lists, scalars and paths, as `parse` does from their YAML text."""
    return _read(declaration, _tree(values), name, overrides, [])


def _read(declaration: type[T], tree: Node, name: str, overrides: Sequence[str], problems: list[str]) -> T:
    for argument in overrides:
        _override(tree, argument, problems)
    value = _Reader(declaration, problems).mapping(declaration, tree, "")
    problems.extend(getattr(value, "conflicts", list)())
    if problems:
        raise NmtError(error_text(name, problems))
    assert value is not None
    return value


def _tree(value: Any) -> Node:
    """Dicts, lists and scalars as nodes."""
    if isinstance(value, Mapping):
        return Node({str(key): _tree(item) for key, item in value.items()}, "a mapping", "")
    if isinstance(value, list | tuple):
        items = [_tree(item) for item in value]
        return Node(list(items), shortened(f"[{', '.join(item.written for item in items)}]"), "")
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is None or isinstance(value, bool):
        return Node(value, "null" if value is None else str(value).lower(), "")
    return Node(value, shortened(str(value)), "")


def error_text(name: str, problems: Sequence[str]) -> str:
    """One message for the problems: a line for one problem, else a heading and a list of the first 50."""
    if len(problems) == 1:
        return f"{name}: {problems[0]}"
    shown = [f"  {problem}" for problem in problems[:_MOST_PROBLEMS]]
    if len(problems) > _MOST_PROBLEMS:
        shown.append("  …")
    return "\n".join([f"{name}: {len(problems)} problems", *shown])


def _override(tree: Node, override: str, problems: list[str]) -> None:
    """Set `section.key=value` in the tree. Missing sections are added."""
    key, equals, text = override.partition("=")
    *sections, last = key.split(".")
    if not equals or not last or not all(sections):
        problems.append(f"override {shortened(override)!r}: write it as section.key=value")
        return
    try:
        value = located_yaml.read(text, problems, path=key, where="override ")
        if value.value is None and value.written == "nothing":  # usually due to a shell variable that is not set
            raise NmtError("the value after = is missing")
    except NmtError as error:
        problems.append(f"override {shortened(override)!r}: {error}")
        return
    if re.search(r"\[\d+\]", key):
        whole = key.partition("[")[0]
        problems.append(f"override {shortened(key)}: a list can only be replaced as a whole: {shortened(whole)}=[…]")
        return
    for i, name in enumerate(sections):
        assert isinstance(tree.value, dict)
        child = tree.value.get(name)
        if child is None or child.value is None:
            child = tree.value[name] = Node({}, "a mapping", "override ")
        if not isinstance(child.value, dict):
            above = ".".join(sections[: i + 1])
            problems.append(f"override {key}: {above} is {child.written}, not a mapping: override {above} as a whole")
            return
        tree = child
    assert isinstance(tree.value, dict)
    tree.value[last] = value


class _Mismatch(Exception):
    """A value does not have its type. Arguments for an item of a list: its path, its type and the item."""


class _Reader:
    """Reads typed values from a tree of nodes and collects problems."""

    def __init__(self, root: type, problems: list[str]):
        self.root, self.problems = root, problems
        self.broken = False  # whether a setting has no usable value; an unknown name alone does not count

    def _break(self, problem: str) -> None:
        self.broken = True
        self.problems.append(problem)

    def mapping(self, declaration: type[T], node: Node, path: str, others: Mapping[str, str] | None = None) -> T | None:
        """Read a dataclass from a mapping. Returns None if any value so far was unusable.

        others: explanations for settings that exist only in other declarations, by name.
        """
        prefix = f"{path}." if path else ""
        children = {} if node.value is None else node.value
        if not isinstance(children, dict):
            self._break(f"{node.where}{path}: expected mapping; found {node.written}")
            return None
        declared = settings(declaration)
        values: dict[str, Any] = {}
        for key, child in children.items():
            if key in declared:
                values[key] = self._setting(declared[key], child, prefix + key, declared)
            else:
                shown = len(self.problems) < _MOST_PROBLEMS
                advice = (others or {}).get(key) or (self._suggestion(key, list(declared), path) if shown else "")
                self.problems.append(f"{child.where}{prefix}{shortened(key)}: unknown setting{advice}")
        missing = {name: own for name, own in declared.items() if own.required and name not in children}
        for name, own in missing.items():
            if own.is_section:  # report its own required settings
                self.mapping(own.variants[0], Node({}, "", ""), prefix + name)
            else:
                self._break(f"{prefix}{name} is missing ({own.meaning})")
        return None if self.broken else declaration(**values)

    def _variant(self, section: Setting, name: str, node: Node, path: str) -> Any:
        """Read the declaration that the setting `name` chooses; see `declaration.section`."""
        choices = dict[Any, Any]()
        for declaration in section.variants:
            choices |= dict.fromkeys(typing.get_args(settings(declaration)[name].type), declaration)
        child = node.value.get(name) if isinstance(node.value, dict) else None
        if child is not None and (not isinstance(child.value, str) or child.value not in choices):
            remedies = []
            for value, declaration in choices.items():
                keys = _with_choice(child.value, settings(declaration))
                remedies += [f": set {path}.{name}={value} and {path}.{key}={child.value}" for key in keys]
            advice = remedies[0] if len(remedies) == 1 else ""
            self._break(f"{child.where}{path}.{name}: expected {' | '.join(choices)}; found {child.written}{advice}")
            return None
        chosen = next(iter(choices)) if child is None else child.value
        others = dict[str, str]()
        for value, declaration in reversed(choices.items()):
            advice = f" of {path}.{name}: {chosen}; {value} has it: delete it, or set {path}.{name}={value}"
            others |= dict.fromkeys(settings(declaration), advice)
        return self.mapping(choices[chosen], node, path, others)

    def _setting(self, setting: Setting, node: Node, path: str, beside: Mapping[str, Setting]) -> Any:
        """The value of the setting at `path`; beside: all settings of its section."""
        if setting.choice:
            return self._variant(setting, setting.choice, node, path)
        try:
            value = self._value(setting.type, node, path)
            several = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else (value,)
            for item in several:
                if isinstance(item, int | float) and not setting.allows(item):
                    raise _Mismatch
        except _Mismatch as mismatch:
            path, annotation, node = mismatch.args or (path, setting.type, node)
            text = node.value if str in (annotation, *typing.get_args(annotation)) else None
            if isinstance(text, str) and (character := _CONTROL.search(text)):
                remedy = "rename the file or folder" if setting.path else "leave it out"
                problem = f"{shortened(repr(text))} has {_name(character[0])}"
                self._break(f"{node.where}{path}: {problem}, which is not allowed in a setting: {remedy}")
                return None
            expected = setting._replace(type=annotation).expected
            advice = _advice(annotation, node) or _choice_of_another(annotation, node, path, beside)
            self._break(f"{node.where}{path}: expected {expected}; found {node.written}{advice}")
            return None
        if setting.path and isinstance(value, dict):
            return {key: self._expanded(item, node, f"{path}.{key}") for key, item in value.items()}
        return self._expanded(value, node, path) if setting.path else value

    def _expanded(self, value: Any, node: Node, path: str) -> Any:
        """The path of a file, with the user's home instead of `~`; other values as they are."""
        if not (isinstance(value, str) and value.startswith("~")):
            return value
        expanded = os.path.expanduser(value)  # noqa: PTH111 (Path would change the rest of the text)
        if expanded.startswith("~"):
            user = value[1:].partition("/")[0]
            self._break(f"{node.where}{path}: {value}: no user {user} on this machine; for a file, write ./{value}")
        return expanded

    def _value(self, annotation: Any, node: Node, path: str) -> Any:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        value = node.value
        if origin in (types.UnionType, typing.Union):
            if value is None and type(None) in arguments:
                return None
            kinds = [kind for kind in arguments if kind is not type(None)]
            for kind in kinds[:-1]:
                with contextlib.suppress(_Mismatch):
                    return self._value(kind, node, path)
            if dataclasses.is_dataclass(kinds[-1]) and not isinstance(value, dict):
                raise _Mismatch  # so that the message names all kinds
            return self._value(kinds[-1], node, path)
        if dataclasses.is_dataclass(annotation):
            return self.mapping(typing.cast(type, annotation), node, path)
        if origin is tuple:
            if not isinstance(value, list) or (arguments[-1] is not Ellipsis and len(value) != len(arguments)):
                raise _Mismatch
            read = self._item if arguments[-1] is Ellipsis else self._value
            return tuple(read(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
        if origin is Mapping:
            if not isinstance(value, dict):
                raise _Mismatch
            return {key: self._item(arguments[1], item, f"{path}.{key}") for key, item in value.items()}
        if origin is Literal:
            if value not in arguments:
                raise _Mismatch
            return value
        if annotation is Any:
            return _plain(node)
        if annotation is Text and isinstance(value, str) and value.strip():
            if _CONTROL.search(value.replace("\n", "").replace("\t", "")):
                raise _Mismatch
            return Text(value)
        if annotation is float and type(value) is int:
            return float(value)
        if type(value) is not annotation or (isinstance(value, float) and not math.isfinite(value)):
            raise _Mismatch
        if isinstance(value, str) and (not value.strip() or _CONTROL.search(value)):
            raise _Mismatch
        return value

    def _item(self, annotation: Any, node: Node, path: str) -> Any:
        """An item of a list of any length, or of a mapping. Messages name the item, not the whole."""
        try:
            return self._value(annotation, node, path)
        except _Mismatch as mismatch:
            raise _Mismatch(*(mismatch.args or (path, annotation, node))) from None

    def _suggestion(self, key: str, keys: list[str], path: str) -> str:
        """A hint for an unknown key of the section at `path`. keys: the keys of that section."""
        here = [f"{path}.{name}" if path else name for name in keys]
        anywhere = list(all_settings(self.root))
        if not path and key in anywhere:
            name, _, last = key.partition(".")
            return f"; write it as {name}: {{{last}: …}}"
        if meant := settings_like(shortened(key), here, anywhere):
            return f"; did you mean {' or '.join(meant)}?"
        return f"; {f'{path} takes' if path else 'known settings:'} {', '.join(keys)}"


def _plain(node: Node) -> Any:
    """The value of a node and of those in it."""
    if isinstance(node.value, dict):
        return {key: _plain(child) for key, child in node.value.items()}
    return [_plain(child) for child in node.value] if isinstance(node.value, list) else node.value


def _advice(annotation: Any, node: Node) -> str:
    """A hint on how to write a value that does not have its type; empty if there is none."""
    kinds = (annotation, *typing.get_args(annotation))
    if isinstance(node.value, int | float) and str in kinds:
        return ": put it in quotes"
    if isinstance(node.value, bool) and type(None) in kinds and any(map(dataclasses.is_dataclass, kinds)):
        return ": write {} for the defaults, null for none"
    item_type = typing.get_args(annotation)[0] if typing.get_origin(annotation) is tuple else None
    is_item = isinstance(node.value, str) if item_type is str else isinstance(node.value, dict)
    if item_type is not None and is_item:
        return ": put it in [ ]"
    if isinstance(node.value, float) and int in kinds and not re.search("[.eE]", node.written):
        return f": a whole number has at most {located_yaml.MOST_DIGITS} digits"
    return ""


def _name(control: str) -> str:
    """The name of a control character in messages."""
    kind = {"\n": "a line break", "\r": "a carriage return", "\t": "a tab"}.get(control, "a control character")
    return f"{kind} (U+{ord(control):04X})"


def _choice_of_another(annotation: Any, node: Node, path: str, beside: Mapping[str, Setting]) -> str:
    """A hint if the value of the setting at `path` is a choice of exactly one other setting of the section."""
    if typing.get_origin(annotation) is not Literal or not isinstance(node.value, str) or node.value == "none":
        return ""  # "none" means to disable this setting, not a choice of another setting
    takers = _with_choice(node.value, beside)
    return f": set {path[: path.rfind('.') + 1]}{takers[0]}={node.value}" if len(takers) == 1 else ""


def _with_choice(value: object, section: Mapping[str, Setting]) -> list[str]:
    """The settings of the section that have `value` as a choice."""
    return [name for name, own in section.items() if value in typing.get_args(own.type)]
