"""Declarations of settings: frozen dataclasses whose fields have a default, a meaning and a range."""

import dataclasses
import operator
import types
import typing
from collections.abc import Hashable, Iterator, Mapping
from functools import cache, partial
from typing import Any, Literal, NamedTuple, TypeVar

T = TypeVar("T")


class Text(str):
    """The type of a setting whose text may have several lines."""


# The results that a setting can affect, in the order in which a run makes them. Each depends on the results before it.
Result = Literal["text", "vocabulary", "tokens", "order", "model", "score"]
Affected = Result | Literal["nothing"] | tuple[Result, ...]


def setting(
    default: T,
    meaning: str,
    *,
    affects: Affected,
    by_content: bool = False,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    path: bool = False,
) -> T:
    """Declare a setting: its default, its meaning in one line, what it affects, and the range of its number.

    affects: the results of a run that would be different with another value. Keys of stored results are built from
    this, and it decides which settings a saved run can change:
        text        which pairs the cleaned training text has
        vocabulary  which subwords are learned from this text
        tokens      how the text is encoded with them
        order       which pairs each optimizer step is trained on
        model       the weights, the optimizer's state, and which of the weights are the best ones
        score       the validation scores: others cannot be compared with them
        nothing     none of these: a run can continue with another value

    The annotation of the field is its type. by_content: the value is a location, and only the content at the location
    matters. path: a file or a folder; `~` is the user's home.
    """
    limits = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    bounds = {name: bound for name, bound in limits.items() if bound is not None}
    return _declared(default, meaning, _results(affects), by_content, bounds, path)


free_setting = partial(setting, affects="nothing")
model_setting = partial(setting, affects="model")
score_setting = partial(setting, affects="score")


def required(meaning: str, *, affects: Affected, path: bool = False) -> Any:
    """Declare a setting without a default: leaving it out is an error. affects, path: as in `setting`."""
    return setting(typing.cast(Any, dataclasses.MISSING), meaning, affects=affects, path=path)


def _results(affects: Affected) -> frozenset[str]:
    results = frozenset((affects,) if isinstance(affects, str) else affects)
    if unknown := results - {"nothing", *typing.get_args(Result)}:
        raise ValueError(f"affects: unknown: {', '.join(sorted(unknown))}")
    return results - {"nothing"}


def section(declaration: type[T], meaning: str) -> T:
    """Declare a section: a frozen dataclass of settings, read from a nested mapping. It affects what they affect.

    The annotation of the field may be a union of declarations, of which this is the default. Their first setting, a
    choice of the same name in all, decides which one is read.
    """
    own = settings(declaration).values()
    default = dataclasses.MISSING if any(inner.required for inner in own) else declaration()
    affects = frozenset[str]().union(*(inner.affects for inner in own))
    return typing.cast(T, _declared(default, meaning, affects, False, {}, False))


def _declared(
    default: Any, meaning: str, affects: frozenset[str], by_content: bool, bounds: Mapping[str, float], path: bool
) -> Any:
    metadata = {"meaning": meaning, "affects": affects, "by_content": by_content, "bounds": bounds, "path": path}
    return dataclasses.field(default=default, metadata=metadata)


class Setting(NamedTuple):
    """A setting or a section, as it is declared: see `setting`."""

    type: Any
    default: Any
    meaning: str
    affects: frozenset[str]
    by_content: bool
    bounds: Mapping[str, float]
    path: bool

    @property
    def required(self) -> bool:
        return self.default is dataclasses.MISSING

    @property
    def variants(self) -> tuple[Any, ...]:
        """The declarations of a section; empty if this is not a section."""
        union = typing.get_origin(self.type) in (types.UnionType, typing.Union)
        kinds = typing.get_args(self.type) if union else (self.type,)
        return kinds if all(map(dataclasses.is_dataclass, kinds)) else ()

    @property
    def is_section(self) -> bool:
        return bool(self.variants)

    @property
    def declarations(self) -> tuple[Any, ...]:
        """The declarations of a section, of the entries of a list, or of a mapping that may be null."""
        return tuple(dict.fromkeys(_dataclasses_in(self.type)))

    @property
    def is_list(self) -> bool:
        """Whether it is a list of mappings, such as corpora, which can only be replaced as a whole."""
        return typing.get_origin(self.type) is tuple and bool(self.declarations)

    @property
    def choice(self) -> str | None:
        """The setting of a section that decides which of its declarations is read; None if there is only one."""
        return next(iter(settings(self.variants[0]))) if len(self.variants) > 1 else None

    @property
    def expected(self) -> str:
        """Its type and range in words."""
        limits = [f"{name} {limit:{',' if isinstance(limit, int) else 'g'}}" for name, limit in self.bounds.items()]
        return ", ".join([type_name(self.type), *limits])

    def allows(self, value: float) -> bool:
        """Whether a value is in the range."""
        within = {"at least": operator.ge, "above": operator.gt, "at most": operator.le, "below": operator.lt}
        return all(within[name](value, limit) for name, limit in self.bounds.items())


def settings(declaration: type) -> Mapping[str, Setting]:
    """The settings and sections of a declaration itself, by name, in the order declared."""
    return _settings(typing.cast(Hashable, declaration))  # mypy does not know that types can be hashed


@cache  # the type hints of all sections take 10 ms, and are needed whenever settings are read
def _settings(declaration: Any) -> Mapping[str, Setting]:
    hints, fields = typing.get_type_hints(declaration), dataclasses.fields(declaration)
    return {field.name: Setting(hints[field.name], field.default, **field.metadata) for field in fields}


def setting_at(declaration: type, path: str) -> Setting:
    """The setting or section at a dotted path, such as `data.train[0].weight`. An entry of a list affects at most what
    the list affects."""
    first, _, rest = path.partition(".")
    own = settings(declaration)[first.partition("[")[0]]
    for inner in own.declarations if rest else ():
        if rest.partition(".")[0].partition("[")[0] in settings(inner):
            inmost = setting_at(inner, rest)
            return inmost._replace(affects=inmost.affects & own.affects)
    return own


def _dataclasses_in(annotation: Any) -> Iterator[Any]:
    if dataclasses.is_dataclass(annotation):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _dataclasses_in(argument)


def all_settings(declaration: type) -> dict[str, Setting]:
    """Every setting of a declaration and its sections, by dotted path. If a section has several declarations, their
    settings are joined: where they have one name, the first declaration's counts."""
    by_path: dict[str, Setting] = {}
    for name, own in settings(declaration).items():
        for variant in own.variants:
            for path, inner in all_settings(variant).items():
                by_path.setdefault(f"{name}.{path}", inner)
        if not own.is_section:
            by_path[name] = own
    return by_path


def type_name(annotation: Any) -> str:
    """A type in the words of the messages and the reference (`whole number`, `a | b`)."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin in (types.UnionType, typing.Union):
        return " or ".join(type_name(argument) for argument in arguments)
    if origin is tuple:
        count = "" if arguments[-1] is Ellipsis else f"{len(arguments)} "
        item = type_name(arguments[0])
        return f"list of {count}{item}{'' if '|' in item else 's'}"
    if origin is Mapping:
        return f"mapping of names to {type_name(arguments[1])}s"
    if dataclasses.is_dataclass(annotation):
        return "mapping"
    names = {str: "text", Text: "text", Any: "any value"}
    names |= {int: "whole number", float: "number", bool: "true | false", type(None): "null"}
    return names[annotation]
