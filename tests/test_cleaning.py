"""Duplicates are found as a set would find them; the report adds up. The filters' counts: test_token_store."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.cleaning import Counts, Report, SeenBefore, SideCounts, without_empty
from nmt.data.corpus import Pair


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(*[st.text("ab", max_size=2)] * 2), max_size=30), max_size=12))
def test_seen_before_is_a_set(chunks: list[list[Pair]]) -> None:
    seen, plain = SeenBefore(), set()
    for chunk in filter(None, chunks):
        expected = []
        for pair in chunk:
            expected.append(pair not in plain)
            plain.add(pair)
        assert seen.add(chunk).tolist() == expected
    sizes = [len(run) for run in seen.runs]
    assert sum(sizes) == len(plain)
    assert all(larger > smaller for larger, smaller in pairwise(sizes))


def test_report() -> None:
    one = Counts(10_000, 1, 2, 3, 4, 5, SideCounts(30_000, 140_000, 45_000, 50, 7), SideCounts(subwords=19_970))
    two = Counts(10, empty=10)
    assert str(Report(("en", "de"), ("one", "a longer name"), (one, two))) == (
        "corpus          pairs  empty  copies  duplicates  too long  ratio   kept\n"
        "one            10,000      1       2           3         4      5  9,985\n"
        "a longer name      10     10       0           0         0      0      0\n"
        "all            10,010     11       2           3         4      5  9,985\n"
        "\n"
        "side          words  characters  subwords  unknown  longest  mean\n"
        "source (en)  30,000     140,000    45,000        7       50   4.5\n"
        "target (de)       0           0    19,970        0        0   2.0"
    )
    assert "all " not in str(Report(("en", "de"), ("one",), (one,)))


def test_pairs_with_an_empty_side() -> None:
    full = [("a", "b"), (" a\t", "."), ("\u200b", "\ufeff")]
    assert without_empty([("", "b"), full[0], ("a", " \t\u3000"), *full[1:], ("\u2028", "\x85")]) == full
