"""What a validation of several sets is worth."""

import pytest

from nmt.config.schema import TrainingConfig
from nmt.training.validation import Validation

OF_SETS = [
    {"validation_loss": 2.0, "bleu": 30.0, "chrf": 50.0},
    {"validation_loss": 4.0, "bleu": 10.0, "chrf": 20.0},
]


@pytest.mark.parametrize(
    ("best_set", "metric", "value"),
    [
        ("new", "validation_loss", -4.0), ("new", "bleu", 10.0), ("new", "chrf", 20.0),
        (None, "validation_loss", -3.0), (None, "bleu", 20.0), (None, "chrf", 35.0),
    ],
)  # fmt: skip
def test_one_set_or_the_mean_decides_on_the_best(best_set: str | None, metric: str, value: float) -> None:
    training = TrainingConfig(best_metric=metric, best_set=best_set)  # type: ignore[arg-type]
    assert Validation(["old", "new"], OF_SETS, [], {}).value(training) == value
