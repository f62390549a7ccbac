"""The shortlist: IBM model 1 as in a plain implementation, and what belongs to each row."""

import random
from collections import defaultdict

import numpy as np
import pytest
from helpers.model_files import tokenizer

from nmt.data.batches.token_store import FlatSequences, TokenStore
from nmt.data.subwords import shortlist
from nmt.data.subwords.encoding import encode_pairs
from nmt.data.subwords.shortlist import Shortlist
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from nmt.errors import NmtError


def random_pairs(count: int) -> list[tuple[list[int], list[int]]]:
    """Ids from 4 to 19, EOS at the end; some sources and targets are EOS alone, and subwords are repeated."""
    chance = random.Random(3)
    return [
        tuple([*chance.choices(range(4, 20), k=chance.choice([0, 1, 3, 6])), EOS] for _ in range(2))  # type: ignore[misc]
        for _ in range(count)
    ]


def store(pairs: list[tuple[list[int], list[int]]]) -> TokenStore:
    return TokenStore(*(FlatSequences.from_lists([pair[side][:-1] for pair in pairs], 20) for side in (0, 1)))


def plain_model_1(pairs: list[tuple[list[int], list[int]]], iterations: int) -> dict[tuple[int, int], float]:
    """P(target | source) of each pair of subwords; the words of the paper: EOS of the source is the empty word."""
    probabilities = defaultdict[tuple[int, int], float](lambda: 1.0)
    for _ in range(iterations):
        counts, totals = defaultdict[tuple[int, int], float](float), defaultdict[int, float](float)
        for source, target in pairs:
            for t in target[:-1]:
                total = sum(probabilities[s, t] for s in source)
                for s in source:
                    counts[s, t] += probabilities[s, t] / total
                    totals[s] += probabilities[s, t] / total
        probabilities = defaultdict(float, {(s, t): count / totals[s] for (s, t), count in counts.items()})
    return probabilities


@pytest.mark.parametrize("at_once", [50, 10**6])
def test_model_1_is_that_of_a_plain_implementation(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlist, "_AT_ONCE", at_once)
    pairs = random_pairs(100)
    sources, targets, probabilities = shortlist._model_1(store(pairs), 20)
    expected = plain_model_1(pairs, shortlist._ITERATIONS)
    found = {(s, t): p for s, t, p in zip(sources.tolist(), targets.tolist(), probabilities.tolist(), strict=True)}
    assert found.keys() == expected.keys() and found == pytest.approx(expected, abs=1e-9)
    assert max(p for p in found.values()) > 0.5  # it has learned something
    monkeypatch.setattr(shortlist, "_MOST", 60)  # pairs of subwords; the text has more than twice as many
    monkeypatch.setattr(shortlist, "_LONGEST", 4)
    used = [pair for pair in pairs if len(pair[1]) > 1 and max(map(len, pair)) <= 4]
    count = sum(len(source) * (len(target) - 1) for source, target in used)
    expected = plain_model_1(used[:: count // 60 + 1], shortlist._ITERATIONS)
    assert count > 120 and shortlist._model_1(store(pairs), 20)[2].tolist() == pytest.approx(
        [expected[key] for key in sorted(expected)], abs=1e-9
    )


def test_a_row_has_the_most_probable_subwords_and_the_same_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of EOS also has the most frequent ones, bytes, and characters of ASCII."""
    monkeypatch.setattr(shortlist, "_BEST", 2)
    monkeypatch.setattr(shortlist, "_FREQUENT", 5)
    monkeypatch.setattr(shortlist, "_LONGEST", 9)
    vocabulary = Vocabulary(tokenizer(301), tokenizer(297))
    lines = [("one two", "eins zwei"), ("two", "zwei"), ("three one", "drei eins"), ("four", ""), ("", "vier")] * 3
    pairs = encode_pairs([*lines, ("five " * 9, "fünf " * 9)], vocabulary)
    found, width = shortlist.learn(pairs, vocabulary), len(vocabulary.target)
    found.check("it", vocabulary)
    sources, targets, probabilities = shortlist._model_1(pairs, width)
    pieces, source_pieces = vocabulary.target.every_piece(), vocabulary.source.every_piece()
    are_bytes = vocabulary.target.are_bytes()
    always = {PAD, UNK, BOS, EOS} | {i for i, is_byte in enumerate(are_bytes) if is_byte}
    always |= {i for i, piece in enumerate(pieces) if len(piece.replace("▁", "").encode()) < 2}
    always |= set(np.argsort(-np.bincount(pairs.target.ids, minlength=width), kind="stable")[:5].tolist())
    for source, piece in enumerate(source_pieces):
        own = sources == source
        best = targets[own][np.argsort(-probabilities[own], kind="stable")][:2].tolist()
        same = [pieces.index(piece)] if piece in pieces else []
        assert found.row(source).tolist() == sorted({*best, *same, *(always if source == EOS else ())}), piece
    [two], [zwei] = vocabulary.source.encode(["two"])[0][:1], vocabulary.target.encode(["zwei"])[0][:1]
    assert zwei in found.row(two)
    assert found.allowed([two]).tolist() == sorted({*found.row(two).tolist(), *found.row(EOS).tolist()})


def test_covered_is_the_share_of_target_subwords_without_eos() -> None:
    rows = [[], [], [], [EOS, 9], [4, 5], [6], []]
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    given = Shortlist(offsets, np.array([i for row in rows for i in row], np.int32))
    pairs = store([([4, 5, EOS], [4, 6, 7, EOS]), ([6, EOS], [9, 4, EOS])])
    assert given.covered(pairs) == (3 / 5, (5 + 2) / 2)


@pytest.mark.parametrize(
    ("offsets", "targets"),
    [
        ([0, 1], [4]),
        ([0] * 300 + [2], [4]),
        ([0] * 299 + [2, 1], [4]),
        ([0] * 300 + [1], [300]),
        ([1] * 301, [4]),
        ([0, 2**31 - 1, -(2**31), *[-1] * 297, 1], [4]),
    ],
)
def test_what_does_not_belong_to_the_vocabulary_is_refused(offsets: list[int], targets: list[int]) -> None:
    given = Shortlist(np.array(offsets, np.int32), np.array(targets, np.int32))
    with pytest.raises(NmtError, match="it: its shortlist does not belong to its vocabulary"):
        given.check("it", Vocabulary(tokenizer(), tokenizer()))
