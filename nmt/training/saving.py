"""Writes states and checkpoints in a thread. Training waits for the copy in memory, not for the disk."""

import dataclasses
import datetime
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

import nmt
from nmt.checkpoints import model_file, run_folder
from nmt.checkpoints.model_file import Checkpoint
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords.vocabulary import Vocabulary
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.training import state
from nmt.training.identity import Identity
from nmt.training.progress import Progress
from nmt.training.state import Snapshot
from nmt.training.train_step import TrainStep

log = logging.getLogger("nmt")


class Saver:
    """Writes states and checkpoints in a thread, one after the other. Leaving the `with` block waits for the last one.

    Only the first rank writes; the others take part if the weights are sharded. If writing fails, `check`, the
    next save or leaving the block raises an NmtError that names the state from which the run can be resumed.
    """

    def __init__(
        self,
        run: Path,
        identity: Identity,
        vocabulary: Vocabulary,
        ranks: Ranks,
        source_text: SourceText | None = None,
        training_text: Sequence[Mapping[str, object]] = (),
    ) -> None:
        """source_text, training_text: as in PreparedData; they are written to the model files."""
        self._ranks, self._source_text, self._training_text = ranks, source_text, training_text
        self._run, self._identity, self._vocabulary = run, identity, vocabulary
        self._has_saved = state.newest(run) is not None
        self._held = ExitStack()  # the lock of a new folder
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="saver")
        self._writing: Future[None] | None = None

    def save(self, progress: Progress, train_step: TrainStep, scores: Mapping[str, Any] | None) -> None:
        """Save the state, and a checkpoint unless `scores` is None. The checkpoint is also saved as the best one if
        this step has the best scores.

        scores: written to the checkpoint's provenance; empty if this step has no validation. Afterwards the checkpoints
        that training.keep_last and keep_best do not keep are deleted. Collective.
        """
        if self._ranks.first or train_step.sharded:
            self._begin(progress, train_step, scores)
        self._ranks.barrier()  # the next operation may be NCCL's, which does not wait long for the first rank

    def _begin(self, progress: Progress, train_step: TrainStep, scores: Mapping[str, Any] | None) -> None:
        """Wait for the previous save, copy the state, and pass the copy to the thread."""
        self._wait()  # so that there is only one copy in memory
        if self._ranks.first:
            self._check_folder()
        start = time.perf_counter()
        saved = state.snapshot(self._identity, progress, train_step)
        if not self._ranks.first:
            return
        size = sum(tensor.nbytes for tensor in saved.tensors.values()) / 2**20
        log.debug("state of step %s: %.1f MiB copied in %.3f s", f"{saved.step:,}", size, time.perf_counter() - start)
        provenance = None if scores is None else self._provenance(progress, scores)
        best = bool(scores) and progress.best.step == progress.step
        self._has_saved = True
        self._writing = self._thread.submit(self._write, saved, provenance, best)

    def _provenance(self, progress: Progress, scores: Mapping[str, Any]) -> dict[str, Any]:
        """The provenance of this step's checkpoint."""
        training, origin = self._identity.config.training, self._identity.start and self._identity.start.origin
        return {
            "nmt": nmt.__version__,
            "torch": torch.__version__,
            model_file.DATE: datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "run_dir": str(self._run),
            "step": progress.step,
            "epoch": progress.position.epoch,
            "target_tokens": progress.target_tokens,
            "best_metric": training.best_metric,
            **({"best_set": training.best_set} if training.best_set else {}),
            "validation_key": self._identity.validation_key,
            **({"start_from": origin} if origin else {}),
            **model_file.with_source_text(self._source_text),
            **({model_file.TRAINING_TEXT: list(self._training_text)} if self._training_text else {}),
            **scores,
        }

    def check(self) -> None:
        """Raise the error of a failed save. Call it after each step; it does not wait."""
        if self._writing is not None and self._writing.done():
            self._wait()

    def _write(self, saved: Snapshot, provenance: Mapping[str, Any] | None, best: bool) -> None:
        start, run, settings = time.perf_counter(), self._run, self._identity.config.training
        if provenance is not None:
            model = Checkpoint(self._identity.config, self._vocabulary, saved.part("model"), provenance)
            model_file.save(model_file.checkpoint_path(run, saved.step), model)
            if best:
                model_file.save(run / model_file.BEST, model)
            if average := saved.part("average"):
                moving = {**model_file.origin(provenance), "ema_decay": settings.ema_decay}
                model_file.save(run / model_file.EMA, dataclasses.replace(model, weights=average, provenance=moving))
        state.write(run, saved)
        if provenance is not None:
            run_folder.move_later_aside(run, saved.step)
            kept = {*model_file.checkpoints(run)[-settings.keep_last :], *model_file.best(run, settings.keep_best)}
            for path in set(model_file.checkpoints(run)) - kept:
                path.unlink()
        log.debug("state of step %s: written in %.3f s", f"{saved.step:,}", time.perf_counter() - start)

    def _check_folder(self) -> None:
        """Warn if the folder no longer contains the saved states. The state is saved anyway: together with the
        settings, which are written again, it suffices for resuming."""
        if self._has_saved and state.newest(self._run) is None:
            log.warning(
                "%s: the folder was moved or removed during training. Training continues, and saves into a new folder "
                "with this name; metrics.jsonl and the other open files are still written to the old folder",
                self._run,
            )
            self._held.enter_context(run_folder.locked(self._run))
            run_folder.write_config(self._run, self._identity.config)

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is None:
            return
        try:
            writing.result()
        except (NmtError, OSError) as error:
            newest = state.newest(self._run)
            advice = f"the last good state is {newest}, and the same command resumes from it"
            if newest is None:
                advice = "no state had been saved, and the same command starts from the beginning"
            raise NmtError(f"{error}: training ends; {advice}") from None

    def __enter__(self) -> "Saver":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._wait()
        finally:
            self._thread.shutdown()
            self._held.close()
