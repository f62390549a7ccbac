"""The learning rate as a pure function of the step."""

import math

from nmt.config.schema import TrainingConfig


def learning_rate(step: int, training: TrainingConfig, d_model: int) -> float:
    """The learning rate of optimizer step 1, 2, 3, …

    `paper`, equation 3: d_model^-0.5 · min(step^-0.5, step · warmup^-1.5). All other schedules rise linearly from 0 to
    the peak in warmup_steps. Then `constant` stays there, `inverse_sqrt` is peak · sqrt(warmup / step), and `cosine`
    and `linear` fall to `final_learning_rate` at max_steps.
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
    done = min(1.0, (step - warmup) / (training.max_steps - warmup))
    left = 1 - done if training.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return final + (peak - final) * left
