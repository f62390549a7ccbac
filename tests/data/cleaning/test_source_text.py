"""What a model file tells about the training text: read as written, or nothing."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.cleaning.source_text import SourceText, first_words, quantile

COUNTS = st.lists(st.integers(1, 50), min_size=1, max_size=300)


@given(COUNTS, st.sampled_from([0.001, 0.5, 0.9, 0.999, 1.0]))
def test_quantiles_are_those_of_numpy(numbers: list[int], share: float) -> None:
    assert quantile(Counter(numbers), share) == np.quantile(numbers, share, method="inverted_cdf")


@pytest.mark.parametrize(("several", "expected"), [(0, 0), (249, 0), (250, 30)])
def test_few_lines_of_several_sentences_are_none(several: int, expected: int) -> None:
    assert SourceText.of({10: 1000 - several, 30: several}, {30: several} if several else {}, {}).several == expected


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
        None,
        {"longest": 0, "several": 0, "first_words": {}},
        {"longest": 5, "several": -1, "first_words": {}},
        {"longest": 5, "several": 0, "first_words": {"en": "A"}},
    ],
)
def test_anything_else_is_nothing(value: object) -> None:
    assert SourceText.from_json(value) is None
