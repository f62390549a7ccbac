"""Duplicates are found as a set would find them. The filters' counts: test_encoding."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.config.schema import Corpus, DataConfig
from nmt.data.cleaning.cleaner import Cleaner, RawChunk, SeenPairs, hashes_of, without_empty
from nmt.data.sources.corpus import Pair


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(*[st.text("ab", max_size=2)] * 2), max_size=30), max_size=12))
def test_seen_before_is_a_set(chunks: list[list[Pair]]) -> None:
    seen, plain = SeenPairs(), set()
    for chunk in filter(None, chunks):
        expected = []
        for pair in chunk:
            expected.append(pair not in plain)
            plain.add(pair)
        assert seen.add(chunk).tolist() == expected
    sizes = [len(array) for array in seen.arrays]
    assert sum(sizes) == len(plain)
    assert all(larger > smaller for larger, smaller in pairwise(sizes))


def test_pairs_with_an_empty_side() -> None:
    full = [("a", "b"), (" a\t", "."), ("\u200b", "\ufeff")]
    assert without_empty([("", "b"), full[0], ("a", " \t\u3000"), *full[1:], ("\u2028", "\x85")]) == full


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Ein  größeres Haus ", True), ("Ein\u00a0größeres Haus", True), ("Ein gro\u0308ßeres Haus", True),
        ("Ein größe\u00adres Haus", True), ("\ufeffEin größeres\tHaus", True), ("ein größeres Haus", False),
        ("Ein größeres Haus.", False), ("Ein grosseres Haus", False), ("Eingrößeres Haus", False),
    ],
)  # fmt: skip
def test_duplicates_are_what_a_model_reads_as_equal(text: str, same: bool) -> None:
    """Not those that differ in case or punctuation, which a model can learn."""
    plain = "Ein größeres Haus"
    for one, other in (((text, "a  b"), (plain, "a b")), (("a\tb", text), ("a b", plain))):
        first, second = hashes_of([one, other])
        assert bool(first == second) == same
    assert len(set(hashes_of([("a b", "c"), ("a", "b c"), ("a b c", "c")]).tolist())) == 3


def test_the_lowest_and_highest_scores_are_of_the_pairs_that_the_rules_look_at() -> None:
    """Not of those that are empty or duplicates."""
    data = DataConfig("en", "de", (Corpus(file="a.tsv"),), drop_duplicates=True)
    pairs = [("a", "b"), ("", "b"), ("a", "b"), ("c", "d"), ("e", "f")]
    chunks = [RawChunk(0, 0, pairs, [-2.0, -9.0, 0.0, -1.0, float("nan")]), RawChunk(0, 1, pairs[:1], [-8.0])]
    assert [chunk.counts.scores for chunk in Cleaner(data).clean(chunks)] == [(-2.0, -1.0), None]
