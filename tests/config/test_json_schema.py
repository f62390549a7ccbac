"""The JSON Schema of the settings: it accepts and refuses the values that the reader does."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from nmt.config import reader, schema, writer
from nmt.config.declaration import Setting, settings
from nmt.config.json_schema import json_schema
from nmt.errors import NmtError

SCHEMA = json_schema(schema.Config)
VALIDATOR = Draft202012Validator(SCHEMA)
CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
Place = tuple[str | int, ...]
VALUES: list[Any] = [
    None, True, -1, 0, 1, 2, 0.5, -0.5, 1.5, 10**7 + 1, 1e-12, "x", " ", "auto", "none", [], ["x"], [" "], [0.5, 0.5],
    [0.5, 1], ["en", "de"], ["en", 1], {}, {"x": 0.5}, {"x": 0}, {"x": "x"}, {"unknown": 1}, [{}], [{"unknown": 1}],
]  # fmt: skip


class CoreLoader(yaml.SafeLoader):
    """The core schema of YAML 1.2."""

    yaml_implicit_resolvers: ClassVar = {}


for tag, pattern in {
    "null": r"null|~|",
    "bool": r"true|false",
    "int": r"[-+]?[0-9]+",
    "float": r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
}.items():
    CoreLoader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), None)


class Settings(schema.Config):
    """Without the checks of values that do not go together."""

    def conflicts(self) -> list[str]:
        return []


def problem(given: dict[str, Any]) -> str | None:
    """What the reader says about settings."""
    try:
        reader.from_dict(Settings, given, "test")
    except NmtError as error:
        return str(error)
    return None


def minimal() -> dict[str, Any]:
    corpora = [{"source": "a", "target": "b"}]
    return {"run_dir": "run", "data": {"source_language": "en", "target_language": "de", "train": corpora}}


def places(declaration: type, path: Place, seen: set[type]) -> Iterator[tuple[Place, Setting]]:
    """Every setting with the keys and places that lead to it, those of entries of lists and of mappings included; of a
    declaration that is there several times, such as that of a corpus, once."""
    for name, own in settings(declaration).items():
        yield (*path, name), own
        inside = (*path, name, 0) if own.is_list else (*path, name)
        for inner in set(own.declarations) - seen:
            seen.add(inner)
            yield from places(inner, inside, seen)


def with_value(given: Any, path: Place, value: Any) -> Any:
    """The settings with another value at a place."""
    if not path:
        return value
    first, *rest = path
    if first == 0:
        return [with_value(given[0] if isinstance(given, list) else None, tuple(rest), value)]
    inside = given if isinstance(given, dict) else {}
    return {**inside, first: with_value(inside.get(first), tuple(rest), value)}


@pytest.mark.parametrize("architecture", [None, "transformer", "recurrent"])
def test_each_setting_has_the_values_that_the_reader_takes(architecture: str | None) -> None:
    """Of every setting a choice of all, and many values, right ones and wrong ones."""
    tried = {True: 0, False: 0}
    for path, own in places(Settings, (), set()):
        if architecture and path[0] != "model":  # the others do not depend on it
            continue
        start = with_value(minimal(), ("model", "architecture"), architecture) if architecture else minimal()
        default = [] if own.required or own.is_section else [writer.to_dict(own.default)]
        for value in [*VALUES, *default]:
            given = with_value(start, path, value)
            expected = problem(given)
            assert VALIDATOR.is_valid(given) == (expected is None), f"{given}: {expected}"
            tried[expected is None] += 1
    assert min(tried.values()) > 40


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"training": {"warmup": 3}}, "'warmup' was unexpected"),
        ({"model": {"heads": 0}}, "0 is less than the minimum of 1"),
        ({"model": {"architecture": "recurrent", "heads": 8}}, "'heads' was unexpected"),
        ({"model": {"architecture": "mamba"}}, "'mamba' is not one of ['transformer', 'recurrent']"),
        ({"data": {"source_language": "en", "target_language": "de"}}, "'train' is a required property"),
    ],
)
def test_what_is_wrong_is_one_message(given: dict[str, Any], message: str) -> None:
    found = list(VALIDATOR.iter_errors(minimal() | given))
    assert len(found) == 1 and message in found[0].message


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_configs_and_what_runs_write_of_them_are_valid(path: Path) -> None:
    """Read as editors do, which do not take 25_000 for a number."""
    for text in (path.read_text(encoding="utf-8"), writer.to_yaml(schema.load(path))):
        VALIDATOR.validate(yaml.load(text, CoreLoader))


def test_editors_of_an_older_draft_can_read_it() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    Draft7Validator.check_schema(SCHEMA)
    wrong = minimal() | {"model": {"architecture": "recurrent", "heads": 8}}
    assert Draft7Validator(SCHEMA).is_valid(minimal()) and not Draft7Validator(SCHEMA).is_valid(wrong)
