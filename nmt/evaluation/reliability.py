"""How reliable the confidence of a model is on a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reliability:
    """How well the confidence agrees with sentence chrF. The lines are in at most ten bins, lowest confidence first."""

    calibration: str  # what it was fitted to
    lines: list[int]  # of each bin
    expected: list[float]  # the mean confidence of each bin
    real: list[float]  # the mean chrF of each bin
    error: float  # the mean of |expected - real|
    worst_found: float  # the share of the tenth with the lowest chrF that is in the fifth with the lowest confidence
    correlations: dict[str, dict[str, float | None]]  # with chrF; None if all values are equal


def measure_reliability(
    calibration: str, rated: Sequence[tuple[float | None, float]], chrf: Sequence[float]
) -> Reliability | None:
    """rated: the confidence and the mean log P of a subword, of each line. Lines without confidence are left out; None
    if all are."""
    lines = [(*pair, score) for pair, score in zip(rated, chrf, strict=True) if pair[0] is not None]
    if not lines:
        return None
    confidence, log_p, scores = np.array(lines, dtype=float).T
    order, worst = confidence.argsort(kind="stable"), scores.argsort(kind="stable")
    bins = np.array_split(order, min(10, len(lines)))
    expected, real = (np.array([values[indices].mean() for indices in bins]) for values in (confidence, scores))
    tenth, fifth = -(-len(lines) // 10), -(-len(lines) // 5)  # rounded up
    found = len({*worst[:tenth]} & {*order[:fifth]}) / tenth
    correlations = {"confidence": _with(scores, confidence), "log_probability": _with(scores, log_p)}
    columns = list(map(len, bins)), expected.tolist(), real.tolist()
    return Reliability(calibration, *columns, float(abs(expected - real).mean()), found, correlations)


def _with(chrf: np.ndarray, values: np.ndarray) -> dict[str, float | None]:
    pairs = {"pearson": (values, chrf), "spearman": (_ranks(values), _ranks(chrf))}
    varies = np.ptp(values) > 0 and np.ptp(chrf) > 0
    return {name: float(np.corrcoef(*pair)[0, 1]) if varies else None for name, pair in pairs.items()}


def _ranks(values: np.ndarray) -> np.ndarray:
    ordered = np.sort(values)
    return (ordered.searchsorted(values) + ordered.searchsorted(values, "right")) / 2  # of equal values: the mean
