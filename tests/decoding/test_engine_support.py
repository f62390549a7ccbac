"""What the engines make of each setting."""

import dataclasses

import pytest

from nmt.config.schema import DecodingConfig
from nmt.decoding.engine_support import SETTINGS, ctranslate2_differs, excluding, not_in_folder


def test_every_setting_is_in_the_table() -> None:
    assert SETTINGS.keys() == {field.name for field in dataclasses.fields(DecodingConfig)}
    assert ctranslate2_differs(DecodingConfig()) is None and not_in_folder(DecodingConfig()) is None


@pytest.mark.parametrize(
    ("change", "why", "default"),
    [
        ({"method": "sample"}, "method: sample: CTranslate2 is not used: it draws other samples", "beam"),
        ({"coverage_penalty": 0.2}, "coverage_penalty: 0.2: CTranslate2 is not used: it has another", "0.0"),
        ({"min_length": 2}, "min_length: 2: CTranslate2 is not used: it changes", None),
        ({"precision": "float32"}, None, None),
    ],
    ids=str,
)
def test_what_ctranslate2_does_otherwise(change: dict[str, object], why: str | None, default: str | None) -> None:
    """A folder has no other engine, and so takes what CTranslate2 does nearly as nmt."""
    decoding = DecodingConfig(**change)  # type: ignore[arg-type]
    found, refused = ctranslate2_differs(decoding), not_in_folder(decoding)
    assert (found is None) if why is None else (found or "").startswith(f"decoding.{why}")
    [name, *_] = change
    remedy = f"only: set decoding.{name}={default}, or translate with the model file"
    assert (refused is None) if default is None else (refused or "").endswith(remedy)


def test_what_excludes_outputs() -> None:
    decoding = DecodingConfig(no_repeat_ngram=3, banned=("zebra",), min_length_ratio=0.5, coverage_penalty=0.2)
    assert excluding(decoding) == {"no_repeat_ngram": None, "banned": (), "min_length_ratio": 0.0}
