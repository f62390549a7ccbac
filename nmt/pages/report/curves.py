"""Curves from the rows of metrics.jsonl: every logged number by step, by target subwords and by hours."""

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

MAX_POINTS = 1500  # of a training curve: more than a screen can show
# Keys that say when a row was logged. The other numbers are measurements.
PROGRESS = ("step", "epoch", "stage", "stage_step", "target_tokens", "seconds")
_VALIDATION = "validation_loss"  # only in rows of validations


@dataclass(frozen=True)
class Curves:
    """The points of curves as columns, sorted by step. A value is None if the row does not have it."""

    step: list[int]
    tokens: list[float | None]  # target subwords trained on
    hours: list[float | None]  # of training
    values: dict[str, list[float | None]]
    rows_a_point: int = 1  # a point is the mean of this many logged rows

    def last(self) -> dict[str, float]:
        """All values of the last point; empty if there is no point."""
        last = {name: column[-1] for name, column in self.values.items()}
        return {name: value for name, value in last.items() if value is not None}


def curves(rows: Sequence[Mapping[str, Any]]) -> tuple[Curves, Curves]:
    """The curves of training and of validation. Rows have a `step`; values that are not numbers are left out.

    Tokens and hours of a row without them are interpolated between the rows that have them.
    """
    sorted_rows = sorted(rows, key=lambda row: int(row["step"]))
    training = [row for row in sorted_rows if _VALIDATION not in row]
    rows_a_point = max(1, math.ceil(len(training) / MAX_POINTS))
    validation = [row for row in sorted_rows if _VALIDATION in row]
    return _columns(training, rows_a_point, sorted_rows), _columns(validation, 1, sorted_rows)


def stage_starts(rows: Sequence[Mapping[str, Any]], stages: int) -> Curves:
    """The points at which the stages of the mix of corpora began; the value `number` counts stages from 1. stages: the
    number of stages in the settings."""
    sorted_rows = sorted(rows, key=lambda row: int(row["step"]))
    starts: dict[int, int] = {}
    for row in sorted_rows:
        stage, done = row.get("stage"), row.get("stage_step")
        if type(stage) is int and type(done) is int and 0 < stage <= stages and 0 <= done <= row["step"]:
            starts[stage] = int(row["step"]) - done
    return _columns([{"step": step, "number": stage} for stage, step in sorted(starts.items())], 1, sorted_rows)


def _columns(points: Sequence[Mapping[str, Any]], rows_a_point: int, rows: Sequence[Mapping[str, Any]]) -> Curves:
    """The curves of points, each the mean of `rows_a_point` rows. rows: all rows, sorted by step; they give the tokens
    and hours at each step."""
    tokens = [(row["step"], row["target_tokens"]) for row in rows if is_number(row.get("target_tokens"))]
    seconds = [(row["step"], row["seconds"]) for row in rows if is_number(row.get("seconds"))]
    groups = [points[i : i + rows_a_point] for i in range(0, len(points), rows_a_point)]
    names = dict[str, None]()
    for row in points:
        names |= dict.fromkeys(name for name, value in row.items() if is_number(value) and name not in PROGRESS)
    values = dict[str, list[float | None]]()
    for name in names:
        values[name] = [_rounded(_mean(row.get(name) for row in group)) for group in groups]
    steps = [int(group[-1]["step"]) for group in groups]
    elapsed = [_interpolated(seconds, step) for step in steps]
    return Curves(
        steps,
        [_rounded(_interpolated(tokens, step)) for step in steps],
        [_rounded(None if second is None else second / 3600) for second in elapsed],
        values,
        rows_a_point,
    )


def with_sets(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with the scores of each validation set under separate names, such as `bleu, en-de`."""
    flat = {key: value for key, value in row.items() if key != "validation"}
    for scores in row.get("validation", ()):
        flat |= {f"{key}, {scores['name']}": value for key, value in scores.items() if key != "name"}
    return flat


def with_corpora(row: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """The row with a label for each of its `corpora`, and with their losses under separate names, such as
    `nll, europarl`. Raises KeyError, TypeError or ValueError if the corpora are not those of the run."""
    if "corpora" not in row:
        return dict(row)
    corpora, losses = list[dict[str, Any]](), dict[str, float | None]()
    for label, corpus in zip(labels, row["corpora"], strict=True):
        nll = None if corpus["nll"] is None else float(corpus["nll"])
        losses[f"nll, {label}"] = nll
        numbers = {"share": float(corpus["share"]), "passes": float(corpus["passes"]), "nll": nll}
        corpora.append({"label": label, **numbers})
    return {**row, "corpora": corpora, **losses}


def _interpolated(points: Sequence[tuple[int, float]], step: int) -> float | None:
    """The value at a step: linear from 0 through the points, and after the last point at the mean rate so far."""
    if not points or not points[-1][0]:
        return None
    i = bisect.bisect_left(points, step, key=lambda point: point[0])
    if i == len(points):
        return points[-1][1] / points[-1][0] * step
    (before, low), (after, high) = points[i - 1] if i else (0, 0.0), points[i]
    return high if after == before else low + (high - low) * ((step - before) / (after - before))


def _mean(values: Iterable[Any]) -> float | None:
    numbers = [value for value in values if is_number(value)]
    return math.fsum(numbers) / len(numbers) if numbers else None


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number that a chart can show."""
    # Numbers above 1e100 come from damaged files; products of smaller numbers do not overflow.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100


def _rounded(value: float | None) -> float | None:
    """The value with 6 significant digits, more than are visible."""
    return None if value is None else float(f"{value:.6g}")
