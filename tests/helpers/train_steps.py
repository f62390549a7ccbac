"""A TrainStep as a Trainer makes it, for the tiny vocabulary of tests; its states, saved and restored; and what happens
before a step."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from helpers.model_files import shared_vocabulary
from torch import Tensor

from nmt.checkpoints import model_file
from nmt.config.schema import Config
from nmt.data.batches.batching import Step
from nmt.data.batches.padding import Batch
from nmt.data.subwords.vocabulary import PAD
from nmt.distributed.ranks import Ranks
from nmt.models import build
from nmt.training import state
from nmt.training.identity import Identity
from nmt.training.progress import Progress
from nmt.training.saving import Saver
from nmt.training.train_step import TrainStep
from nmt.training.trainer import Trainer

CPU = torch.device("cpu")


def make_train_step(config: Config, ranks: Ranks = Ranks()) -> TrainStep:  # noqa: B008 (frozen)
    torch.manual_seed(config.seed)
    subwords = len(shared_vocabulary().source)
    return TrainStep(build.build(config.model, subwords, subwords, PAD), config.training, config.seed, CPU, ranks)


def random_step(seed: int) -> Step:
    """Three pairs of six random ids on each side."""
    source, target = torch.randint(4, 300, (2, 3, 6), generator=torch.Generator().manual_seed(seed))
    return Step([Batch.from_padded(source, target)], 3, source.numel(), target.numel(), 36)


@dataclass
class Session:
    """What a training process holds."""

    config: Config
    run: Path
    train_step: TrainStep
    progress: Progress = field(default_factory=Progress)

    @staticmethod
    def start(run: Path, config: Config, seed: int = 0) -> "Session":
        """seed: of the weights; that of dropout is always 0."""
        train_step = make_train_step(replace(config, seed=seed))
        train_step.seed = 0
        return Session(config, run, train_step)

    @property
    def identity(self) -> Identity:
        return Identity(self.config, "data", "vocabulary", "validation")

    def train(self, steps: int = 1) -> None:
        for _ in range(steps):
            self.progress.step += 1
            self.train_step.run(random_step(self.progress.step), self.progress.step, 0.01)

    def saver(self) -> Saver:
        return Saver(self.run, self.identity, shared_vocabulary(), Ranks())

    def save(self, step: int) -> None:
        """The state alone, with this number."""
        state.write(self.run, state.snapshot(self.identity, Progress(step=step), self.train_step))

    def restore(self) -> Progress:
        self.progress = state.restore(self.run, self.identity, self.train_step, Ranks())
        return self.progress

    def weights(self) -> dict[str, Tensor]:
        """Copies of the weights."""
        return {name: weight.clone() for name, weight in model_file.weights_of(self.train_step.model).items()}

    def everything(self) -> dict[str, Tensor]:
        """All that the next step depends on."""
        names = dict(self.train_step.model.named_parameters())
        moments = {
            f"{key} of {name}": value
            for name, parameter in names.items()
            for key, value in self.train_step.optimizer.state[parameter].items()
        }
        assert len(moments) == 3 * len(names)
        average = dict(self.train_step.average.named_parameters()) if self.train_step.average else {}
        return {**names, **moments, **{f"average of {name}": weight for name, weight in average.items()}}


def before_step(trainer: Trainer, number: int, act: Callable[[], object]) -> None:
    """Have `act` called when step `number` has begun."""
    run = trainer.train_step.run

    def act_and_run(step: Step, current: int, *arguments: Any, **named: Any) -> bool:
        if current == number:
            act()
        return run(step, current, *arguments, **named)

    trainer.train_step.run = act_and_run  # type: ignore[method-assign]
