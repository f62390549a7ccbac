"""The order of the steps through the epochs and the stages of a run."""

import logging
from collections.abc import Generator, Iterator
from contextlib import closing

from nmt.config.schema import DataConfig, TrainingConfig
from nmt.data.batches.batching import Batches, Step
from nmt.data.batches.mixing import Mix
from nmt.data.batches.read_ahead import read_ahead
from nmt.data.batches.stages import StagedMix, end_of
from nmt.errors import NmtError
from nmt.training.progress import Position, Progress

log = logging.getLogger("nmt")


class TrainingSteps:
    """The steps of a run. The object has no state of its own; it changes `Progress.position`."""

    def __init__(
        self, run_dir: str, data: DataConfig, training: TrainingConfig, stages: tuple[StagedMix, ...], batches: Batches
    ) -> None:
        self._run_dir, self._data, self._training = run_dir, data, training
        self._stages, self._batches = stages, batches

    def mix(self, progress: Progress) -> Mix:
        """The mix of the current stage."""
        position = progress.position
        stage = self._stages[position.stage]
        return stage.begin(position.stage_time, position.stage_given or stage.mix.before)

    def steps_in_epoch(self, progress: Progress) -> int:
        """The approximate number of optimizer steps in an epoch of the current mix."""
        return self._batches.steps_in_epoch(progress.position.epoch, self.mix(progress))

    def last_step(self, progress: Progress, steps_in_epoch: int) -> int:
        """The approximate step at which training ends, if an epoch has this many steps."""
        training, position = self._training, progress.position
        if training.max_epochs is None:
            return training.max_steps
        remaining = steps_in_epoch * (training.max_epochs - position.epoch) - position.step_in_epoch
        return min(training.max_steps, progress.step + remaining)

    def steps(self, progress: Progress, *, pinned: bool = False) -> Generator[Step, None, None]:
        """The steps from the position on; `progress` holds the position after the yielded step. pinned: batches are in
        page-locked memory.

        Each step must be counted in `progress` before the next step is requested. Raises NmtError if the position does
        not exist.
        """
        position = progress.position
        while True:
            if self._is_over(progress):
                self._begin_next(progress)
            first, mix = progress.step, self.mix(progress)
            steps: Iterator[Step] = self._batches.epoch(
                position.epoch, position.step_in_epoch, mix, self._most_steps(progress)
            )
            if pinned:
                steps = map(Step.pinned, steps)
            with closing(read_ahead(steps, self._data.prefetch)) as ahead:
                for step in ahead:
                    position.step_in_epoch += 1
                    _end_pool(position, step.pool_end, mix)
                    yield step
                    if self._is_over(progress):
                        break
            if progress.step == first:
                self._check_position(progress, mix)
                _end_pool(position, mix.part_of(position.epoch)[1], mix)  # no pair up to there fits in a batch

    def announce(self, progress: Progress) -> None:
        """Log the current stage, if the settings have stages."""
        settings, mix, position = self._data, self.mix(progress), progress.position
        if not settings.stages:
            return
        corpora = zip(settings.train, mix.shares, strict=True)
        shares = ", ".join(f"{corpus.label} {float(share):.1%}" for corpus, share in corpora if share)
        log.info(
            "stage %d of %d, from step %s, %s: %s",
            *(position.stage + 1, len(self._stages), f"{position.stage_step:,}"),
            *(end_of(settings.stages[position.stage]), shares),
        )

    def metrics(self, progress: Progress) -> dict[str, int]:
        """The fields of a row of metrics about the stage; empty without stages."""
        if not self._data.stages:
            return {}
        return {"stage": progress.position.stage + 1, "stage_step": progress.step - progress.position.stage_step}

    def _most_steps(self, progress: Progress) -> int | None:
        """The stage's limit on steps, counted from where `step_in_epoch` was 0; None without a limit."""
        position = progress.position
        limit = self._stages[position.stage].steps
        return None if limit is None else limit - (progress.step - position.step_in_epoch - position.stage_step)

    def _is_over(self, progress: Progress) -> bool:
        """Whether the current stage ends here."""
        position = progress.position
        stage = self._stages[position.stage]
        if position.pool_end is None:
            return False
        if stage.steps is not None:
            return progress.step - position.stage_step >= stage.steps
        return stage.until_drawn is not None and position.pool_end == self.mix(progress).end

    def _begin_next(self, progress: Progress) -> None:
        position = progress.position
        assert position.pool_end is not None
        position.stage_given = self.mix(progress).drawn_until(position.pool_end)
        position.stage += 1
        position.stage_step, position.stage_time = progress.step, position.pool_end
        position.step_in_epoch = progress.best.validations_since = 0
        self.announce(progress)

    def _check_position(self, progress: Progress, mix: Mix) -> None:
        """Call it when the rest of the epoch has no step. Raises NmtError if it must have one."""
        position = progress.position
        start, end = mix.part_of(position.epoch)
        if position.step_in_epoch:
            raise NmtError(
                f"{self._run_dir}: was saved after step {position.step_in_epoch:,} of epoch "
                f"{position.epoch + 1:,}, which has no more steps now: another version of nmt or NumPy makes "
                "different batches: use the versions in its sessions.jsonl, or set a new run_dir"
            )
        if end - start == mix.epoch:
            raise NmtError(
                f"data.stages[{position.stage}]: no pair in a whole epoch of it fits in a batch: raise "
                "training.batch_tokens or micro_batch_tokens, or give other weights"
            )


def _end_pool(position: Position, pool_end: int | None, mix: Mix) -> None:
    """Set the end of the last pool, and move to the next epoch if the pool ends this epoch."""
    position.pool_end = pool_end
    if pool_end == (position.epoch + 1) * mix.epoch:
        position.epoch, position.step_in_epoch = position.epoch + 1, 0
