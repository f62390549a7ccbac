"""What the engines of other programs make of each setting."""

import dataclasses

import pytest

from nmt.config.schema import DecodingConfig
from nmt.decoding.engine_support import SETTINGS, ctranslate2_lacks, excluding


def test_every_setting_is_in_the_table() -> None:
    assert SETTINGS.keys() == {field.name for field in dataclasses.fields(DecodingConfig)}


@pytest.mark.parametrize(
    ("change", "in_file", "in_folder"),
    [
        ({}, True, True),
        ({"beam_size": 9, "length_penalty": 2.0, "max_length": 3, "consensus": "chrf"}, True, True),
        ({"min_length": 2}, False, True),
        ({"min_length_ratio": 0.5}, False, True),
        ({"method": "sample"}, False, False),
        ({"coverage_penalty": 0.2}, False, False),
        ({"no_repeat_ngram": 3}, False, False),
        ({"banned": ("zebra",)}, False, False),
    ],
    ids=str,
)
def test_what_ctranslate2_has(change: dict[str, object], in_file: bool, in_folder: bool) -> None:
    decoding = DecodingConfig(**change)  # type: ignore[arg-type]
    for has_it, is_folder in ((in_file, False), (in_folder, True)):
        problem = ctranslate2_lacks(decoding, in_folder=is_folder)
        assert (problem is None) == has_it and (problem is None or next(iter(change)) in problem)


def test_what_excludes_outputs() -> None:
    decoding = DecodingConfig(no_repeat_ngram=3, banned=("zebra",), min_length_ratio=0.5, coverage_penalty=0.2)
    assert excluding(decoding) == {"no_repeat_ngram": None, "banned": (), "min_length_ratio": 0.0}
