"""Banned words are found however an output is cut into subwords, and nothing else is."""

import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.words import Words

PIECES = [
    "<pad>",
    "<unk>",
    "<s>",
    "</s>",
    "▁",
    "a",
    "b",
    "ab",
    "▁a",
    "▁b",
    "▁ab",
    "ba",
    "b▁a",
    "▁b▁",
    "-",
    ",",
    "é",
    "A",
]
EOS = 3


def spelled(tokens: list[int]) -> str:
    return "".join(PIECES[token] for token in tokens).replace("▁", " ")


def holds(text: str, word: str) -> bool:
    """As one would say it: the word's letters in a row, nothing but other signs around and between its parts."""

    def plain(of: str) -> str:
        return re.sub(r"[^\w]+", " ", unicodedata.normalize("NFC", of).casefold()).strip()

    return f" {plain(word)} " in f" {plain(text)} "


@settings(max_examples=300, deadline=None)
@given(
    words=st.lists(st.text("abAé -", min_size=1, max_size=5).filter(str.strip), min_size=1, max_size=3),
    tokens=st.lists(st.integers(4, len(PIECES) - 1), max_size=12),
)
def test_what_is_forbidden_is_what_completes_a_word(words: list[str], tokens: list[int]) -> None:
    words = [word for word in words if any(letter.isalpha() for letter in word)]
    automaton = Words(words, PIECES, EOS)
    state = automaton.start
    for i, token in enumerate([*tokens, EOS]):
        completing = automaton.completing(state)
        forbidden = completing is not None and bool(completing[token])
        # A word is there once something ends it: a sign, or the end of the output.
        text = spelled(tokens[: i + 1])
        ended = text if token == EOS else re.sub(r"\w+$", "", text)
        assert forbidden == any(holds(ended, word) for word in words)
        if forbidden or token == EOS:
            return
        state = automaton.after(state, token)


@pytest.mark.parametrize("words", [[], ["-"], [" "]])
def test_no_words_forbid_nothing(words: list[str]) -> None:
    automaton = Words(words, PIECES, EOS)
    assert automaton.completing(automaton.start) is None
    assert automaton.completing(automaton.after(automaton.start, 8)) is None
