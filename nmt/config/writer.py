"""Write settings as YAML, which `nmt.config.reader` reads back, and compare settings.

This module is independent of translation: it writes any dataclass whose fields are declared with
`nmt.config.declaration`.
"""

import dataclasses
from typing import Any

from nmt.config import located_yaml
from nmt.config.declaration import Result, settings


def to_yaml(value: Any) -> str:
    """The dataclass as YAML that `reader.parse` reads back to an equal value."""
    return located_yaml.dump(to_dict(value))


def to_dict(value: Any, *, defaults: bool = True) -> Any:
    """The dataclass as dicts, lists and scalars. defaults: whether settings with their default value are included."""
    if dataclasses.is_dataclass(value):
        kept = {}
        for name, own in settings(type(value)).items():
            x = getattr(value, name)
            if defaults or x != own.default:
                kept[name] = to_dict(x, defaults=defaults)
                if own.choice and type(x) is not type(own.default):  # its value is a default of that declaration
                    kept[name] = {own.choice: getattr(x, own.choice)} | kept[name]
        return kept
    if isinstance(value, tuple):
        return [to_dict(item, defaults=defaults) for item in value]
    if isinstance(value, dict):
        return {key: to_dict(item, defaults=defaults) for key, item in value.items()}
    return value


def affecting(value: Any, result: Result) -> Any:
    """The settings on which a result depends directly, in the form of `to_dict`, for the key of the result. Settings
    that are declared `by_content` are left out: the key needs a hash of the content instead."""
    if isinstance(value, tuple):
        return [affecting(item, result) for item in value]
    if not dataclasses.is_dataclass(value):
        return to_dict(value)
    kept = {}
    for name, own in settings(type(value)).items():
        if result in own.affects and not own.by_content:
            kept[name] = affecting(getattr(value, name), result)
    return kept


def in_one_line(value: Any) -> str:
    """A setting's value as YAML in one line."""
    return located_yaml.dump(to_dict(value, defaults=False), in_one_line=True)


def flatten(value: Any) -> dict[str, str]:
    """The value of every setting as YAML in one line, by dotted path."""
    return {path: in_one_line(inner) for path, inner in _values(value).items()}


def _values(value: Any) -> dict[str, Any]:
    """The value of every setting by dotted path."""
    values: dict[str, Any] = {}
    for name, own in settings(type(value)).items():
        inner = getattr(value, name)
        values |= {f"{name}.{path}": x for path, x in _values(inner).items()} if own.is_section else {name: inner}
    return values


def defaults(value: Any) -> dict[str, str]:
    """The default of every setting as YAML in one line, by dotted path; empty if a setting has none."""
    texts: dict[str, str] = {}
    for name, own in settings(type(value)).items():
        if own.is_section:
            texts |= {f"{name}.{path}": text for path, text in defaults(getattr(value, name)).items()}
            if own.choice:  # in the other declarations its default is their own value
                texts[f"{name}.{own.choice}"] = in_one_line(getattr(own.default, own.choice))
        else:
            texts[name] = "" if own.required else in_one_line(own.default)
    return texts


def differences(old: Any, new: Any) -> dict[str, tuple[str, str]]:
    """The settings in which two values of the same declaration differ: path → both values as YAML in one line.

    For lists of mappings these are the settings of their entries, such as `books[0].title`, or both lengths. A section,
    such as `model`, whose declarations differ is given as a whole, without default values."""
    changed: dict[str, tuple[str, str]] = {}
    for name, own in settings(type(new)).items():
        sections = getattr(old, name), getattr(new, name)
        if own.choice and type(sections[0]) is not type(sections[1]):
            changed[name] = _in_one_line_with(own.choice, sections[0]), _in_one_line_with(own.choice, sections[1])
    whole, before = tuple(f"{name}." for name in changed), _values(old)
    for path, now in _values(new).items():
        if path.startswith(whole):
            continue
        if before[path] != now:
            texts = in_one_line(before[path]), in_one_line(now)
            changed |= _differences_of_lists(path, before[path], now) or {path: texts}
    return changed


def _in_one_line_with(choice: str, section: Any) -> str:
    """A section as YAML in one line, with the setting that selects its declaration."""
    return in_one_line({choice: getattr(section, choice)} | to_dict(section, defaults=False))


def _differences_of_lists(path: str, old: Any, new: Any) -> dict[str, tuple[str, str]]:
    """The differences of two lists of dataclasses, entry by entry, or of their lengths; empty for other values."""
    if not (isinstance(old, tuple) and isinstance(new, tuple) and all(map(dataclasses.is_dataclass, old + new))):
        return {}
    if len(old) != len(new):
        return {path: (f"a list of {len(old)}", f"a list of {len(new)}")}
    changed: dict[str, tuple[str, str]] = {}
    for i, entries in enumerate(zip(old, new, strict=True)):
        changed |= {f"{path}[{i}].{inner}": texts for inner, texts in differences(*entries).items()}
    return changed
