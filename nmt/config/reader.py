"""Frozen dataclasses read strictly from YAML: every problem in one report, each with its place.

Knows nothing of translation: a declaration (`setting`) goes in, a typed value or a list of problems
comes out, and the same declaration prints the reference of every setting.
"""

import contextlib
import dataclasses
import difflib
import inspect
import math
import os
import re
import types
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from nmt.config import located_yaml
from nmt.config.located_yaml import Located, shortened
from nmt.errors import NmtError, no_such_file

T = TypeVar("T")
_MOST_PROBLEMS = 50  # that are shown of a file


def setting(
    default: T,
    meaning: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    path: bool = False,
) -> T:
    """Declare a setting: its default, its meaning in one line, and the range its number lies in.

    The annotation beside it is its type. path: a file or a folder, for which `~` stands for the user's home.
    """
    bounds = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    metadata = {"meaning": meaning, "bounds": given, "path": path}
    return dataclasses.field(default=default, metadata=metadata)


def required(meaning: str, *, path: bool = False) -> Any:
    """Declare a setting without a default, of which leaving it out is an error. path: as in `setting`."""
    return dataclasses.field(metadata={"meaning": meaning, "bounds": {}, "path": path})


def section(declaration: type[T], meaning: str) -> T:
    """Declare a section: a frozen dataclass of settings, read from a nested mapping."""
    if any(field.default is dataclasses.MISSING for field in dataclasses.fields(declaration)):  # type: ignore[arg-type]
        return typing.cast(T, required(meaning))
    return setting(declaration(), meaning)


# --------------------------------------------------------------------------- overrides


def _override(tree: Located, override: str, problems: list[str]) -> None:
    """Set `section.key=value` in the tree, making sections on the way where they are missing."""
    key, equals, text = override.partition("=")
    *sections, last = key.split(".")
    if not equals or not last or not all(sections):
        problems.append(f"override {shortened(override)!r}: write it as section.key=value")
        return
    try:
        value = located_yaml.read(text, problems, path=key, where="override ")
    except NmtError as error:
        problems.append(f"override {shortened(override)!r}: {error}")
        return
    for i, name in enumerate(sections):
        assert isinstance(tree.value, dict)
        child = tree.value.get(name)
        if child is None or child.value is None:
            child = tree.value[name] = Located({}, "a mapping", "override ")
        if not isinstance(child.value, dict):
            above = ".".join(sections[: i + 1])
            problems.append(f"override {key}: {above} is {child.written}, not a mapping: override {above} as a whole")
            return
        tree = child
    assert isinstance(tree.value, dict)
    tree.value[last] = value


# --------------------------------------------------------------------------- typed values

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")  # in no language, path or name; some have no UTF-8


def type_name(annotation: Any) -> str:
    """A setting's type in the words of the messages and the reference (`whole number`, `a | b`)."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(type_name(argument) for argument in arguments)
    if origin is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        return f"list of {count}{type_name(arguments[0])}s"
    if dataclasses.is_dataclass(annotation):
        return "mapping"
    names = {str: "text", int: "whole number", float: "number", bool: "true | false", type(None): "null"}
    return names[annotation]


def _expected(field: "dataclasses.Field[Any]", annotation: Any) -> str:
    """The type of a setting with the range of its number."""
    bounds = field.metadata["bounds"]
    limits = (f"{name} {bound:,}" if isinstance(bound, int) else f"{name} {bound:g}" for name, bound in bounds.items())
    return ", ".join([type_name(annotation), *limits])


class _Mismatch(Exception):
    """A value is not of the type; of an item of a list: its path, its type and itself."""


class _Reader:
    """Reads typed values out of a located tree and collects what is wrong."""

    def __init__(self, root: type, problems: list[str]):
        self.root, self.problems = root, problems
        self.broken = False  # some setting has no value to go on with; an unknown name alone breaks nothing

    def _break(self, problem: str) -> None:
        self.broken = True
        self.problems.append(problem)

    def mapping(self, declaration: type[T], located: Located, path: str) -> T | None:
        """A dataclass from a mapping, all of whose settings may be left out; None once any was unusable."""
        prefix = f"{path}." if path else ""
        given = {} if located.value is None else located.value
        if not isinstance(given, dict):
            self._break(f"{located.where}{path}: expected mapping; found {located.written}")
            return None
        hints = typing.get_type_hints(declaration)
        fields = {field.name: field for field in dataclasses.fields(declaration)}  # type: ignore[arg-type]
        values: dict[str, Any] = {}
        for key, child in given.items():
            if key in fields:
                values[key] = self._setting(fields[key], hints[key], child, prefix + key)
            else:
                few = len(self.problems) < _MOST_PROBLEMS  # each suggestion takes milliseconds
                mend = self._suggestion(key, list(fields), path) if few else ""
                self.problems.append(f"{child.where}{prefix}{shortened(key)}: unknown setting{mend}")
        for name, field in fields.items():
            if name in given or field.default is not dataclasses.MISSING:
                continue
            if dataclasses.is_dataclass(hints[name]):  # what is missing is what has to be in it
                self.mapping(typing.cast(type, hints[name]), Located({}, "", ""), prefix + name)
            else:
                self._break(f"{prefix}{name} is missing ({field.metadata['meaning']})")
        return None if self.broken else declaration(**values)

    def _setting(self, field: "dataclasses.Field[Any]", annotation: Any, located: Located, path: str) -> Any:
        try:
            value = self._value(annotation, located, path)
            for number in value if isinstance(value, tuple) else (value,):
                bounds = field.metadata["bounds"] if isinstance(number, int | float) else {}
                if not all(_within(number, name, bound) for name, bound in bounds.items()):
                    raise _Mismatch
        except _Mismatch as mismatch:
            path, annotation, located = mismatch.args or (path, annotation, located)
            mend = ""
            if isinstance(located.value, int | float) and str in (annotation, *typing.get_args(annotation)):
                mend = ": put it in quotes"
            if isinstance(located.value, dict) and typing.get_origin(annotation) is tuple:
                mend = ": put it in [ ]"
            expected = _expected(field, annotation)
            self._break(f"{located.where}{path}: expected {expected}; found {located.written}{mend}")
            return None
        if field.metadata["path"] and isinstance(value, str) and value.startswith("~"):
            whole = os.path.expanduser(value)  # noqa: PTH111 (Path would change the rest of the text)
            if whole.startswith("~"):
                named = (
                    f"no user {value[1:].partition('/')[0]} on this machine; for a file of that name write ./{value}"
                )
                self._break(f"{located.where}{path}: {value}: {named}")
            return whole
        return value

    def _value(self, annotation: Any, located: Located, path: str) -> Any:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        value = located.value
        if origin in (types.UnionType, typing.Union):
            if value is None and type(None) in arguments:
                return None
            kinds = [kind for kind in arguments if kind is not type(None)]
            for kind in kinds[:-1]:
                with contextlib.suppress(_Mismatch):
                    return self._value(kind, located, path)
            return self._value(kinds[-1], located, path)
        if dataclasses.is_dataclass(annotation):
            return self.mapping(typing.cast(type, annotation), located, path)
        if origin is tuple:
            if not isinstance(value, list) or (arguments[-1] is not Ellipsis and len(value) != len(arguments)):
                raise _Mismatch
            if arguments[-1] is Ellipsis:
                return tuple(self._item(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
            return tuple(self._value(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
        if origin is Literal:
            if value not in arguments:
                raise _Mismatch
            return value
        if annotation is float and type(value) is int:
            return float(value)
        if type(value) is not annotation or (isinstance(value, float) and not math.isfinite(value)):
            raise _Mismatch
        if isinstance(value, str) and (not value.strip() or _CONTROL.search(value)):
            raise _Mismatch
        return value

    def _item(self, annotation: Any, located: Located, path: str) -> Any:
        """The value of an item in a list of any length."""
        try:
            return self._value(annotation, located, path)
        except _Mismatch as mismatch:
            raise _Mismatch(*(mismatch.args or (path, annotation, located))) from None

    def _suggestion(self, key: str, known: list[str], path: str) -> str:
        """What may be meant by an unknown key of the section at `path`, which takes the keys `known`."""
        here = [f"{path}.{name}" if path else name for name in known]
        paths = list(dict.fromkeys([*here, *setting_paths(self.root)]))
        if not path and key in paths:
            name, _, last = key.partition(".")
            return f"; write it as {name}: {{{last}: …}}"
        plain = shortened(key).lower().replace("-", "_")

        def likeness(candidate: str) -> float:
            name = candidate.rpartition(".")[2]
            as_path, as_name = (difflib.SequenceMatcher(None, plain, x).ratio() for x in (candidate, name))
            return max(as_path, max(as_name, 0.75 * name.startswith(plain)) + 0.15 * (candidate in here))

        best = max(map(likeness, paths))
        if best < 0.78:
            return f"; {path or 'the file'} takes {', '.join(known)}"
        return f"; did you mean {' or '.join(name for name in paths if likeness(name) == best)}?"


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
    """Read `declaration` from YAML text, the overrides (`section.key=value`) laid over it, the last one on top.

    Raises NmtError with every problem found, each on a line with its place; `what` names the text.
    """
    problems: list[str] = []
    try:
        tree = located_yaml.read(text, problems)
    except NmtError as error:
        raise NmtError(f"{what}: {error}") from None
    if tree.value is None:
        tree = Located({}, "", "")
    if not isinstance(tree.value, dict):
        raise NmtError(f"{what}: expected settings, each as key: value; found {tree.written}")
    for override in overrides:
        _override(tree, override, problems)
    value = _Reader(declaration, problems).mapping(declaration, tree, "")
    check = getattr(value, "conflicts", None)
    if check is not None:
        problems.extend(check())
    if problems:
        raise NmtError(report(what, problems))
    assert value is not None
    return value


def report(what: str, problems: Sequence[str]) -> str:
    """One message for the problems, the first ones if they are many: a line if there is one, else a headed list."""
    if len(problems) == 1:
        return f"{what}: {problems[0]}"
    shown = [f"  {problem}" for problem in problems[:_MOST_PROBLEMS]]
    return "\n".join([f"{what}: {len(problems)} problems", *shown, *["  …"] * (len(problems) > _MOST_PROBLEMS)])


def load(declaration: type[T], path: Path, overrides: Sequence[str] = ()) -> T:
    """`parse` for a file. Raises NmtError where it can't be read."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise NmtError(f"{no_such_file(path)}: give the path of a YAML file of settings") from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise NmtError(f"{path}: line {line}: not UTF-8 text: save the file as UTF-8") from None
    except OSError as error:
        raise NmtError(f"{path}: cannot be read: {error.strerror}") from None
    return parse(declaration, text, str(path), overrides)


def to_yaml(value: Any) -> str:
    """The dataclass as YAML that `parse` reads back to an equal value."""
    return located_yaml.dump(to_dict(value))


def to_dict(value: Any, *, defaults: bool = True) -> Any:
    """The dataclass as dicts, lists and scalars; settings at their defaults left out if so asked."""
    if dataclasses.is_dataclass(value):
        held = [(field, getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {field.name: to_dict(x, defaults=defaults) for field, x in held if defaults or x != field.default}
    if isinstance(value, tuple):
        return [to_dict(item, defaults=defaults) for item in value]
    return value


def flatten(value: Any) -> dict[str, str]:
    """Every setting's dotted path and its value, as YAML in one line."""
    rows = {}
    for path in setting_paths(type(value)):
        held = value
        for name in path.split("."):
            held = getattr(held, name)
        rows[path] = _shown(held)
    return rows


def defaults(declaration: type) -> dict[str, str]:
    """Every setting's dotted path and its default, as YAML in one line; empty where there is none."""
    hints = typing.get_type_hints(declaration)
    rows: dict[str, str] = {}
    for field in dataclasses.fields(declaration):
        if dataclasses.is_dataclass(hints[field.name]):
            inner = defaults(typing.cast(type, hints[field.name]))
            rows |= {f"{field.name}.{path}": default for path, default in inner.items()}
        else:
            rows[field.name] = "" if field.default is dataclasses.MISSING else _shown(field.default)
    return rows


def differences(old: Any, new: Any) -> dict[str, tuple[str, str]]:
    """The settings in which two values of one declaration differ: path → both values, as YAML in one line."""
    before, after = flatten(old), flatten(new)
    return {path: (before[path], after[path]) for path in after if before[path] != after[path]}


def _shown(value: Any) -> str:
    return located_yaml.dump(to_dict(value, defaults=False), in_one_line=True)


def reference(declaration: type) -> str:
    """The Markdown tables of every setting: key, type, default, meaning."""
    hints = typing.get_type_hints(declaration)
    rows, inner = [], {}
    for field in dataclasses.fields(declaration):
        annotation = hints[field.name]
        if dataclasses.is_dataclass(annotation):
            table = reference(typing.cast(type, annotation))
            inner[field.name] = f"## {field.name}\n\n{field.metadata['meaning']}\n\n{table}"
            continue
        kind = _expected(field, annotation).replace("|", "\\|")
        for nested in filter(dataclasses.is_dataclass, typing.get_args(annotation)):
            name = typing.cast(type, nested).__name__
            about = inspect.cleandoc(nested.__doc__ or "")
            inner[name] = f"### {name}\n\n{about}\n\n{reference(typing.cast(type, nested))}"
            kind = re.sub("mappings?", f"[{name}](#{name.lower()})", kind)
        default = "**required**" if field.default is dataclasses.MISSING else f"`{_shown(field.default)}`"
        meaning = field.metadata["meaning"].replace("|", "\\|")
        rows.append(f"| `{field.name}` | {kind} | {default} | {meaning} |\n")
    head = "| setting | type | default | meaning |\n| --- | --- | --- | --- |\n"
    return "\n".join(["".join([head, *rows])] * bool(rows) + list(inner.values()))
