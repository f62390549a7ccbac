"""Curves: what was logged and nothing else, by step, tokens and hours; long ones as means of neighbours."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.pages.report import curves
from nmt.pages.report.curves import is_number

VALUES = st.floats(-1e6, 1e6, allow_nan=False)


def logged(steps: list[int], **columns: list[Any]) -> list[dict[str, Any]]:
    return [{"step": step, **{key: column[i] for key, column in columns.items()}} for i, step in enumerate(steps)]


def test_a_run_as_training_writes_it() -> None:
    rows = [
        {"step": 100, "epoch": 1, "loss": 7.5, "target_tokens": 1000, "seconds": 36.0},
        {"step": 150, "validation_loss": 3.0, "bleu": 16.25},
        {"step": 200, "epoch": 1, "loss": 5.5, "gradient_norm": 2.0, "target_tokens": 3000, "seconds": 72.0},
        {"step": 250, "validation_loss": 2.0, "bleu": 20.5, "chrf": 40.0},
    ]
    training, validation = curves.curves(rows)
    assert (training.step, training.tokens, training.hours) == ([100, 200], [1000, 3000], [0.01, 0.02])
    assert training.values == {"loss": [7.5, 5.5], "gradient_norm": [None, 2.0]}
    # 150 lies between two logged rows, and 250 beyond the last: on at 15 tokens and 0.36 s a step.
    assert (validation.step, validation.tokens, validation.hours) == ([150, 250], [2000, 3750], [0.015, 0.025])
    assert validation.values == {"validation_loss": [3.0, 2.0], "bleu": [16.25, 20.5], "chrf": [None, 40.0]}
    assert validation.last() == {"validation_loss": 2.0, "bleu": 20.5, "chrf": 40.0}
    _, other = curves.curves([rows[3], rows[1] | {"step": 300}])
    assert other.last() == {"validation_loss": 3.0, "bleu": 16.25}


@settings(max_examples=20)
@given(
    st.lists(st.one_of(VALUES, st.none(), st.booleans(), st.text(), st.just(10**400), st.just(math.inf)), min_size=1)
)
def test_what_is_no_number_is_no_point(values: list[Any]) -> None:
    training, _ = curves.curves(logged(list(range(1, len(values) + 1)), loss=values))
    numbers = [value for value in values if is_number(value)]
    found = [value for value in training.values.get("loss", []) if value is not None]
    assert found == [pytest.approx(float(value), rel=1e-5) for value in numbers]
    json.dumps(training.values, allow_nan=False)


def test_long_runs_are_means_of_neighbours() -> None:
    rows = 2 * curves.MAX_POINTS + 3
    steps = [10 * (i + 1) for i in range(rows)]
    losses = [math.sin(i) for i in range(rows)]
    training, _ = curves.curves(logged(steps, loss=losses, target_tokens=[step * 7 for step in steps]))
    together = training.rows_a_point
    assert len(training.step) <= curves.MAX_POINTS < together * curves.MAX_POINTS + 1
    assert training.step[-1] == steps[-1] and training.tokens[-1] == pytest.approx(7 * steps[-1], rel=1e-5)
    expected = [math.fsum(group) / len(group) for i in range(0, rows, together) if (group := losses[i : i + together])]
    assert training.values["loss"] == [pytest.approx(value, rel=1e-5, abs=1e-9) for value in expected]


def test_sets_and_corpora_have_curves_of_their_own() -> None:
    row = {"step": 5, "bleu": 20.0, "validation": [{"name": "news", "bleu": 15.0}, {"name": "talks", "bleu": 25.0}]}
    assert curves.with_sets(row) == {"step": 5, "bleu": 20.0, "bleu, news": 15.0, "bleu, talks": 25.0}
    given = {"share": 1, "passes": 0.5, "nll": None}
    row = curves.with_corpora({"step": 5, "corpora": [given]}, ["web"])
    assert row == {"step": 5, "corpora": [{"label": "web", **given}], "nll, web": None}
    for labels, corpora in ((["web", "more"], [given]), (["web"], [{"share": "half"}]), (["web"], 5)):
        with pytest.raises((LookupError, TypeError, ValueError)):
            curves.with_corpora({"corpora": corpora}, labels)
