"""Typos: one mistake in some words, and none where letters are no words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.draws import Draws
from nmt.data.subwords.typos import add_typos, mistype


def test_each_mistake() -> None:
    found = {mistype("Word", Draws(start)) for start in range(300)}
    swapped, left_out, doubled = {"Wrod", "Wodr"}, {"Wrd", "Wod"}, {"Woord", "Worrd"}
    near = {"Wird", "Wprd", "Wkrd", "Wlrd", "Woed", "Wotd", "Wodd", "Wofd"}
    assert found == swapped | left_out | doubled | near
    assert {"WIRD", "WLRD"} <= {mistype("WORD", Draws(start)) for start in range(300)}


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/long/path", "12345 1st", "我喜欢苹果和梨", "",
    ],
)  # fmt: skip
def test_what_has_no_typos(text: str) -> None:
    assert all(add_typos(text, Draws(start)) == text for start in range(50))


@given(st.lists(st.sampled_from(["house", "garden", "42", "a", "{0}", "http://x.y/house"]), max_size=40))
def test_about_one_word_in_ten(words: list[str]) -> None:
    found = add_typos(" ".join(words), Draws(3)).split()
    long = sum(word in ("house", "garden") for word in words)
    changed = [(word, new) for word, new in zip(words, found, strict=True) if word != new]
    assert {word for word, _ in changed} <= {"house", "garden"}
    assert bool(long) <= len(changed) <= 1 + long // 10
