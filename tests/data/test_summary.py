"""The report on the training data adds up, and its headings name the right numbers."""

import json
from dataclasses import asdict

from nmt.data.summary import CorpusCounts, DataSummary, SideCounts, counts_from

EXPECTED = """\
corpus          pairs  dropped: empty  copies  duplicates  too long  length ratio   kept  kept copies  kept duplicates
one            10,000               1       2           3         4             5  9,985           60              700
a longer name      10              10       0           0         0             0      0            0                0
all            10,010              11       2           3         4             5  9,985           60              700

side          words  characters  subwords  unknown  longest  mean
source (en)  30,000     140,000    45,000        7       50   4.5
target (de)       0           0    19,970        0        0   2.0"""


def test_report() -> None:
    """Of the pairs kept, the copies and duplicates are apart from those that were dropped."""
    one = CorpusCounts(
        10_000, 1, 2, 3, 4, 5, 60, 700, SideCounts(30_000, 140_000, 45_000, 50, 7), SideCounts(subwords=19_970)
    )
    two = CorpusCounts(10, empty=10)
    assert str(DataSummary(("en", "de"), ("one", "a longer name"), (one, two))) == EXPECTED
    assert "all " not in str(DataSummary(("en", "de"), ("one",), (one,)))


CLEANED = """\
corpus  pairs  dropped: empty  copies  duplicates  rules  too long  length ratio  kept  kept copies  kept duplicates
one     1,000               1       2           3     30         4             5   955            0                0
two       100               0       0           0      0         0             0   100            0                0
all     1,100               1       2           3     30         4             5  1,055            0                0

dropped by the rules  digits  near_duplicates
one                       10               20
two                        0                0
all                       10               20
"""


def test_report_on_cleaned_text() -> None:
    """A corpus whose counts have no rules has none that dropped pairs."""
    one = CorpusCounts(1000, 1, 2, 3, 4, 5, rules={"digits": 10, "near_duplicates": 20})
    two = CorpusCounts(100)
    report = str(DataSummary(("en", "de"), ("one", "two"), (one, two)))
    assert [line.split() for line in report.split("\n")][:10] == [line.split() for line in CLEANED.split("\n")]
    assert one + two == two + one and (one + one).rules == {"digits": 20, "near_duplicates": 40}
    assert list(one.dropped.values()) == [1, 2, 3, 10, 20, 4, 5] and one.kept == 955
    assert "different numbers (data.clean.digits)" in one.dropped
    [again] = counts_from(json.loads(json.dumps([asdict(one)])))
    assert again == one


def test_what_an_earlier_version_did_not_count_is_not_shown_as_zero() -> None:
    plain = asdict(CorpusCounts(5, kept_copies=1, source=SideCounts(subwords=9)))
    [known] = counts_from([plain])
    assert known == CorpusCounts(5, kept_copies=1, source=SideCounts(subwords=9))
    del plain["kept_copies"], plain["kept_duplicates"], plain["rules"]
    [unknown] = counts_from([plain])
    assert unknown.kept_copies is unknown.kept_duplicates is None
    first, second, total = DataSummary(("en", "de"), ("a", "b"), (known, unknown)).tables()[0][1:]
    assert (first[-2:], second[-2:], total[-2:]) == (["1", "0"], ["?", "?"], ["?", "?"])
