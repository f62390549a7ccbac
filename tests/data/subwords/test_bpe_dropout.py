"""BPE-dropout is that of the paper, whatever is remembered, and the same in every process."""

from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from helpers.tokenizers import CHARACTERS, TOKENIZERS, learned, trained_elsewhere, without_end
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.subwords.bpe_dropout import DropoutEncoder
from nmt.data.subwords.vocabulary import Tokenizer
from nmt.errors import NmtError

Pieces = tuple[str, ...]
WITHOUT_LINE_FEED = CHARACTERS.filter(lambda character: character != "\n")  # which no text has


def cut(encoder: DropoutEncoder, lines: list[str], seed: int = 0) -> list[list[int]]:
    return without_end(encoder.encode(lines, np.random.default_rng(seed)), len(lines))


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text(WITHOUT_LINE_FEED, max_size=20), max_size=4), st.sampled_from(TOKENIZERS))
def test_without_dropout_nothing_is_left_out(lines: list[str], tokenizer: Tokenizer) -> None:
    assert cut(DropoutEncoder(tokenizer, 0.0), lines) == tokenizer.encode(lines)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.text(WITHOUT_LINE_FEED, max_size=20), max_size=4), st.sampled_from(TOKENIZERS), st.integers(0, 9))
def test_the_text_stays_the_same(lines: list[str], tokenizer: Tokenizer, seed: int) -> None:
    found = cut(DropoutEncoder(tokenizer, 0.5), lines, seed)
    if tokenizer.has_bytes:
        assert tokenizer.decode(found) == tokenizer.decode(tokenizer.encode(lines))
    assert all(len(own) >= len(plain) for own, plain in zip(found, tokenizer.encode(lines), strict=True))


def of_the_paper(pieces: Pieces, ranks: dict[str, int], p: float) -> Counter[Pieces]:
    """The probability of each way to cut a word: algorithm 1 with every choice of the merges that are left out."""
    merges = sorted((ranks[a + b], place) for place, (a, b) in enumerate(pairwise(pieces)) if a + b in ranks)
    found: Counter[Pieces] = Counter()
    for left_out in product([True, False], repeat=len(merges)):
        probability = float(np.prod([p if out else 1 - p for out in left_out]))
        kept = [place for (_, place), out in zip(merges, left_out, strict=True) if not out]
        if not kept:
            found[pieces] += probability
            continue
        place = kept[0]
        merged = (*pieces[:place], pieces[place] + pieces[place + 1], *pieces[place + 2 :])
        for way, share in of_the_paper(merged, ranks, p).items():
            found[way] += probability * share
    return found


@pytest.mark.parametrize(("word", "p"), [("mat", 0.1), ("the", 0.5), ("and", 0.9)])
def test_the_ways_have_the_probabilities_of_the_paper(word: str, p: float) -> None:
    tokenizer, times = learned(byte_fallback=False, size=60), 40_000
    ranks = {piece: -round(score) for piece, score in zip(tokenizer.every_piece(), tokenizer.scores(), strict=True)}
    expected = of_the_paper(tuple("▁" + word), {piece: rank for piece, rank in ranks.items() if len(piece) > 1}, p)
    assert sum(expected.values()) == pytest.approx(1) and len(expected) > 3
    found = Counter(tuple(tokenizer.pieces(ids)) for ids in cut(DropoutEncoder(tokenizer, p), [word] * times))
    assert found.keys() <= expected.keys()
    for way, probability in expected.items():
        deviation = (times * probability * (1 - probability)) ** 0.5
        assert abs(found[way] - times * probability) < 5 * deviation + 1, way


def test_what_is_remembered_changes_nothing() -> None:
    tokenizer = TOKENIZERS[0]
    lines = [["the cat sat", "on the mat"], ["thé çat", "これは猫です"], ["the cat sat", "it's 10 % of 3.5 €"]] * 3
    remembering, forgetting = DropoutEncoder(tokenizer, 0.3), DropoutEncoder(tokenizer, 0.3, most_nodes=10)
    for seed, some in enumerate(lines):
        new = cut(DropoutEncoder(tokenizer, 0.3), some, seed)
        assert cut(remembering, some, seed) == cut(forgetting, some, seed) == new
        assert cut(remembering, some, seed + 100) != new


def test_other_models_are_refused() -> None:
    with pytest.raises(NmtError, match=r"vocabulary.bpe_dropout: 0.1: the SentencePiece model does not use BPE"):
        DropoutEncoder(trained_elsewhere(model_type="unigram"), 0.1)


def test_models_of_byte_pairs_with_other_options() -> None:
    tokenizer = trained_elsewhere(split_by_whitespace=False)
    lines = ["the cat sat on the mat", "a <x> dog and a cat", ""]
    assert cut(DropoutEncoder(tokenizer, 0.0), lines) == tokenizer.encode(lines)
    found = cut(DropoutEncoder(tokenizer, 0.5), lines)
    assert tokenizer.decode(found) == tokenizer.decode(tokenizer.encode(lines)) and found != tokenizer.encode(lines)
