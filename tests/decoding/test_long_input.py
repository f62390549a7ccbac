"""Long sources in parts: nothing is lost, every part fits, and the parts of a translation are one line again."""

import pytest
from helpers.model_files import tokenizer
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.data.subwords.sentences import has_several, sentences
from nmt.data.subwords.vocabulary import EOS
from nmt.decoding import long_input
from nmt.decoding.long_input import Splitter, join_hypotheses, split
from nmt.decoding.search.decoder_model import Hypothesis

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


@settings(max_examples=25, deadline=None)
@given(text=texts(), limit=st.integers(1, 40), together=st.integers(0, 50))
@example(text="\ufdfa", limit=1, together=0)
def test_parts_fit_and_joined_are_the_text(text: str, limit: int, together: int) -> None:
    parts = split(sentences(text), limit, ENCODE, together)
    assert "".join(part.text for part in parts) == text
    assert all(len(part.ids) <= limit for part in parts)
    assert all(len(part.ids) <= together for part in parts if has_several(part.text))
    whole = [part for part in parts if part.text]
    for part in whole:
        assert part.ids == ENCODE([part.text])[0][:limit]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("aaaa aaaa, aaaa aaaa aaaa", ["aaaa aaaa, ", "aaaa aaaa aaaa"]),
        ("aaaaaaaaaaaaaaaa", ["aaaaaaaa", "aaaaaaaa"]),
        ("好好好好，好好好好好", ["好好好好，", "好好好好好"]),
    ],
)
def test_a_long_sentence_is_halved_at_the_best_place(text: str, parts: list[str]) -> None:
    def characters(given: list[str]) -> list[list[int]]:
        return [[ord(character) for character in one] for one in given]

    assert [part.text for part in split([text], 14 if len(text) > 11 else 6, characters)] == parts


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

    def found(tokens: list[int], *spaces: str) -> Hypothesis:
        return Hypothesis(tokens, 0.0, 0.0, [], spaces)

    hypotheses = [found(outputs[2]), found([]), found(one_line, " ", "  ", " ", "")]
    assert long_input.decode(hypotheses, tokenizer().decode) == ["four", "", "one two three  four"]


def words(given: list[str]) -> list[list[int]]:
    return [[0] * len(text.split()) for text in given]


def test_parts_are_filled_with_sentences() -> None:
    """As many as fit, in order; and the space that stood after each part is kept."""
    text = "One two. Three four.  Five. Six seven eight nine. Ten"
    assert [(part.text, part.space) for part in split(sentences(text), 9, words, 4)] == [
        ("One two. Three four.  ", "  "), ("Five. ", " "), ("Six seven eight nine. ", " "), ("Ten", " "),
    ]  # fmt: skip
    filled = ["One two. Three four.  Five. ", "Six seven eight nine. Ten"]
    assert [part.text for part in split(sentences(text), 9, words, 5)] == filled

    def characters(given: list[str]) -> list[list[int]]:
        return [list(map(ord, text)) for text in given]

    # At the end of a sentence stands a space, for a language that writes it, but not inside of one.
    assert [part.space for part in split(sentences("你好。好，好好"), 3, characters)] == [" ", "", " "]


@pytest.mark.parametrize(
    ("line", "longest", "several", "fits"),
    [
        ("One two three four.", 4, 0, True),
        ("One two three four five.", 4, 0, False),
        ("One two. Three.", 4, 3, True),
        ("One two. Three.", 4, 2, False),
        ("one two The three", 4, 0, False),
        ("One two. Three four five.", None, None, True),
    ],
)
def test_which_lines_are_split(line: str, longest: int | None, several: int | None, fits: bool) -> None:
    """Those longer than the training text, and those of several sentences that are longer than such text there."""
    [ids] = words([line])
    assert Splitter(longest, several, "en", {"The"}, words).fits(line, ids) is fits
