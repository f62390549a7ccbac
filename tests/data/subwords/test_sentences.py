"""Where sentences end: nothing is lost, abbreviations and numbers end none, and texts are joined as they should be."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.subwords.sentences import has_several, join_texts, sentences

PIECES = [
    ". ", "! ", ", ", "。", "」と", "» ", "፡", ":", " ", "\u00a0", "「",
    "One", "two", "J.", "Dr. ", "5", "你好", "\ud800",
]  # fmt: skip


@settings(deadline=None)
@given(
    text=st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join),
    language=st.sampled_from(["", "en", "de_AT", "el", "ja", "am", "xx"]),
)
def test_sentences_joined_are_the_text(text: str, language: str) -> None:
    found = list(sentences(text, language))
    assert "".join(found) == text
    assert has_several(text, language) is (len(found) > 1)


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("en", ["One two. ", "Three? ", "Four!"]),
        ("en", ["J. R. Smith met U.S. troops in Rome. ", "Then he left."]),
        ("en", ["Mr. Smith asked Dr. Brown at 5 p.m. Eastern. ", "See Fig. 3 and No. 5. ", "He left NATO. ", "OK."]),
        ("de", ["Am 29. Juli kam Dr. Klein, Nr. 5 usw. Siehe Abb. 3, z. B. dort. ", "Das war 1918. ", "Ja."]),
        ("de", ["Im 19. Jahrhundert ging Ludwig XIV. Mal zu St.\u00a0Martin. ", "Am 1.\u00a0Oktober nicht."]),
        ("fr", ["Il dit : «\u00a0Oui.\u00a0» ", "Elle resta."]),
        ("zh", ["你好。", "再见！", "“好吗？”", "好｡", "真的?", "好"]),
        ("el", ["Πού είναι; ", "Εδώ."]), ("hi", ["नमस्ते। ", "कैसे हो? ", "ठीक।"]),
        ("", ["no end"]), ("", []),
    ],
)  # fmt: skip
def test_where_sentences_end(language: str, parts: list[str]) -> None:
    assert list(sentences("".join(parts), language)) == parts


@pytest.mark.parametrize(
    ("language", "parts"),
    [
        ("en", ["A dog runs in the water ", "A man sits. ", "The cat sleeps ", "Two men run"]),
        ("en", ["See plan A, The Hague"]),
        ("en", ["Two Dogs In The Water And A Cat"]),
    ],
)
def test_words_that_begin_sentences_without_a_full_stop_before_them(language: str, parts: list[str]) -> None:
    text = "".join(parts)
    assert list(sentences(text, language, {"A", "The", "Two"})) == parts
    assert has_several(text, language, {"A", "The", "Two"}) is (len(parts) > 1)


def test_texts_are_joined_with_the_space_that_was_between_them() -> None:
    assert join_texts(["One.", "Two.", "", "Three."]) == "One. Two. Three."
    assert join_texts(["One.", "Two.", "", "Three."], ["  ", "\t\u3000", " ", ""]) == "One.  Two.  Three."
    assert join_texts(["你好。", "再见。"], [" ", " "]) == "你好。再见。"
    assert join_texts(["สวัสดี", "ครับ"]) == "สวัสดีครับ"  # perhaps one word
    assert join_texts(["สวัสดี", "ครับ"], [" ", ""]) == "สวัสดี ครับ"
    assert join_texts([]) == ""


@pytest.mark.parametrize("unit", ["a. B ", "?「"])
def test_long_texts_take_time_in_proportion(unit: str) -> None:
    """By the square of their length, these would take many minutes."""
    text = unit * (30_000 // len(unit))
    assert "".join(sentences(text)) == text
