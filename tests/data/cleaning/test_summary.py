"""The report on the training data adds up, and its headings name the right numbers."""

import json
from dataclasses import asdict

import pytest

from nmt.data.cleaning.summary import CorpusCounts, DataSummary, SideChanges, SideCounts, counts_from

EXPECTED = """\
corpus          pairs  dropped: empty  copies  too long  length ratio   kept  kept copies  kept duplicates
one            10,000               1       2         4             5  9,988           60              700
a longer name      10              10       0         0             0      0            0                0
all            10,010              11       2         4             5  9,988           60              700

side          words  characters  subwords  unknown  longest  mean
source (en)  30,000     140,000    45,000        7       50   4.5
target (de)       0           0    19,970        0        0   2.0"""

NARROW = """\
corpus: one
  pairs 10,000, dropped: empty 1, copies 2, too long 4, length ratio 5,
  kept 9,988, kept copies 60, kept duplicates 700
corpus: a longer name
  pairs 10, dropped: empty 10
corpus: all
  pairs 10,010, dropped: empty 11, copies 2, too long 4, length ratio 5,
  kept 9,988, kept copies 60, kept duplicates 700
"""


def summary_of(**counts: CorpusCounts) -> DataSummary:
    """Of corpora of these names, in which nothing is changed or noted."""
    changes = (SideChanges(0, 0, (), 0, ()), SideChanges(0, 0, (), 0, ()))
    return DataSummary(("en", "de"), tuple(counts), tuple(counts.values()), changes, ((),) * len(counts))


def test_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the pairs kept, the copies and duplicates are apart from those that were dropped. What was not dropped is left
    out, and on a narrow terminal each corpus has lines of its own."""
    monkeypatch.setenv("COLUMNS", "120")
    one = CorpusCounts(
        10_000, 1, 2, 0, 4, 5, 60, 700, SideCounts(30_000, 140_000, 45_000, 50, 7), SideCounts(subwords=19_970)
    )
    two = CorpusCounts(10, empty=10)
    summary = summary_of(one=one, **{"a longer name": two})
    assert str(summary) == EXPECTED
    assert "all " not in str(summary_of(one=one))
    monkeypatch.setenv("COLUMNS", "72")
    assert str(summary).startswith(NARROW)
    nothing_dropped = str(summary_of(one=CorpusCounts(10, rules={"digits": 0})))
    assert nothing_dropped.split("\n")[:3] == ["corpus  pairs  kept", "one        10    10", ""]
    assert "rules" not in nothing_dropped


CLEANED = """\
corpus  pairs  dropped: empty  copies  duplicates  rules  too long  length ratio  kept
one     1,000               1       2           3     30         4             5   955
two       100               0       0           0      0         0             0   100
all     1,100               1       2           3     30         4             5  1,055

dropped by the rules  digits  near_duplicates
one                       10               20
two                        0                0
all                       10               20
"""


def test_report_on_cleaned_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """A corpus whose counts have no rules has none that dropped pairs."""
    monkeypatch.setenv("COLUMNS", "120")
    one = CorpusCounts(1000, 1, 2, 3, 4, 5, rules={"digits": 10, "near_duplicates": 20})
    two = CorpusCounts(100)
    report = str(summary_of(one=one, two=two))
    assert [line.split() for line in report.split("\n")][:10] == [line.split() for line in CLEANED.split("\n")]
    assert one + two == two + one and (one + one).rules == {"digits": 20, "near_duplicates": 40}
    assert [dropped.pairs for dropped in one.dropped] == [1, 2, 3, 10, 20, 4, 5] and one.kept == 955
    assert "different numbers (data.clean.digits)" in map(str, one.dropped)
    [again] = counts_from(json.loads(json.dumps([asdict(one)])))
    assert again == one
