"""What a model file tells about the training text: read as written, or nothing."""

import json

import pytest

from nmt.data.cleaning.source_text import SourceText, first_words


def test_first_words_begin_lines_and_seldom_stand_inside_of_one() -> None:
    lines = [
        "The dog runs",
        "The cat",
        "New is good",
        "New York",
        "in New Delhi",
        "Anna runs",
        "two dogs",
        "two cats",
        "",
    ]
    assert first_words(lines) == ("The",)
    assert first_words(["The dog", "The cat", "So The Hague"]) == ()


def test_read_as_written() -> None:
    made = SourceText(39, 0, {"en": ("A", "The"), "de": ()})
    assert SourceText.from_json(json.loads(json.dumps(made.to_json()))) == made


@pytest.mark.parametrize(
    "value",
    [
        {"longest": 0, "several": 0, "first_words": {}},
        {"longest": 5, "several": 0, "first_words": {"en": "A"}},
    ],
)
def test_anything_else_is_nothing(value: object) -> None:
    assert SourceText.from_json(value) is None
