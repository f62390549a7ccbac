"""The metrics of a validation: how each is written, and which values are better.

Metrics of translations are computed by the metric of the same name in `nmt.evaluation.metrics.ValidationMetrics`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True)
class Metric:
    """A score that a validation computes."""

    label: str  # its name in logs and tables
    decimals: int = 2
    higher_is_better: bool = True
    needs_translations: bool = True  # whether the validation set must be translated for it

    def gain(self, value: float) -> float:
        """The value, negated if lower values are better."""
        return value if self.higher_is_better else -value


# By name in settings, metrics.jsonl and provenances.
METRICS: Mapping[str, Metric] = {
    "validation_loss": Metric("validation_loss", decimals=4, higher_is_better=False, needs_translations=False),
    "bleu": Metric("BLEU"),
    "chrf": Metric("chrF"),
}
TRANSLATION_METRICS = {name: metric for name, metric in METRICS.items() if metric.needs_translations}

if TYPE_CHECKING:  # mypy knows no choices that are computed
    MetricName = str
else:
    MetricName = Literal[tuple(METRICS)]
