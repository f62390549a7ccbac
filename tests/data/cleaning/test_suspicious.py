"""Planted faults are the most suspicious pairs of their kind."""

import random

import pytest

from nmt.config import schema
from nmt.data.cleaning.statistics import CorpusStatistics, StatisticsCounter
from nmt.data.subwords import vocabulary
from nmt.data.subwords.encoding import encode_pairs
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.pages.prepare.page import SUSPICIONS

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "theta", "kappa"]
PLANTED = {
    "longer_target": ("alpha beta", " ".join(WORDS * 2)),
    "longer_source": (" ".join(WORDS * 2), "alpha beta"),
    "equal": ("alpha beta gamma delta", "alpha beta gamma delta"),
    "digits": ("alpha 1234567 beta", "alpha beta"),
    "unknown": ("alpha ☃☂ beta", "alpha beta"),
    "small_subwords": ("zqxjk vwqzx ppfgh", "alpha beta gamma"),
}


@pytest.fixture(scope="module")
def found() -> CorpusStatistics:
    """Of 500 pairs of the same number of words, with a planted pair of each kind among them."""
    dice = random.Random(1)
    sides = [[" ".join(dice.choices(WORDS, k=5)) for _ in range(500)] for _ in range(2)]
    pairs = [pair for pair in zip(*sides, strict=True) if pair[0] != pair[1]]
    text = [*(line for pair in pairs for line in pair), "abcdefghijklmnopqrstuvwxyz 0123456789"]
    settings = schema.VocabularyConfig(size=400, character_coverage=1.0)
    subwords = Vocabulary(*[vocabulary.learn(text, settings)] * 2)
    for place, pair in enumerate(PLANTED.values()):
        pairs.insert(37 * place, pair)
    counter = StatisticsCounter(subwords)
    for start in range(0, len(pairs), 64):
        part = pairs[start : start + 64]
        counter.add(part, encode_pairs(part, subwords))
    return counter.result()


@pytest.mark.parametrize("kind", SUSPICIONS)
def test_the_planted_one_comes_first(found: CorpusStatistics, kind: str) -> None:
    examples = found.suspicious.rules[kind]
    assert (examples.nearly_dropped[0].source, examples.nearly_dropped[0].target) == PLANTED[kind]
    assert (examples.dropped, len(examples.dropped_examples)) == (0, 0)
    assert len(examples.nearly_dropped) <= 10


def test_scores_can_be_checked_by_hand(found: CorpusStatistics) -> None:
    first = {kind: one.nearly_dropped[0].score for kind, one in found.suspicious.rules.items()}
    assert first["equal"] == len("alpha beta gamma delta")
    assert first["digits"] == pytest.approx(7 / 9)
    assert first["longer_target"] == first["longer_source"] and (first["longer_target"] or 0) > 5
    assert SUSPICIONS.keys() == first.keys()
