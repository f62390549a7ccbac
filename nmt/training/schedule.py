"""The learning rate as a pure function of the step."""

import math

from nmt.config.schema import TrainingConfig

_STABLE = 0.8  # the part of the steps before `warmup_stable_decay` falls


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The learning rate of optimizer step 1, 2, 3, …

    `paper`, equation 3: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5). All other schedules rise linearly from 0 to
    the peak in warmup_steps. Then `constant` stays there, `inverse_sqrt` is peak · sqrt(warmup / step), and the others
    fall to `final_learning_rate` at max_steps: `cosine` and `linear` from the warmup on, `warmup_stable_decay` in the
    last fifth of the steps, by 1 - sqrt of the part that is done (Hägele et al. 2024, section 3).
    """
    warmup = training.warmup_steps
    if training.schedule == "paper":
        return float(d_model**-0.5 * min(step**-0.5, step * warmup**-1.5))
    peak, final = training.learning_rate, training.final_learning_rate
    assert peak is not None  # Config.conflicts
    if step <= warmup:
        return peak * step / warmup
    if training.schedule == "inverse_sqrt":
        return peak * math.sqrt(warmup / step)
    if training.schedule == "constant":
        return peak
    first = max(warmup, _STABLE * training.max_steps) if training.schedule == "warmup_stable_decay" else warmup
    done = min(1.0, max(0.0, step - first) / (training.max_steps - first))
    left = {
        "cosine": (1 + math.cos(math.pi * done)) / 2,
        "linear": 1 - done,
        "warmup_stable_decay": 1 - math.sqrt(done),
    }
    return final + (peak - final) * left[training.schedule]
