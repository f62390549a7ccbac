"""Encoding word by word gives what SentencePiece gives for the whole line, whatever the text and the vocabulary."""

import random
from typing import Any

import pytest
from helpers.tokenizers import CHARACTERS, SENTENCES, TOKENIZERS, trained_elsewhere, without_end
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.data.subwords.vocabulary import Tokenizer
from nmt.data.subwords.word_encoding import WordEncoder, separates_words


def encoded(encoder: WordEncoder, lines: list[str]) -> list[list[int]]:
    return without_end(encoder.encode(lines), len(lines))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.text(CHARACTERS, max_size=20), max_size=4), st.sampled_from(TOKENIZERS))
@example([], TOKENIZERS[0])
@example(["", " ", "  the  cat "], TOKENIZERS[0])
@example(["a ▁ b", "▁", "x▁ y"], TOKENIZERS[1])
@example(["two \n lines", "one\nword"], TOKENIZERS[0])
def test_equals_sentencepiece(lines: list[str], tokenizer: Tokenizer) -> None:
    encoder = WordEncoder(tokenizer)
    for _ in range(2):  # with nothing known, and with all words known
        assert encoded(encoder, lines) == tokenizer.encode(lines)


def test_forgets_and_learns_again() -> None:
    random_ = random.Random(1)
    words = " ".join(SENTENCES[:5]).split()
    encoder = WordEncoder(TOKENIZERS[0], most_characters=0)
    for _ in range(20):
        lines = [" ".join(random_.choices(words, k=random_.randrange(9))) for _ in range(7)]
        assert encoded(encoder, lines) == TOKENIZERS[0].encode(lines)


@pytest.mark.parametrize(
    "options",
    [
        {"treat_whitespace_as_suffix": True},
        {"model_type": "unigram", "split_by_whitespace": False},
    ],
)
def test_vocabularies_that_do_not_separate_words(options: dict[str, Any]) -> None:
    other = trained_elsewhere(**options)
    assert not separates_words(other)
    lines = [" the cat  sat", "on the mat ", ""]
    assert encoded(WordEncoder(other), lines) == other.encode(lines)
