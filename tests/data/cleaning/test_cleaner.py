"""Duplicates are found as a set would find them. The filters' counts: test_encoding."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.cleaning.cleaner import SeenPairs, hashes_of
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


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("Ein  größeres Haus ", True), ("Ein gro\u0308ßeres Haus", True), ("Ein größe\u00adres Haus", True),
        ("ein größeres Haus", False), ("Eingrößeres Haus", False),
    ],
)  # fmt: skip
def test_duplicates_are_what_a_model_reads_as_equal(text: str, same: bool) -> None:
    """Not those that differ in case or punctuation, which a model can learn."""
    plain = "Ein größeres Haus"
    for one, other in (((text, "a  b"), (plain, "a b")), (("a\tb", text), ("a b", plain))):
        first, second = hashes_of([one, other])
        assert bool(first == second) == same
    assert len(set(hashes_of([("a b", "c"), ("a", "b c"), ("a b c", "c")]).tolist())) == 3
