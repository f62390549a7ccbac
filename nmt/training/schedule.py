"""The learning rate as a pure function of the step."""

import math
from typing import assert_never

from nmt.config.schema import TrainingConfig
from nmt.config.sections import fitting_warmup

_STABLE = 0.8  # the part of the steps before `warmup_stable_decay` falls
_FALLING = ("cosine", "linear", "warmup_stable_decay")  # to final_learning_rate, at max_steps
_MOST_REMAINING = 0.1  # of the way from the peak to final_learning_rate, at the last step


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The learning rate of optimizer step 1, 2, 3, …

    `paper`, equation 3: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5). All other schedules rise linearly from 0 to
    the peak in warmup_steps. Then `constant` stays there, `inverse_sqrt` is peak · sqrt(warmup / step), and the others
    fall to `final_learning_rate` at max_steps: `cosine` and `linear` from the warmup on, `warmup_stable_decay` in the
    last fifth of the steps, by 1 - sqrt of the part that is done (Hägele et al. 2024, section 3).
    """
    warmup, last = training.warmup_steps, training.max_steps
    if training.schedule == "paper":
        return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    peak, final = training.learning_rate, training.final_learning_rate
    assert peak is not None  # Config.conflicts
    if step <= warmup:
        return peak * step / warmup
    match training.schedule:
        case "inverse_sqrt":
            return peak * math.sqrt(warmup / step)
        case "constant":
            return peak
        case "cosine":
            remaining = (1 + math.cos(math.pi * _done(step, warmup, last))) / 2
        case "linear":
            remaining = 1 - _done(step, warmup, last)
        case "warmup_stable_decay":
            remaining = 1 - math.sqrt(_done(step, max(warmup, _STABLE * last), last))
        case _:
            assert_never(training.schedule)
    return final + (peak - final) * remaining


def _done(step: int, first: float, last: int) -> float:
    """The fraction of the steps from `first` to `last` that is done, from 0 to 1."""
    return min(1.0, max(0.0, step - first) / (last - first))


def problem(training: TrainingConfig, d_model: int, last_step: int) -> str | None:
    """A message if the schedule does not fit a run that ends with this step, with the settings that fit; else None. The
    learning rate must reach its peak, and a falling schedule must nearly reach final_learning_rate."""
    warmup, schedule = training.warmup_steps, training.schedule
    if last_step < 2:
        return None
    end = f"but training ends at step {last_step:,}"
    if last_step < training.max_steps:
        end = f"but training ends at about step {last_step:,} ({training.max_epochs=})"
    fitting: dict[str, object] = {}
    if warmup >= last_step:
        reason = f"{training.warmup_steps=}, {end}: the learning rate is still rising at that step"
        if schedule == "paper":  # its peak would be higher with a shorter warmup
            peak = learning_rate(warmup, training, d_model)
            fitting = {"training.schedule": "inverse_sqrt", "training.learning_rate": f"{peak:.2g}"}
        fitting["training.warmup_steps"] = fitting_warmup(last_step)
    elif schedule in _FALLING and (remaining := _remaining(training, d_model, last_step)) > _MOST_REMAINING:
        reason = (
            f"{training.schedule=!s} falls until {training.max_steps=}, {end}: the learning rate has then fallen "
            f"{1 - remaining:.0%} of the way"
        )
    else:
        return None
    if schedule in _FALLING:
        fitting["training.max_steps"] = last_step
    return f"{reason}: set {' '.join(f'{key}={value}' for key, value in fitting.items())}"


def _remaining(training: TrainingConfig, d_model: int, step: int) -> float:
    """The fraction of the fall from the peak to final_learning_rate that remains after this step."""
    peak, final = training.learning_rate, training.final_learning_rate
    assert peak is not None  # Config.conflicts
    return (learning_rate(step, training, d_model) - final) / (peak - final) if final < peak else 0.0
