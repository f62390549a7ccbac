"""How far a confidence can be trusted: the numbers that a person computes, and faults that they show."""

import random

import pytest

from nmt.evaluation.reliability import Reliability, measure_reliability


def measured(confidence: list[float], chrf: list[float], log_probability: list[float] | None = None) -> Reliability:
    found = measure_reliability("val.en", list(zip(confidence, log_probability or confidence, strict=True)), chrf)
    assert found is not None
    return found


def test_numbers_computed_by_hand() -> None:
    """Deviations of the confidence: -12.5, -2.5, -2.5, 17.5, and of chrF: -20, 0, -10, 30. Of their ranks: -1.5, 0, 0,
    1.5, as equal values share theirs, and -1.5, 0.5, -0.5, 1.5; of those of log P: -1.5, 1.5, 0.5, -0.5."""
    found = measured([10, 20, 20, 40], [5, 25, 15, 55], [-4, -1, -2, -3])
    assert (found.calibration, found.lines) == ("val.en", [1, 1, 1, 1])
    assert found.expected == [10, 20, 20, 40] and found.real == [5, 25, 15, 55]
    assert (found.error, found.worst_found) == (7.5, 1)
    confidence, log_probability = found.correlations["confidence"], found.correlations["log_probability"]
    assert confidence == {
        "pearson": pytest.approx(800 / (475 * 1400) ** 0.5),
        "spearman": pytest.approx(4.5 / (4.5 * 5) ** 0.5),
    }
    assert log_probability["spearman"] == pytest.approx(2 / 5)


def test_bins_are_groups_of_nearly_equal_size_by_confidence() -> None:
    """The worst three are the surest, the sixth and the first: only the last one is among the least sure five."""
    order = random.Random(1).sample(range(25), 25)
    found = measured(list(map(float, order)), [{24: 0.0, 5: 1.0}.get(i, 10.0 + 3 * i) for i in order])
    assert found.lines == [3] * 5 + [2] * 5
    assert found.expected == [1, 4, 7, 10, 13, 15.5, 17.5, 19.5, 21.5, 23.5]
    assert found.real == [13, 14, *(10 + 3 * one for one in found.expected[2:-1]), (10 + 3 * 23) / 2]
    assert found.worst_found == pytest.approx(1 / 3)


def test_lines_without_words_are_left_out() -> None:
    """A confidence of 0 is not left out."""
    found = measure_reliability("val.en", [(None, 0.0), (0.0, -1.0), (50.0, -2.0)], [0.0, 10.0, 60.0])
    assert found is not None and (found.expected, found.error) == ([0, 50], 10)
    assert measure_reliability("val.en", [(None, 0.0)], [0.0]) is None


@pytest.mark.parametrize(("confidence", "chrf"), [([0.1, 0.1, 0.1], [1.0, 2.0, 3.0]), ([1.0, 2.0], [0.7, 0.7])])
def test_equal_values_have_no_correlation(confidence: list[float], chrf: list[float]) -> None:
    assert measured(confidence, chrf).correlations["confidence"] == {"pearson": None, "spearman": None}


def test_a_planted_fault_is_visible() -> None:
    """What is wrong with single lines averages out in the bins. A confidence that is too high, or that knows nothing
    about the lines, does not."""
    draws = random.Random(1)
    confidence = [draws.uniform(20, 80) for _ in range(1_000)]
    chrf = [draws.gauss(one, 8) for one in confidence]
    good, high = measured(confidence, chrf), measured([one + 15 for one in confidence], chrf)
    blind = measured(draws.sample(confidence, 1_000), chrf)
    assert good.error < 2 and high.error == pytest.approx(15, abs=2) and blind.error > 10
    assert good.correlations == {name: pytest.approx(one) for name, one in high.correlations.items()}
    assert good.worst_found > 0.8 and blind.worst_found < 0.4
    assert abs(blind.correlations["confidence"]["spearman"] or 0) < 0.15
