"""The length of a training run that fits the size of its text."""

from collections.abc import Mapping
from typing import Any

from nmt.config.schema import TrainingConfig
from nmt.config.sections import fitting_warmup

SMALL_TEXT = 3_000_000  # subwords; `nmt init` chooses the preset `small` below this size
# Passes over the text, as in configs/multi30k.yaml, and the fewest steps that a small model needs to learn.
_PASSES, _FEWEST_STEPS = 40, 2000
_FEWEST_FURTHER_STEPS = 400  # with a trained model
_SMALL_BATCH = 4096  # tokens, so that a pass over a small text has enough steps
_MOST_SMALL_STEPS = 20_000  # with the preset `small`: some hours on two cores
_PEAK = 0.0005  # learning rate: below the paper's 0.0007, because the warmup is shorter


def longest_text() -> int:
    """The number of subwords from which the defaults, which are for millions of pairs, need not be changed."""
    default = TrainingConfig()
    return default.max_steps * default.batch_tokens // _PASSES


def of_small_preset(subwords: int) -> dict[str, object]:
    """The settings, by dotted path, for a text with this number of subwords and the preset `small`."""
    steps = min(_steps(subwords, _SMALL_BATCH, _FEWEST_STEPS), _MOST_SMALL_STEPS)
    return {"training.max_steps": steps, "training.warmup_steps": min(1000, fitting_warmup(steps))}


def of_large_preset(subwords: int, settings: Mapping[str, Any]) -> dict[str, object]:
    """The settings, by dotted path, with which a run with these settings fits the text. Empty if they fit already."""
    default = TrainingConfig()
    steps = _steps(subwords, batch := _batch(subwords), _FEWEST_STEPS)
    if steps >= default.max_steps:
        return {}
    fitting = {"training.max_steps": steps, "training.batch_tokens": batch, **_often_enough(steps, settings)}
    if (warmup := fitting_warmup(steps)) < default.warmup_steps:
        fitting |= {"training.schedule": "cosine", "training.learning_rate": _PEAK, "training.warmup_steps": warmup}
    return fitting


def of_further_training(subwords: int, settings: Mapping[str, Any]) -> dict[str, object]:
    """The settings, by dotted path, with which the further training of a model with these settings fits the text."""
    batch = _batch(subwords)
    steps = min(_steps(subwords, batch, _FEWEST_FURTHER_STEPS), TrainingConfig().max_steps)
    return {"training.max_steps": steps, "training.batch_tokens": batch, **_often_enough(steps, settings)}


def _often_enough(steps: int, settings: Mapping[str, Any]) -> dict[str, object]:
    """At least ten validations and checkpoints, so that training.patience can end the run."""
    often = dict[str, object]()
    for key in ("validate_every", "checkpoint_every"):
        every = int(settings.get(f"training.{key}", getattr(TrainingConfig(), key)))
        often[f"training.{key}"] = min(every, steps // 10)
    return often


def _batch(subwords: int) -> int:
    return _SMALL_BATCH if subwords < SMALL_TEXT else TrainingConfig().batch_tokens


def _steps(subwords: int, batch: int, fewest: int) -> int:
    return max(fewest, 100 * round(_PASSES * subwords / batch / 100))
