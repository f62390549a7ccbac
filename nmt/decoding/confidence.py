"""The confidence of a translation: its expected chrF, from 0 to 100.

A logistic regression on what every search returns: log P(Y|X), the lengths and the text. Source: Papke and Wooldridge
1996, a regression for fractions; Fomicheva et al. 2020, quality estimation without a second model.
"""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from nmt.decoding.translation import Translation

CALIBRATION = "calibration"  # the entry in the provenance of a model
LEAST_SENTENCES = 200  # to fit a calibration
_WEIGHTS = 5  # of four features, and the constant
_LOW_CORRELATION = 0.4
_MOST_LOW = 80.0  # a higher confidence is never called low
_LARGEST = 1e9  # a larger number, or one that is not finite, is damage
_CONSTANT = 1e-6  # a feature with a smaller deviation is the same for all translations
_RIDGE, _NEWTON_STEPS = 1.0, 20


@dataclass(frozen=True)
class Calibration:
    """A fitted regression. text: the name of the text that it was fitted to; sentences: of this text; correlation:
    Pearson's, of the confidence and chrF there; weights: of each feature, and the constant; low: a lower confidence is
    called low: a fifth of the text had a lower one, or less if the translations were very good."""

    text: str
    sentences: int
    correlation: float
    weights: tuple[float, ...]
    low: float

    @classmethod
    def from_json(cls, value: object) -> "Calibration | None":
        """Read what `to_json` returned. Returns None for anything else."""
        try:
            found = cls(**value)  # type: ignore[arg-type]
            numbers = [found.sentences, found.correlation, found.low, *found.weights]
            is_valid = len(numbers) == 3 + _WEIGHTS and all(abs(number) < _LARGEST for number in numbers)
            return replace(found, weights=tuple(found.weights)) if is_valid else None
        except TypeError:
            return None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, provenance: Mapping[str, Any]) -> "Calibration | None":
        """The calibration in the provenance of a model; None if it has none."""
        return cls.from_json(provenance.get(CALIBRATION))

    def __str__(self) -> str:
        return f"{self.text}, {self.sentences:,} sentences"

    def rated(self, translation: Translation) -> Translation:
        """The translation with its confidence, with one decimal. A line without words has none."""
        if not translation.subwords:
            return translation
        value = math.fsum(map(operator.mul, self.weights, [*_features(translation), 1.0]))
        return replace(translation, confidence=round(100 * float(_logistic(value)), 1))


def correlation_warning(provenance: Mapping[str, Any]) -> str:
    """A warning if the confidence of a model says little about its translations; empty if not, or if it has none."""
    calibration = Calibration.of(provenance)
    if calibration is None or calibration.correlation >= _LOW_CORRELATION:
        return ""
    return f"the confidence has a low correlation with chrF ({calibration.correlation:.2f}): do not rely on it"


def fit(text: str, translations: Sequence[Translation], chrf: Sequence[float]) -> Calibration | None:
    """A calibration by these translations and the chrF of each; None if fewer than 200 have words. text: its name."""
    pairs = [(_features(one), score) for one, score in zip(translations, chrf, strict=True) if one.subwords]
    if len(pairs) < LEAST_SENTENCES:
        return None
    features, share = np.array([row for row, _ in pairs]), np.array([score for _, score in pairs]) / 100
    mean, deviation = features.mean(axis=0), features.std(axis=0)
    deviation[deviation < _CONSTANT] = np.inf  # such a feature gets no weight
    rows = np.hstack([(features - mean) / deviation, np.ones((len(pairs), 1))])
    ridge = np.diag([_RIDGE] * len(mean) + [0.0])
    weights = np.zeros(len(ridge))
    for _ in range(_NEWTON_STEPS):  # maximizes the likelihood, which has one maximum
        expected = _logistic(rows @ weights)
        gradient = rows.T @ (expected - share) + ridge @ weights
        weights -= np.linalg.solve(rows.T @ (rows * (expected * (1 - expected))[:, None]) + ridge, gradient)
    expected = _logistic(rows @ weights)
    varied = min(expected.std(), share.std()) > _CONSTANT  # otherwise the correlation is not defined
    correlation = float(np.corrcoef(expected, share)[0, 1]) if varied else 0.0
    weights[:-1] /= deviation
    weights[-1] -= mean @ weights[:-1]
    low = min(_MOST_LOW, round(100 * float(np.quantile(expected, 0.2)), 1))
    return Calibration(text, len(pairs), round(correlation, 4), tuple(weights.tolist()), low)


def _logistic(value: Any) -> Any:
    """1 / (1 + exp(-value)), for numbers and arrays, without overflow."""
    return 0.5 + 0.5 * np.tanh(value / 2)


def _features(translation: Translation) -> list[float]:
    """How surprised the model was, the length beside that of the source, and how many characters a subword has. The
    root makes the relation to chrF nearly linear."""
    surprise = max(0.0, -translation.log_probability) / translation.subwords
    ratio = math.log(translation.subwords / translation.source_subwords)
    characters = math.log(max(1, len(translation.text)) / translation.subwords)
    return [math.sqrt(surprise), ratio, abs(ratio), characters]
