"""Duplicates are found as a set would find them; the report adds up. The filters' counts: test_token_store."""

from dataclasses import asdict
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.data.cleaning import Counts, Report, SeenBefore, SideCounts, counts_of, without_empty
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
    """What is kept, of it the copies and duplicates, is told apart from what is dropped."""
    one = Counts(
        10_000, 1, 2, 3, 4, 5, 60, 700, SideCounts(30_000, 140_000, 45_000, 50, 7), SideCounts(subwords=19_970)
    )
    two = Counts(10, empty=10)
    assert str(Report(("en", "de"), ("one", "a longer name"), (one, two))) == (
        "corpus          pairs  dropped: empty  copies  duplicates  too long  ratio  kept: all  copies  duplicates\n"
        "one            10,000               1       2           3         4      5      9,985      60         700\n"
        "a longer name      10              10       0           0         0      0          0       0           0\n"
        "all            10,010              11       2           3         4      5      9,985      60         700\n"
        "\n"
        "side          words  characters  subwords  unknown  longest  mean\n"
        "source (en)  30,000     140,000    45,000        7       50   4.5\n"
        "target (de)       0           0    19,970        0        0   2.0"
    )
    assert "all " not in str(Report(("en", "de"), ("one",), (one,))).replace("kept: all ", "")


def test_what_an_earlier_version_did_not_count_is_not_shown_as_zero() -> None:
    plain = asdict(Counts(5, kept_copies=1, source=SideCounts(subwords=9)))
    [known] = counts_of([plain])
    assert known == Counts(5, kept_copies=1, source=SideCounts(subwords=9))
    del plain["kept_copies"], plain["kept_duplicates"]
    [unknown] = counts_of([plain])
    assert unknown.kept_copies is unknown.kept_duplicates is None
    first, second, total = Report(("en", "de"), ("a", "b"), (known, unknown)).tables()[0][1:]
    assert (first[-2:], second[-2:], total[-2:]) == (["1", "0"], ["?", "?"], ["?", "?"])


def test_pairs_with_an_empty_side() -> None:
    full = [("a", "b"), (" a\t", "."), ("\u200b", "\ufeff")]
    assert without_empty([("", "b"), full[0], ("a", " \t\u3000"), *full[1:], ("\u2028", "\x85")]) == full
