"""Subwords as words, in scripts with and without spaces, and attention between them."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.decoding.word_alignment import Word, to_words
from nmt.pages.inspect.inspect import attention_by_word

EOS = "</s>"


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ("▁The ▁animal ▁d id n ' t ▁cross .", ["The", "animal", "didn't", "cross", "."]),
        ("▁well - known ▁( or ▁not ) !", ["well-known", "(", "or", "not", ")!"]),
        ("▁( the ▁... ▁3 . 5 %", ["(", "the", "...", "3.5", "%"]),
        ("▁你好 ， 世界 。", ["你好", "，", "世界", "。"]),
        ("▁ 今日 は Python です", ["今日", "は", "Python", "です"]),
        ("▁مرح با ▁بال عالم", ["مرحبا", "بالعالم"]),
        ("▁caf <0xC3> <0xA9> ▁<0xF0>", ["café", "<0xF0>"]),
        ("<0xA0> ▁a ▁", ["\ufffd", "a", "▁"]),
    ],
)  # fmt: skip
def test_words(pieces: str, expected: list[str]) -> None:
    assert [word.text for word in to_words([*pieces.split(), EOS])] == [*expected, EOS]


PIECES = st.lists(
    st.sampled_from(["▁", "▁a", "b", ".", "你", "'", "<0xE4>", "<0xBD>", "<0xA0>", "▁(", "3"]), max_size=12
)


@settings(deadline=None, max_examples=20)
@given(PIECES)
def test_every_subword_is_in_one_word(pieces: list[str]) -> None:
    found = to_words([*pieces, EOS])
    assert [place for word in found for place in range(word.start, word.end)] == list(range(len(pieces) + 1))
    assert all(word.text for word in found)
    assert found[-1] == Word(EOS, len(pieces), len(pieces) + 1)


@settings(deadline=None, max_examples=10)
@given(PIECES, PIECES, st.integers(0, 1000))
def test_attention_between_words(rows: list[str], columns: list[str], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(2, len(rows) + 1, len(columns) + 1, generator=generator, dtype=torch.float64).softmax(dim=-1)
    targets, sources = to_words([*rows, EOS]), to_words([*columns, EOS])
    merged = attention_by_word(weights, targets, sources)
    torch.testing.assert_close(merged.sum(dim=-1), torch.ones(2, len(targets), dtype=torch.float64))
    for m, target in enumerate(targets):
        for n, source in enumerate(sources):
            block = weights[:, target.start : target.end, source.start : source.end]
            torch.testing.assert_close(merged[:, m, n], block.sum(dim=(1, 2)) / (target.end - target.start))
