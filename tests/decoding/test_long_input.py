"""Long sources in parts: nothing is lost, every part fits, and the parts of a translation are one line again."""

import pytest
from helpers.model_files import tokenizer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.data.vocabulary import EOS
from nmt.decoding import long_input
from nmt.decoding.long_input import Part, join_hypotheses, join_texts, sentences, split
from nmt.decoding.search.interface import Hypothesis

ENCODE = tokenizer().encode
HOSTILE = [
    "\ufdfa" * 3,
    "e\u0301" * 50,
    "\x00\r\u2028 \x85" * 9,
    "👩‍👩‍👧" * 9,
    "مرحبا. " * 9,
    " \t" * 40,
    "a" * 10_000,
    "\u2585",
]


def texts() -> st.SearchStrategy[str]:
    pieces = st.sampled_from(
        ["one", " ", ". ", "two", "! ", ", ", "。", "，", "你好", "J.", "3.5", "…", "» ", *HOSTILE]
    )
    return st.lists(pieces | st.text(max_size=8), max_size=40).map("".join)


@settings(max_examples=50, deadline=None)
@given(text=texts(), limit=st.integers(1, 40))
@example(text="\ufdfa", limit=1)
def test_parts_fit_and_joined_are_the_text(text: str, limit: int) -> None:
    parts = split(text, limit, ENCODE)
    assert "".join(part.text for part in parts) == text
    assert all(len(part.ids) <= limit for part in parts)
    whole = [part for part in parts if part.text]
    for part in whole:
        assert part.ids == ENCODE([part.text])[0][:limit]


@settings(max_examples=150, deadline=None)
@given(text=texts())
def test_sentences_joined_are_the_text(text: str) -> None:
    assert "".join(sentences(text)) == text


@pytest.mark.parametrize(
    "parts",
    [
        ["One two. ", "Three? ", "Four!"],
        ["He said: “Go!” ", "(She went.) ", "So did I."],
        ["你好。", "再见！", "“好吗？”", "好｡", "好"],
        ["नमस्ते। ", "कैसे हो? ", "ठीक।"],
        ["ما اسمك؟ ", "اسمي سالم."],
        ["Wait… ", "What?! ", "Yes..."],
        ["J. R. Smith met U.S. troops, z. B. in Rome. ", "Then he left."],
        ["It costs 3.5 euros etc. and more. ", "Cheap!"],
        ["no end"],
        [],
    ],
)
def test_where_sentences_end(parts: list[str]) -> None:
    assert list(sentences("".join(parts))) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("aaaa aaaa, aaaa aaaa aaaa", ["aaaa aaaa, ", "aaaa aaaa aaaa"]),
        ("aaaa aaaa aaaa aaaa", ["aaaa aaaa ", "aaaa aaaa"]),
        ("aaaaaaaaaaaaaaaa", ["aaaaaaaa", "aaaaaaaa"]),
        ("好好好好，好好好好好", ["好好好好，", "好好好好好"]),
    ],
)
def test_a_long_sentence_is_halved_at_the_best_place(text: str, parts: list[str]) -> None:
    def characters(given: list[str]) -> list[list[int]]:
        return [[ord(character) for character in one] for one in given]

    assert [part.text for part in split(text, 14 if len(text) > 11 else 6, characters)] == parts


def test_a_character_of_too_many_subwords_is_parted_too() -> None:
    assert split("x", 2, lambda given: [[7, 8, 9]] * len(given)) == [Part("x", [7, 8]), Part("", [9])]


def test_hypotheses_of_parts_are_joined_the_ith_with_the_ith() -> None:
    one = [Hypothesis([5], -1.0, -2.0, [-0.5, -1.5]), Hypothesis([6], -3.0, -4.0, [-2.0, -2.0])]
    two = [Hypothesis([], -0.5, -0.25, [-0.25])]
    assert join_hypotheses([one]) == one
    assert join_hypotheses([one, two]) == [
        Hypothesis([5, EOS], -1.5, -2.25, [-0.5, -1.5, -0.25]),
        Hypothesis([6, EOS], -3.5, -4.25, [-2.0, -2.0, -0.25]),
    ]
    assert join_hypotheses([]) == []


def test_parts_are_decoded_for_themselves() -> None:
    outputs = ENCODE(["one two", "three", "four"])
    one_line = [*outputs[0], EOS, *outputs[1], EOS, EOS, *outputs[2]]
    assert long_input.decode([outputs[2], [], one_line], tokenizer().decode) == ["four", "", "one two three four"]


def test_a_space_between_parts_but_beside_scripts_without_spaces() -> None:
    assert join_texts(["One.", "Two.", "", "Three."]) == "One. Two. Three."
    assert join_texts(["你好。", "再见。"]) == "你好。再见。"
    assert join_texts(["สวัสดี", "ครับ"]) == "สวัสดีครับ"
    assert join_texts([]) == ""


@pytest.mark.parametrize("unit", [".", "…", "。…", "a. B ", "Hello there you. ", '!" ', ") ", ", "])
def test_long_texts_take_time_in_proportion(unit: str) -> None:
    """By the square of their length, these would take hours."""
    text = unit * (1_000_000 // len(unit))
    assert "".join(sentences(text)) == text
