"""The rows of metrics.jsonl as curves: every logged number by step, by target subwords and by hours."""

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

MAX_POINTS = 1500  # of a training curve: more than a screen can show
# When a row was logged; the other numbers are measurements.
PROGRESS = ("step", "epoch", "stage", "stage_step", "target_tokens", "seconds")
_VALIDATION = "validation_loss"  # only the rows of validations have it


@dataclass(frozen=True)
class Curves:
    """Points as columns, sorted by step; a value is None if the row does not have it."""

    step: list[int]
    tokens: list[float | None]  # target subwords trained on
    hours: list[float | None]  # of training
    values: dict[str, list[float | None]]
    rows_a_point: int = 1  # the number of logged rows of which a point is the mean

    def last(self) -> dict[str, float]:
        """All values of the last point; empty if there is none."""
        last = ((name, column[-1]) for name, column in self.values.items())
        return {name: value for name, value in last if value is not None}


def curves(rows: Sequence[Mapping[str, Any]]) -> tuple[Curves, Curves]:
    """The curves of training and those of validation. Rows have a `step`; values that are not numbers are left out.

    Tokens and hours of a row that does not have them are interpolated between the rows that do.
    """
    sorted_rows = sorted(rows, key=lambda row: int(row["step"]))
    training = [row for row in sorted_rows if _VALIDATION not in row]
    rows_a_point = max(1, math.ceil(len(training) / MAX_POINTS))
    validation = [row for row in sorted_rows if _VALIDATION in row]
    return _columns(training, rows_a_point, sorted_rows), _columns(validation, 1, sorted_rows)


def stage_starts(rows: Sequence[Mapping[str, Any]], stages: int) -> Curves:
    """Where each stage of the mix of corpora began, as points that have its `number`, from 1; stages: how many there
    are in the settings."""
    sorted_rows = sorted(rows, key=lambda row: int(row["step"]))
    starts: dict[int, int] = {}
    for row in sorted_rows:
        number, done = row.get("stage"), row.get("stage_step")
        if type(number) is int and type(done) is int and 0 < number <= stages and 0 <= done <= row["step"]:
            starts[number] = int(row["step"]) - done
    return _columns([{"step": step, "number": number} for number, step in sorted(starts.items())], 1, sorted_rows)


def _columns(points: Sequence[Mapping[str, Any]], rows_a_point: int, rows: Sequence[Mapping[str, Any]]) -> Curves:
    """The points, each the mean of several, with their places among all rows, which are sorted."""
    tokens, seconds = (
        [(row["step"], row[key]) for row in rows if is_number(row.get(key))] for key in ("target_tokens", "seconds")
    )
    groups = [points[i : i + rows_a_point] for i in range(0, len(points), rows_a_point)]
    names = dict.fromkeys(name for row in points for name, value in row.items() if is_number(value))
    steps = [int(group[-1]["step"]) for group in groups]
    elapsed = [_interpolated(seconds, step) for step in steps]
    return Curves(
        steps,
        [_rounded(_interpolated(tokens, step)) for step in steps],
        [_rounded(None if second is None else second / 3600) for second in elapsed],
        {name: [_rounded(_mean(row.get(name) for row in group)) for group in groups] for name in names
         if name not in PROGRESS},
        rows_a_point,
    )  # fmt: skip


def with_sets(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row, with the scores of each validation set under names of their own, such as `bleu, en-de`."""
    sets = row.get("validation", ())
    of_sets = {f"{key}, {scores['name']}": scores[key] for scores in sets for key in scores if key != "name"}
    return {key: value for key, value in row.items() if key != "validation"} | of_sets


def with_corpora(row: Mapping[str, Any], labels: Sequence[str]) -> dict[str, Any]:
    """The row, with the label of each of its `corpora`, whose losses have names of their own too: `nll, europarl`.
    Raises KeyError, TypeError or ValueError if they are not those of the run."""
    if "corpora" not in row:
        return dict(row)
    corpora = [
        {"label": label, "share": float(of["share"]), "passes": float(of["passes"]),
         "nll": None if of["nll"] is None else float(of["nll"])}
        for label, of in zip(labels, row["corpora"], strict=True)
    ]  # fmt: skip
    return {**row, "corpora": corpora, **{f"nll, {of['label']}": of["nll"] for of in corpora}}


def _interpolated(known: Sequence[tuple[int, float]], step: int) -> float | None:
    """The value at a step: linear from 0 through the known points, and after the last one at the mean rate so far."""
    if not known or not known[-1][0]:
        return None
    place = bisect.bisect_left(known, step, key=lambda pair: pair[0])
    if place == len(known):
        return known[-1][1] / known[-1][0] * step
    (before, low), (after, high) = known[place - 1] if place else (0, 0.0), known[place]
    return high if after == before else low + (high - low) * ((step - before) / (after - before))


def _mean(values: Iterable[Any]) -> float | None:
    numbers = [value for value in values if is_number(value)]
    return math.fsum(numbers) / len(numbers) if numbers else None


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number that a chart can show."""
    # Larger numbers than 1e100 are damage; products of smaller ones do not overflow.
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e100


def _rounded(value: float | None) -> float | None:
    """To 6 significant digits: more than can be seen."""
    return None if value is None else float(f"{value:.6g}")
