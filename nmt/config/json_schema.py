"""A JSON Schema of settings, made from their declarations. Editors use it to complete and check a settings file.

It finds what `nmt.config.reader` finds in one setting: unknown names, wrong types, numbers out of range, and what is
missing. Values that do not go together (`nmt.config.conflicts`) are not in it. Only keywords that draft 7 has too are
used, as editors read those best.
"""

import dataclasses
import json
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal

from nmt.config.declaration import Setting, settings
from nmt.config.writer import in_one_line, to_dict

Schema = dict[str, Any]

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_KINDS = {int: "integer", float: "number", bool: "boolean", str: "string", type(None): "null"}
_LIMITS = {"at least": "minimum", "above": "exclusiveMinimum", "at most": "maximum", "below": "exclusiveMaximum"}
_TEXT = {"type": "string", "pattern": r"\S"}  # not empty, and not only spaces


def json_schema(declaration: type) -> Schema:
    """The schema of a file that `reader.parse` reads as `declaration`: JSON values."""
    definitions: dict[str, Schema] = {}
    return {"$schema": _DRAFT, "title": "Settings of nmt", **_mapping(declaration, definitions), "$defs": definitions}


def to_text(declaration: type) -> str:
    """The schema as JSON, without a line break at its end."""
    return json.dumps(json_schema(declaration), indent=2, ensure_ascii=False)


def _mapping(declaration: type, definitions: dict[str, Schema]) -> Schema:
    own = settings(declaration)
    required = [name for name, setting in own.items() if setting.required]
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {name: _setting(setting, definitions) for name, setting in own.items()},
        **({"required": required} if required else {}),
    }


def _setting(setting: Setting, definitions: dict[str, Schema]) -> Schema:
    if setting.is_section:
        about = {"description": _plain(setting.meaning), "markdownDescription": setting.meaning}
        return about | (_variants(setting, definitions) if setting.choice else _section(setting.type, definitions))
    default = "" if setting.required else f" Default: `{in_one_line(setting.default)}`."
    about = {
        "description": _plain(setting.meaning),
        "markdownDescription": f"{setting.meaning}\n\nType: {setting.expected}.{default}",
    }
    if not setting.required:
        about["default"] = to_dict(setting.default)
    return about | _type(setting.type, setting.bounds, definitions)


def _section(declaration: type, definitions: dict[str, Schema]) -> Schema:
    """The type of a section. A section without required settings may be empty, which is null."""
    schema = _mapping(declaration, definitions)
    return schema if "required" in schema else schema | {"type": ["object", "null"]}


def _variants(section: Setting, definitions: dict[str, Schema]) -> Schema:
    """One branch for each declaration. The setting `section.choice` selects it; without the setting, the first."""
    choice = section.choice
    assert choice is not None
    branches: list[Schema] = []
    for declaration in section.variants:
        name = settings(declaration)[choice].default
        condition: Schema = {"properties": {choice: {"const": name}}}
        if branches:
            condition["required"] = [choice]
        definitions[name] = _section(declaration, definitions)
        branches.append({"if": condition, "then": {"$ref": f"#/$defs/{name}"}})
    names = [settings(declaration)[choice].default for declaration in section.variants]
    return {"type": ["object", "null"], "properties": {choice: {"enum": names}}, "allOf": branches}


def _type(annotation: Any, bounds: Mapping[str, float], definitions: dict[str, Schema]) -> Schema:
    """A type as `reader` accepts it, with the range of its numbers."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return _union([_type(kind, bounds, definitions) for kind in arguments])
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        fixed = arguments[-1] is not Ellipsis
        size = {"minItems": len(arguments), "maxItems": len(arguments)} if fixed else {}
        return {"type": "array", "items": _type(arguments[0], bounds, definitions), **size}
    if origin is Mapping:
        kinds = [_type(arguments[1], bounds, definitions)]
        kinds += [{"type": "null"}] if dataclasses.is_dataclass(arguments[1]) else []  # as an empty mapping
        return {"type": "object", "additionalProperties": _union(kinds) if kinds[1:] else kinds[0]}
    if annotation in _KINDS:
        limits = {_LIMITS[name]: limit for name, limit in bounds.items()} if annotation in (int, float) else {}
        return dict(_TEXT) if annotation is str else {"type": _KINDS[annotation], **limits}
    if annotation.__name__ not in definitions:
        definitions[annotation.__name__] = _mapping(annotation, definitions)
    return {"$ref": f"#/$defs/{annotation.__name__}"}


def _union(kinds: list[Schema]) -> Schema:
    """Any of the kinds. A type that may be null is written with two names, which gives clearer messages in editors."""
    others = [kind for kind in kinds if kind != {"type": "null"}]
    if len(others) == len(kinds):
        return {"anyOf": kinds}
    if len(others) == 1 and "type" in others[0]:
        return {**others[0], "type": [others[0]["type"], "null"]}
    if len(others) == 1 and "enum" in others[0]:
        return {"enum": [*others[0]["enum"], None]}
    return {"anyOf": [*others, {"type": "null"}]}


def _plain(text: str) -> str:
    return text.replace("`", "")
