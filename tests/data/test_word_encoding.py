"""Encoding word by word gives what SentencePiece gives for the whole line, whatever the text and the vocabulary."""

import io
import random
from typing import Any

import numpy as np
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nmt.config import schema
from nmt.data import vocabulary
from nmt.data.vocabulary import EOS, Tokenizer
from nmt.data.word_encoding import WordEncoder, separates_words
from nmt.errors import NmtError

SENTENCES = [
    "the cat sat on the mat",
    "a dog and a cat",
    "thé çat, ﬁne Ａ１",
    "これは猫です。 猫",
    "it's 10 % of 3.5 €",
] * 9
NORMALIZATIONS = ("nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity")


def learned(**changed: Any) -> Tokenizer:
    return vocabulary.learn(SENTENCES, schema.VocabularyConfig(**({"size": 360} | changed)))


TOKENIZERS = [
    *(learned(normalization=name) for name in NORMALIZATIONS),
    *(learned(normalization=name, byte_fallback=False, size=100) for name in NORMALIZATIONS),
]
CHARACTERS = st.sampled_from("  ab cthe▁\u0301\u00a8\u200b\u3000\u00a0\u0085\u2028\t\r猫で…ﬁ⁇😀") | st.characters(
    codec="utf-8"
)


def trained_elsewhere(**options: Any) -> Tokenizer:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.Train(
        sentence_iterator=iter(SENTENCES), model_writer=model, vocab_size=90, pad_id=0, unk_id=1, bos_id=2, eos_id=3,
        minloglevel=2, hard_vocab_limit=options.get("model_type") != "unigram", **({"model_type": "bpe"} | options),
    )  # fmt: skip
    return Tokenizer(model.getvalue())


def encoded(encoder: WordEncoder, lines: list[str]) -> list[list[int]]:
    found = encoder.encode(lines)
    assert found.offsets.tolist() == [0, *found.lengths.cumsum().tolist()] and len(found.ids) == found.offsets[-1]
    sequences = [ids.tolist() for ids in found.take(np.arange(len(lines)))]
    assert all(ids.pop() == EOS for ids in sequences)
    return sequences


@settings(deadline=None, max_examples=300)
@given(st.lists(st.text(CHARACTERS, max_size=20), max_size=4), st.sampled_from(TOKENIZERS))
@example([], TOKENIZERS[0])
@example(["", " ", "  the  cat "], TOKENIZERS[0])
@example(["a ▁ b", "▁", "x▁ y"], TOKENIZERS[1])
@example(["two \n lines", "one\nword"], TOKENIZERS[0])
def test_equals_sentencepiece(lines: list[str], tokenizer: Tokenizer) -> None:
    encoder = WordEncoder(tokenizer)
    for _ in range(2):  # with nothing known, and with all words known
        assert encoded(encoder, lines) == tokenizer.encode(lines)


@pytest.mark.parametrize("most", [0, 10, 10**6])
def test_forgets_and_learns_again(most: int) -> None:
    random_ = random.Random(1)
    words = " ".join(SENTENCES[:5]).split()
    encoder = WordEncoder(TOKENIZERS[0], most_characters=most)
    for _ in range(20):
        lines = [" ".join(random_.choices(words, k=random_.randrange(9))) for _ in range(7)]
        assert encoded(encoder, lines) == TOKENIZERS[0].encode(lines)


@pytest.mark.parametrize(
    "options",
    [
        {"treat_whitespace_as_suffix": True},
        {"add_dummy_prefix": False},
        {"model_type": "unigram", "split_by_whitespace": False},
        {"remove_extra_whitespaces": False},
    ],
)
def test_vocabularies_that_do_not_separate_words(options: dict[str, Any]) -> None:
    other = trained_elsewhere(**options)
    assert not separates_words(other)
    lines = [" the cat  sat", "on the mat ", ""]
    assert encoded(WordEncoder(other), lines) == other.encode(lines)


@pytest.mark.parametrize("options", [{}, {"model_type": "unigram"}, {"user_defined_symbols": ["<sep>"]}])
def test_vocabularies_of_others_that_do(options: dict[str, Any]) -> None:
    other = trained_elsewhere(**options)
    assert separates_words(other)
    lines = ["the <sep> cat  sat", "a<sep>b", "猫 of"]
    assert encoded(WordEncoder(other), lines) == other.encode(lines)


def test_a_line_that_is_not_text_is_named() -> None:
    encoder = WordEncoder(TOKENIZERS[0])
    with pytest.raises(NmtError, match="line 2 of 3: character 5 is half of a surrogate pair"):
        encoder.encode(["the cat", "the \ud800 cat", "a dog"])
    assert encoded(encoder, ["the cat"]) == TOKENIZERS[0].encode(["the cat"])
