"""The scores that a validation measures: how each is written, and which of two values is the better one.

Those of translations are computed by the metric of the same name in `nmt.evaluation.metrics.ValidationMetrics`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal


@dataclass(frozen=True)
class Metric:
    """label: its name in logs and tables. of_translations: the validation set has to be translated for it."""

    label: str
    decimals: int = 2
    higher_is_better: bool = True
    of_translations: bool = True

    def gain(self, value: float) -> float:
        """The value as a number of which the higher is the better."""
        return value if self.higher_is_better else -value


# By their names in settings, metrics.jsonl and provenances.
METRICS: Mapping[str, Metric] = {
    "validation_loss": Metric("validation_loss", decimals=4, higher_is_better=False, of_translations=False),
    "bleu": Metric("BLEU"),
    "chrf": Metric("chrF"),
}
OF_TRANSLATIONS = {name: metric for name, metric in METRICS.items() if metric.of_translations}

if TYPE_CHECKING:  # mypy knows no choices that are computed
    MetricName = str
else:
    MetricName = Literal[tuple(METRICS)]
