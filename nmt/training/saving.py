"""A run's files written while training goes on: it waits for the copy in memory, not for the disk."""

import dataclasses
import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

import nmt
from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.data.vocabulary import Vocabulary
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.training import state
from nmt.training.state import Identity, Progress, Snapshot
from nmt.training.train_step import Learner

log = logging.getLogger("nmt")


class Saver:
    """Writes states and checkpoints in a thread, one after the other. Leaving the `with` block waits for the last.

    The first rank alone writes; others take part where they hold a share of the weights.
    What writing raises is raised by `check`, by the next save or on leaving, as an NmtError that says from where the
    run can go on.
    """

    def __init__(self, run: Path, identity: Identity, vocabulary: Vocabulary, ranks: Ranks) -> None:
        self._ranks = ranks
        self._run, self._identity, self._vocabulary = run, identity, vocabulary
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="saver")
        self._writing: Future[None] | None = None

    def save_state(self, progress: Progress, learner: Learner) -> None:
        """Save what resuming needs."""
        self._save(progress, learner, None, best=False)

    def save_all(self, progress: Progress, learner: Learner, scores: Mapping[str, Any]) -> None:
        """Save that, and a checkpoint: the best one so far if the scores (and what goes with them; empty
        without a validation) made it that.

        Checkpoints that keep_last and keep_best no longer keep are deleted.
        """
        settings = self._identity.config.training
        provenance = {
            "nmt": nmt.__version__,
            "torch": torch.__version__,
            "run_dir": str(self._run),
            "step": progress.step,
            "epoch": progress.epoch,
            "target_tokens": progress.target_tokens,
            "best_metric": settings.best_metric,
            "validation_key": self._identity.validation_key,
            **scores,
        }
        best = bool(scores) and progress.best_step == progress.step
        self._save(progress, learner, provenance, best=best)

    def check(self) -> None:
        """Raise what writing has raised, if it is over; to be asked after each step. Costs nothing."""
        if self._writing is not None and self._writing.done():
            self._wait()

    def _save(self, progress: Progress, learner: Learner, provenance: Mapping[str, Any] | None, *, best: bool) -> None:
        if not (self._ranks.first or learner.sharded):
            return
        self._wait()  # one copy in memory is enough
        start = time.perf_counter()
        saved = state.snapshot(self._identity, progress, learner)
        if self._ranks.first:
            log.debug("state of step %s: %.1f MiB copied in %.3f s", f"{saved.step:,}", saved.mebibytes, _since(start))
            self._writing = self._thread.submit(self._write, saved, provenance, best)

    def _write(self, saved: Snapshot, provenance: Mapping[str, Any] | None, best: bool) -> None:
        start = time.perf_counter()
        if provenance is not None:
            model = Checkpoint(self._identity.config, self._vocabulary, saved.part("model"), provenance)
            model_file.save(model_file.checkpoint_path(self._run, saved.step), model)
            if best:
                model_file.save(self._run / model_file.BEST, model)
            if average := saved.part("average"):
                moving = {**model_file.origin(provenance), "ema_decay": self._identity.config.training.ema_decay}
                model_file.save(
                    self._run / model_file.EMA, dataclasses.replace(model, weights=average, provenance=moving)
                )
        state.write(self._run, saved)
        if provenance is not None:
            self._discard_checkpoints()
        log.debug("state of step %s: written in %.3f s, beside training", f"{saved.step:,}", _since(start))

    def _discard_checkpoints(self) -> None:
        settings = self._identity.config.training
        kept = {*model_file.last(self._run, settings.keep_last), *model_file.best(self._run, settings.keep_best)}
        for path in set(model_file.checkpoints(self._run)) - kept:
            path.unlink()

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except (NmtError, OSError) as error:
            newest = state.newest(self._run)
            good = f"the last good state is {newest}" if newest else "no state had been saved"
            on = "goes on from there" if newest else "then starts again"
            raise NmtError(f"{error}: training ends; {good}, and the same command {on}") from None

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            self._thread.shutdown()


def _since(start: float) -> float:
    return time.perf_counter() - start
