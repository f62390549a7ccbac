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


@given(st.text(st.sampled_from("abcßéжωא"), min_size=4, max_size=12), st.integers(0, 2**64 - 1))
def test_a_word_with_a_mistake_is_another_word(word: str, start: int) -> None:
    found = mistype(word, Draws(start))
    assert found != word and found[0] == word[0] and abs(len(found) - len(word)) <= 1


@pytest.mark.parametrize(
    "text",
    [
        "https://example.org/long/path", "some.name@example.org", "{placeholder}", "<strong>", "12345 1st", "x2345y",
        "a cat sat", "我喜欢苹果和梨", "नमस्ते दुनिया", "", "snake_case_name",
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


def test_a_name_that_the_translation_has_too_stays() -> None:
    found = {add_typos("Greta sang", Draws(start), "Greta sang nicht") for start in range(50)}
    assert found == {"Greta sang"}
    found = {add_typos("Greta slept", Draws(start), "Greta schlief") for start in range(50)}
    assert len(found) > 5 and all(one.startswith("Greta ") for one in found)
