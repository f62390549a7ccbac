"""How settings are declared: frozen dataclasses whose fields carry a default, a meaning and a range."""

import dataclasses
import operator
import types
import typing
from collections.abc import Hashable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")


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
    """Declare a setting: its default, its meaning in one line, and the range of its number.

    The annotation of the field is its type. path: a file or a folder; `~` is the user's home.
    """
    bounds = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    given = {name: bound for name, bound in bounds.items() if bound is not None}
    return dataclasses.field(default=default, metadata={"meaning": meaning, "bounds": given, "path": path})


def required(meaning: str, *, path: bool = False) -> Any:
    """Declare a setting without a default: leaving it out is an error. path: as in `setting`."""
    return dataclasses.field(metadata={"meaning": meaning, "bounds": {}, "path": path})


def section(declaration: type[T], meaning: str) -> T:
    """Declare a section: a frozen dataclass of settings, read from a nested mapping.

    The annotation of the field may be a union of declarations, of which this is the default. Their first setting, a
    choice of the same name in all, decides which one is read.
    """
    if any(own.required for own in settings(declaration).values()):
        return typing.cast(T, required(meaning))
    return setting(declaration(), meaning)


class Setting(NamedTuple):
    """A setting or a section, as it is declared; `path` and `bounds` as in `setting`."""

    type: Any
    default: Any
    meaning: str
    bounds: Mapping[str, float]
    path: bool

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def variants(self) -> tuple[Any, ...]:
        """The declarations of a section; none if this is no section."""
        union = typing.get_origin(self.type) in (types.UnionType, typing.Union)
        kinds = typing.get_args(self.type) if union else (self.type,)
        return kinds if all(map(dataclasses.is_dataclass, kinds)) else ()

    @property
    def is_section(self) -> bool:
        return bool(self.variants)

    @property
    def choice(self) -> str | None:
        """Of a section: the setting that decides which of several declarations is read; None if there is only one."""
        return next(iter(settings(self.variants[0]))) if len(self.variants) > 1 else None

    @property
    def expected(self) -> str:
        """Its type and range in words."""
        limits = [f"{name} {limit:{',' if isinstance(limit, int) else 'g'}}" for name, limit in self.bounds.items()]
        return ", ".join([type_name(self.type), *limits])

    def allows(self, number: float) -> bool:
        """Whether a number is in the range."""
        within = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}
        return all(within[name](number, limit) for name, limit in self.bounds.items())


def settings(declaration: type) -> Mapping[str, Setting]:
    """The settings and sections of a declaration itself, by name, in the order declared."""
    return _settings(typing.cast(Hashable, declaration))  # mypy does not know that types can be hashed


@cache  # the type hints of all sections take 10 ms, and are needed whenever settings are read
def _settings(declaration: Any) -> Mapping[str, Setting]:
    hints, fields = typing.get_type_hints(declaration), dataclasses.fields(declaration)
    return {field.name: Setting(hints[field.name], field.default, **field.metadata) for field in fields}


def all_settings(declaration: type) -> dict[str, Setting]:
    """Every setting of a declaration and its sections, by dotted path. If a section has several declarations, their
    settings are joined: where they have one name, the first declaration's counts."""
    found: dict[str, Setting] = {}
    for name, own in settings(declaration).items():
        for variant in own.variants:
            for path, inner in all_settings(variant).items():
                found.setdefault(f"{name}.{path}", inner)
        if not own.is_section:
            found[name] = own
    return found


def type_name(annotation: Any) -> str:
    """A type in the words of the messages and the reference (`whole number`, `a | b`)."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(type_name(argument) for argument in arguments)
    if origin is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        return f"list of {count}{type_name(arguments[0])}s"
    if origin is Mapping:
        return f"mapping of names to {type_name(arguments[1])}s"
    if dataclasses.is_dataclass(annotation):
        return "mapping"
    names = {str: "text", int: "whole number", float: "number", bool: "true | false", type(None): "null"}
    return names[annotation]
