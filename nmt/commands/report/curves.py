"""The rows of metrics.jsonl as curves: every number that was logged, by step, by target tokens and by hours."""

import bisect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

MOST_POINTS = 1500  # of a training curve: more than a screen has columns for it
_ENDLESS = 1e100  # nothing that is measured; products of such numbers are still numbers
_DIGITS = 6  # significant ones: more than can be seen
PLACES = ("step", "epoch", "target_tokens", "seconds")  # where a row stands, rather than what it measured
_VALIDATED = "validation_loss"  # what the rows of validations have, and no other


@dataclass(frozen=True)
class Curves:
    """Points in order of steps, as columns; a value is None where a row lacks it.

    tokens: target subwords trained on so far; hours: of training so far. rows_a_point: so many logged rows make one.
    """

    step: list[int]
    tokens: list[float | None]
    hours: list[float | None]
    values: dict[str, list[float | None]]
    rows_a_point: int = 1

    def at(self, step: int) -> dict[str, float]:
        """All values of a step; none where there is no such point."""
        if step not in self.step:
            return {}
        place = self.step.index(step)
        found = ((name, column[place]) for name, column in self.values.items())
        return {name: value for name, value in found if value is not None}


def curves(rows: Sequence[Mapping[str, Any]]) -> tuple[Curves, Curves]:
    """The curves of training and those of validation. Rows have a `step`; values that are no numbers are left out.

    Where a row does not say itself how many tokens and hours had passed, it lies on the line between those that do.
    """
    placed = sorted(rows, key=lambda row: int(row["step"]))
    tokens, seconds = (
        [(row["step"], row[key]) for row in placed if is_number(row.get(key))] for key in ("target_tokens", "seconds")
    )

    def columns(rows: list[Mapping[str, Any]], together: int) -> Curves:
        groups = [rows[i : i + together] for i in range(0, len(rows), together)]
        names = dict.fromkeys(name for row in rows for name, value in row.items() if is_number(value))
        steps = [int(group[-1]["step"]) for group in groups]
        passed = [_between(seconds, step) for step in steps]
        return Curves(
            steps,
            [_rounded(_between(tokens, step)) for step in steps],
            [_rounded(None if second is None else second / 3600) for second in passed],
            {name: [_rounded(_mean(row.get(name) for row in group)) for group in groups] for name in names
             if name not in PLACES},
            together,
        )  # fmt: skip

    training = [row for row in placed if _VALIDATED not in row]
    together = max(1, math.ceil(len(training) / MOST_POINTS))
    return columns(training, together), columns([row for row in placed if _VALIDATED in row], 1)


def _between(known: Sequence[tuple[int, float]], step: int) -> float | None:
    """The value at a step on the lines from 0 through the known ones, and on beyond the last at the pace so far."""
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
    """Whether it is a number that can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _ENDLESS


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.{_DIGITS}g}")
