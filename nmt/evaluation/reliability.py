"""How far the confidence of a model can be trusted on a text."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Reliability:
    """How well the confidence agrees with sentence chrF. calibration: what it was fitted to; left_out: the number of
    lines without words; lines, expected, real: the number of lines, mean confidence and mean chrF of at most ten bins,
    lowest confidence first; error: the mean of |expected - real|; worst_found: the share of the tenth of the lines with
    the lowest chrF that is in the fifth with the lowest confidence; correlations: `pearson` and `spearman` with chrF,
    of `confidence` and of the mean `log_probability` of a subword; None if all are equal."""

    calibration: str
    left_out: int
    lines: list[int]
    expected: list[float]
    real: list[float]
    error: float
    worst_found: float
    correlations: dict[str, dict[str, float | None]]


def measure_reliability(
    calibration: str, rated: Sequence[tuple[float | None, float]], chrf: Sequence[float]
) -> Reliability | None:
    """rated: the confidence and the mean log P per subword of each line, or nothing. None without a confidence."""
    known = [(*pair, score) for pair, score in zip(rated, chrf, strict=bool(rated)) if pair[0] is not None]
    if not known:
        return None
    confidence, log_p, scores = np.array(known, dtype=float).T
    order, worst = (values.argsort(kind="stable") for values in (confidence, scores))
    bins = np.array_split(order, min(10, len(known)))
    expected, real = (np.array([values[lines].mean() for lines in bins]) for values in (confidence, scores))
    columns = list(map(len, bins)), expected.tolist(), real.tolist()
    tenth, fifth = (-(-len(known) // parts) for parts in (10, 5))  # rounded up
    found = len({*worst[:tenth]} & {*order[:fifth]}) / tenth
    correlations = {"confidence": _with(scores, confidence), "log_probability": _with(scores, log_p)}
    error = float(abs(expected - real).mean())
    return Reliability(calibration, len(rated) - len(known), *columns, error, found, correlations)


def _with(chrf: np.ndarray, values: np.ndarray) -> dict[str, float | None]:
    pairs = {"pearson": (values, chrf), "spearman": (_ranks(values), _ranks(chrf))}
    varies = np.ptp(values) > 0 and np.ptp(chrf) > 0
    return {name: float(np.corrcoef(*pair)[0, 1]) if varies else None for name, pair in pairs.items()}


def _ranks(values: np.ndarray) -> np.ndarray:
    """The rank of each value; equal values have the mean of their ranks."""
    ordered = np.sort(values)
    return (ordered.searchsorted(values) + ordered.searchsorted(values, "right")) / 2
