"""A TrainStep as a Trainer makes it, for the tiny vocabulary of tests, and what happens before one of its steps."""

from collections.abc import Callable
from typing import Any

import torch
from helpers.model_files import shared_vocabulary

from nmt.config.schema import Config
from nmt.data.batching import Step
from nmt.data.vocabulary import PAD
from nmt.distributed.ranks import Ranks
from nmt.models import build
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer

CPU = torch.device("cpu")


def make_train_step(config: Config, ranks: Ranks = Ranks()) -> TrainStep:  # noqa: B008 (frozen)
    torch.manual_seed(config.seed)
    subwords = len(shared_vocabulary().source)
    return TrainStep(build.build(config.model, subwords, subwords, PAD), config.training, config.seed, CPU, ranks)


def before_step(trainer: Trainer, number: int, act: Callable[[], object]) -> None:
    """Have `act` called when step `number` has begun."""
    run = trainer.train_step.run

    def act_and_run(step: Step, current: int, *arguments: Any, **named: Any) -> bool:
        if current == number:
            act()
        return run(step, current, *arguments, **named)

    trainer.train_step.run = act_and_run  # type: ignore[method-assign]
