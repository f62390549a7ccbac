"""String tables: what the table of the other language has stays."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint
from hypothesis import given
from hypothesis import strategies as st

from nmt.checkpoints import model_file
from nmt.commands.translate import translate
from nmt.commands.translation_job import TranslationJob
from nmt.config.schema import Config
from nmt.documents.formats.json_strings import read

SOURCE = """{
  "a": "one",
  "b": {"x": "two", "y_one": "boat"},
  "l": ["three", 4, "five"],
  "@metadata": {"authors": ["A"]},
  "n": 1.50
}
"""
OTHER = (
    r'{"@metadata": {"authors":["Z"]},"a": "EINS","b":{"x":"","y_one":"Boot","y_few":"B\u00f6te"}'
    r',"l":["",4,"F",  "G"],"n":"?", "z" : {"q":1} }'
)
EXPECTED = r"""{
  "a": "EINS",
  "b": {"x": "TWO", "y_one": "Boot", "y_few":"B\u00f6te"},
  "l": ["THREE", 4, "F"],
  "@metadata": {"authors":["Z"]},
  "n": 1.50,
  "z" : {"q":1}
}
"""


def test_what_the_other_language_has_stays() -> None:
    document = read(SOURCE, Path("a.json"), translated=(OTHER, Path("b.json")))
    new = document.translated(lambda text: text.text.upper())
    assert new == EXPECTED and [text.text for text in document.texts] == ["two", "three"] and document.existing == 3
    assert list(document.report(new)) == [
        "2 values are missing from the output: the source has values of other types under these keys"
    ]
    arb = '{"@@locale": "en", "a": "x", "@a": {"description": "d"}}'
    found = read(arb, Path("a.arb"), translated=('{"@@locale":"lv", "@a": 1, "c": "c"}', Path("b.arb")))
    assert (
        found.translated(lambda text: text.text) == '{"@@locale":"lv", "a": "x", "@a": {"description": "d"}, "c": "c"}'
    )


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a,:{}[]"\\ ', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab" ', max_size=2), inner, max_size=3),
)


def merged(source: object, other: object) -> object:
    """What is expected, of values instead of characters."""
    if isinstance(source, dict) and isinstance(other, dict):
        both = {key: merged(value, other.get(key)) for key, value in source.items()}
        return both | {key: value for key, value in other.items() if key not in source}
    if isinstance(source, list) and isinstance(other, list):
        return [merged(value, other[i] if i < len(other) else None) for i, value in enumerate(source)]
    return other if isinstance(source, str) and isinstance(other, str) and other else source


@given(_VALUES, _VALUES, st.sampled_from([None, 1, "\t"]))
def test_tables_are_merged_as_their_values_are(source: object, other: object, indent: int | str | None) -> None:
    content, existing = json.dumps(source, indent=indent), json.dumps(other)
    assert read(content, Path("a.json")).translated(lambda text: text.text) == content
    found = read(content, Path("a.json"), translated=(existing, Path("b.json"))).translated(lambda text: text.text)
    assert json.loads(found) == merged(source, other)


# A table, the one of the other language or None, and the result.
TABLES = {
    "a key twice": (
        '{"a":"one","b":{"c":1,"c":["x"]},"a":"three"}',
        None,
        '{"a":"ONE","b":{"c":1,"c":["X"]},"a":"THREE"}',
    ),
    "a key twice in both": ('{"a":"one", "a":"two"}', '{"a":"EINS","a":"ZWEI"}', '{"a":"EINS", "a":"ZWEI"}'),
    "programs read the last one": ('{"a":"one", "a":"two"}', '{"a":"ZWEI"}', '{"a":"ONE", "a":"ZWEI"}'),
    "no other one behind it": ('{"a":"one"}', '{"a":"old","a":"EINS"}', '{"a":"EINS"}'),
    "another way to write a key": (r'{"caf\u00e9":"one"}', '{"café":"EINS"}', r'{"caf\u00e9":"EINS"}'),
    "ARB by its content": (
        '{"@@locale":"en","a":"b","@a":{"c":"d"}}',
        None,
        '{"@@locale":"en","a":"B","@a":{"c":"d"}}',
    ),
    "its language": ('{"@@locale":"en","a":"b"}', '{"@@locale":"lv"}', '{"@@locale":"lv","a":"B"}'),
    "a key that is text": ('{"@a":"b"}', None, '{"@a":"B"}'),
    "long numbers": (f'{{"n":{"9" * 5000},"a":"b"}}', None, f'{{"n":{"9" * 5000},"a":"B"}}'),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name: str) -> None:
    source, other, expected = TABLES[name]
    found = read(source, Path("a.json"), translated=None if other is None else (other, Path("b.json")))
    assert found.translated(lambda text: text.text.upper()) == expected


def test_the_command_keeps_or_replaces_them(
    make_config: Callable[..., Config], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nmt")
    model, source, output = (tmp_path / name for name in ("model", "en.json", "lv.json"))
    model_file.save(model, make_checkpoint(make_config("decoding.max_extra_tokens=3")))
    source.write_text('{"a": "one", "b": "two"}')
    output.write_text('{"a": "MINE", "c": "MORE"}')
    assert translate(TranslationJob(model=model, source=source, output=output)) == 0
    new = json.loads(output.read_text())
    assert new == {"a": "MINE", "b": new["b"], "c": "MORE"} and new["b"] != "two"
    assert f"{source}: 1 text already has a translation" in caplog.text
    assert translate(TranslationJob(model=model, source=source, output=output, only_missing=False)) == 0
    again = json.loads(output.read_text())
    assert list(again) == ["a", "b"] and again["a"] != "MINE" and again["b"] == new["b"]
