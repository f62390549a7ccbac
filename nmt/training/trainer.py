"""The training loop."""

import dataclasses
import logging
import math
import signal
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import torch

from nmt.checkpoints import model_file, run_folder
from nmt.config.schema import Config
from nmt.data.batches.batching import Batches, BatchOrder, Budget
from nmt.data.batches.stages import stages_of
from nmt.data.batches.token_cutoff import TokenCutoff
from nmt.data.prepare import ValidationSet
from nmt.device import SharedCores, explaining_out_of_memory
from nmt.distributed.ranks import Ranks
from nmt.distributed.stopping import StopRequest
from nmt.errors import NmtError
from nmt.training import compilation, consistency, freezing, schedule, start_from, state
from nmt.training.data import TrainingData
from nmt.training.identity import Identity
from nmt.training.memory import micro_batch_tokens, validation_tokens
from nmt.training.profiling import Profile
from nmt.training.progress import Best, Interval, Progress
from nmt.training.run_log import OnMetrics, ProgressBar, RunLog, environment
from nmt.training.saving import Saver
from nmt.training.threads import same_with_fewer_threads
from nmt.training.train_step import TrainStep
from nmt.training.training_steps import TrainingSteps
from nmt.training.validation import Validation, validate

log = logging.getLogger("nmt")

_MANY_SKIPPED = 0.05  # a larger share of skipped pairs is a mistake rather than an accident


class Trainer:
    """One run. It starts in an empty folder and resumes in a folder with a saved state. Only the first rank writes and
    logs."""

    def __init__(
        self,
        config: Config,
        data: TrainingData,
        device: torch.device,
        ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
        *,
        deadline: float = float("inf"),
        profile: bool = False,
        on_metrics: OnMetrics | None = None,
    ):
        """deadline: the time.monotonic() at which to save and stop; profile: time and trace some steps; on_metrics: is
        called with each row of metrics on the first rank; if it raises, training saves and stops.

        Raises NmtError if ranks have different data, or if the memory or the model's positions do not suffice.
        """
        self.config, self.data, self.device, self.ranks = config, data, device, ranks
        self.run_dir, self.deadline = Path(config.run_dir), deadline
        adapts = config.training.threads == "shared" or same_with_fewer_threads(config, torch.get_num_threads())
        self.cores = SharedCores(device, ranks.size, adapts=adapts)
        prepared = data.prepared
        ranks.agree({"the vocabulary": data.vocabulary_key, "the training data": prepared.data_key})
        torch.manual_seed(config.seed)
        message = f"{device}: out of memory with the model alone: lower the sizes in the model settings"
        with explaining_out_of_memory(lambda: message):
            self.model = model_file.new_model(config.model, prepared.vocabulary)
            self.sizes = [count.kept for count in prepared.summary.counts]  # pairs of each corpus
            stages, corpora = stages_of(config.data, self.sizes), len(self.sizes)
            training = state.with_saved_packing(config.training, self.run_dir, ranks)
            self.train_step = TrainStep(self.model, training, config.seed, device, ranks, corpora)
        self.micro_batch_tokens = micro_batch_tokens(
            config.training, self.run_dir, prepared.train, self.train_step.objective, ranks
        )
        budget = Budget(config.training.batch_tokens, self.micro_batch_tokens, config.data.over_budget)
        order = BatchOrder(config.seed, config.data.pool_pairs, config.versions, stages[0].mix)
        packed, cutoff = self.train_step.objective.packed, TokenCutoff.from_config(config.training.cutoff, config.data)
        self.batches = Batches(prepared.train, budget, order, ranks, packed=packed, cutoff=cutoff)
        self.training_steps = TrainingSteps(config.run_dir, config.data, config.training, stages, self.batches)
        self.validation = [(held_out.name, self._validation_batches(held_out)) for held_out in prepared.validation]
        data_key = f"{prepared.data_key}, {self.batches.skipped} pairs skipped"
        self.identity = Identity(config, data_key, data.vocabulary_key, data.validation_key, data.start, packed)
        self.progress = Progress.for_corpora(corpora)
        self.corpora: list[dict[str, float | None]] = []  # `corpora` in the newest row of metrics of this session
        dtype = self.train_step.objective.dtype or torch.float32
        self.on_metrics = on_metrics
        self.profile = Profile(self.run_dir / "profile", device, dtype, ranks) if profile else None

    def run(self) -> StopRequest:
        """Train until max_steps, max_epochs, patience or a request to stop. Returns the StopRequest (unset if none).

        The run folder must be locked (`run_folder.locked`). Raises NmtError if the device's memory is too small, or if
        the loss is no longer a finite number. Earlier saves stay.
        """
        stop = StopRequest(self.deadline)
        with explaining_out_of_memory(self._out_of_memory):
            self._resume()
            end_reason, step = self._reason_to_end(), self.progress.step
            if self.ranks.broadcast(end_reason is not None and model_file.checkpoint_path(self.run_dir, step).exists()):
                log.info("nothing to do: %s", end_reason)
            else:
                self._run_session(stop)
        if self.profile:
            self.profile.close()
        return stop

    def _out_of_memory(self) -> str:
        return (
            f"{self.device}: out of memory at step {self.progress.step:,} with {self.micro_batch_tokens:,} "
            "tokens at once: lower training.micro_batch_tokens (auto finds the largest number that fits; what a step "
            "learns stays the same), or set training.precision: bfloat16 or training.activation_checkpointing: true"
        )

    def _resume(self) -> None:
        """Restore the saved state, if there is one, and write the settings into the run folder."""
        if self.ranks.broadcast(state.newest(self.run_dir)):
            self.progress = state.restore(self.run_dir, self.identity, self.train_step, self.ranks)
            if self.ranks.first:
                losses = self.train_step.losses
                losses += torch.tensor(self.progress.interval.losses, dtype=torch.float64).to(losses)
            log.info("resuming %s at step %s", self.run_dir, f"{self.progress.step:,}")
        else:
            if self.data.start is not None:  # before `move_aside`: it may be one of the run's own models
                start_from.load(self.data.start, self.train_step, self.data.prepared.vocabulary, self.ranks)
            if self.ranks.first:
                run_folder.move_aside(self.run_dir)
        auto = self.config.training.micro_batch_tokens == "auto"
        self.progress.auto_micro_batch_tokens = self.micro_batch_tokens if auto else 0
        self.progress.ranks = self.ranks.size
        if self.ranks.first:
            run_folder.write_config(self.run_dir, self.config)
        max_steps = self.config.training.max_steps
        if self.progress.step > max_steps:
            log.warning(
                "%s is at step %s, past training.max_steps: %s: raise it to train more",
                *(self.run_dir, f"{self.progress.step:,}", f"{max_steps:,}"),
            )

    def _run_session(self, stop: StopRequest) -> None:
        """Train, and record the start and the end of the session."""
        last_step = self._announce()
        self.train_step.prepare(self.batches.example())
        progress, data, run = self.progress, self.data.prepared, self.run_dir if self.ranks.first else None
        tensorboard = progress.step if self.config.training.tensorboard else None
        hook = stop.guarded(self.on_metrics) if self.on_metrics else None
        sizes = progress.metrics_bytes, progress.samples_bytes
        with RunLog(run, *sizes, tensorboard=tensorboard, on_metrics=hook) as run_log:
            facts: dict[str, Any] = {"parameters": self.model.parameter_counts(), "skipped_pairs": self.batches.skipped}
            facts["data"] = dataclasses.asdict(data.summary)
            if self.config.training.freeze:
                facts["trained_parameters"] = freezing.count_trained(self.model)
            facts |= {"start_from": self.data.start.origin} if self.data.start is not None else {}
            run_log.session("started", progress.step, **environment(self.device, self.ranks), **facts)
            # `stop` covers the last save too: another SIGTERM during it must not end the process.
            text = data.source_text, data.training_text
            with stop, Saver(self.run_dir, self.identity, data.vocabulary, self.ranks, *text) as saver:
                try:
                    self._train(run_log, saver, stop, last_step)
                except RuntimeError:
                    if self.ranks.size > 1 and stop.requested == signal.SIGTERM:
                        # Another rank has died, which broke the connections: the launcher ends this rank and reports
                        # the cause.
                        log.debug("after SIGTERM", exc_info=True)
                        raise SystemExit(1) from None
                    raise
            compilation.log_report()
            if end_reason := self._reason_to_end():  # logged only after everything is saved
                log.info("done: %s", end_reason)
            else:
                log.info("%s: saved at step %s; run again to resume", stop.reason, f"{progress.step:,}")
            event = "finished" if end_reason else "stopped"
            run_log.session(event, progress.step, reason=end_reason or stop.reason)

    def _announce(self) -> int:
        """Log the model, the amount of data and the device. Returns the approximate step at which training ends."""
        training, progress = self.config.training, self.progress
        parts = self.model.parameter_counts()
        total = parts.pop("total")
        shares = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
        log.info("model: %s parameters (%s)", f"{total:,}", shares)
        if training.freeze:
            log.info("%s", freezing.summary(self.model, training.freeze))
        steps, skipped = self.training_steps.steps_in_epoch(progress), self.batches.skipped
        left_out = f"; {skipped:,} pairs longer than {self.micro_batch_tokens:,} tokens skipped (data.over_budget)"
        devices = f"{self.ranks.size} ranks, {self.device.type}" if self.ranks.size > 1 else str(self.device)
        if self.device.type == "cpu":
            threads = torch.get_num_threads()
            devices += f", {threads} thread" if threads == 1 else f", {threads} threads"
        how = ", ".join(filter(None, (devices, training.precision, consistency.described(training))))
        log.info("training: about %s steps per epoch%s; %s", f"{steps:,}", left_out if skipped else "", how)
        if skipped > _MANY_SKIPPED * self.batches.pairs:
            log.warning(
                "data.over_budget: %s of the pairs are skipped, because they have more than %s tokens: raise "
                "training.batch_tokens and training.micro_batch_tokens",
                *(f"{skipped / self.batches.pairs:.0%}", f"{self.micro_batch_tokens:,}"),
            )
        self.training_steps.announce(progress)
        last = self.training_steps.last_step(progress, steps)
        if last < training.max_steps and (problem := schedule.problem(training, self.config.model.width, last)):
            log.warning("%s", problem)
        return last

    def _train(self, run_log: RunLog, saver: Saver, stop: StopRequest, last_step: int) -> None:
        """The loop over the steps. If training is already at its end, only saves what is missing."""
        training, progress = self.config.training, self.progress
        phase = self.profile.phase if self.profile else nullcontext
        # A model from training.start_from is validated and saved before the first step.
        starts = self.data.start is not None and progress.step == 0 and not progress.at_start
        # Training is at its end if a setting was changed after the run had stopped between two checkpoints.
        if starts or self._reason_to_end():
            self._save_if_due(run_log, saver, stop)
        steps = self.training_steps.steps(progress, pinned=self.device.type == "cuda")
        with ProgressBar(progress.step, last_step, hidden=not self.ranks.first) as bar, closing(steps):
            shown = self.ranks.broadcast(bar.shown)
            while not (self._reason_to_end() or stop.agreed):
                start = time.perf_counter()
                with phase("data"):
                    step = next(steps)
                self.cores.adapt()
                waiting = time.perf_counter() - start
                agreed_stop = self.ranks.all_reduce_max_async(lambda: stop.requested)  # during the step's computation
                progress.step += 1
                logged = progress.step % training.log_every == 0
                updated = self.train_step.run(step, progress.step, self._learning_rate(), phase, norm=logged)
                stop.agreed = agreed_stop()
                shows = shown and progress.step % 10 == 0  # seldom, because reading the loss waits for the device
                if logged or shows or stop.agreed or self._checkpoint_due():
                    self.train_step.wait()  # before the clock is read
                progress.count(step, updated=updated, seconds=time.perf_counter() - start, waiting=waiting)
                if self.profile:  # outside the measured time, because its report takes seconds
                    self.profile.step(self._flops(step.sentences, step.source_tokens, step.target_tokens))
                bar.update()
                if shows:
                    loss, _, speed = self._interval()
                    bar.show(loss, self._learning_rate(), speed)
                if logged:
                    self._log_interval(run_log, bar)
                saver.check()
                self._save_if_due(run_log, saver, stop)
        if self._reason_to_end():
            stop.agreed = 0  # after a request in the last step there is nothing to resume

    def _learning_rate(self) -> float:
        return schedule.learning_rate(self.progress.step, self.config.training, self.config.model.width)

    def _reason_to_end(self) -> str | None:
        """Why training is at its end; None if it is not."""
        training, progress = self.config.training, self.progress
        if progress.step >= training.max_steps:
            return f"training.max_steps: {training.max_steps} reached"
        if training.max_epochs is not None and progress.position.epoch >= training.max_epochs:
            return f"training.max_epochs: {training.max_epochs} reached"
        if training.patience is not None and progress.best.validations_since >= training.patience:
            return f"training.patience: {training.patience} reached without a new best validation"
        return None

    def _flops(self, sentences: int, source_tokens: int, target_tokens: int) -> float:
        """The floating-point operations for these tokens in all passes of a step (one, or two with consistency)."""
        return self.config.training.passes * self.model.training_flops(sentences, source_tokens, target_tokens)

    def _interval(self) -> tuple[float, list[float], float]:
        """Values since the last logged row, over all ranks: the loss per target token (NaN if every step overflowed in
        float16), the sum of -log p for each corpus, and target tokens per second."""
        interval = self.progress.interval
        tokens, seconds = interval.target_tokens, interval.seconds
        loss, *nll = self.ranks.all_reduce_sum(self.train_step.losses).tolist()
        return loss / tokens if tokens else math.nan, nll, tokens / max(seconds, 1e-9)

    def _log_interval(self, run_log: RunLog, bar: ProgressBar) -> None:
        """Write a row of metrics about the steps since the last row, and start a new interval."""
        self._check_finite()
        progress, train_step, interval = self.progress, self.train_step, self.progress.interval
        source, target = interval.source_tokens, interval.target_tokens
        seconds, (loss, nll, speed) = max(interval.seconds, 1e-9), self._interval()
        self.corpora = progress.corpora(self.sizes, nll) if len(self.sizes) > 1 else []
        norm = train_step.gradient_norm  # of this step; not finite if float16 overflowed
        row = {
            "step": progress.step,
            "epoch": progress.position.epochs_begun,
            **self.training_steps.metrics(progress),
            **({"loss": loss, "nll": sum(nll) / target} if target else {}),
            "learning_rate": self._learning_rate(),
            **({"corpora": self.corpora} if self.corpora else {}),
            **({"gradient_norm": float(norm)} if norm is not None and norm.isfinite() else {}),
            "target_tokens": progress.target_tokens,
            "target_tokens_per_second": round(speed, 1),
            "tflops": round(self._flops(interval.sentences, source, target) / seconds / 1e12, 4),
            **({"padding": 1 - (source + target) / interval.padded_tokens} if target else {}),
            "data_wait": round(interval.waiting / seconds, 4),
            "seconds": round(progress.seconds, 3),
        }
        if self.device.type == "cuda":
            row["peak_memory_gib"] = round(torch.cuda.max_memory_allocated(self.device) / 2**30, 3)
        if train_step.scaler.is_enabled():
            row |= {"loss_scale": train_step.scaler.get_scale(), "overflows": progress.overflows}
        run_log.metrics(row)
        bar.log(progress.step, progress.position.epochs_begun, loss, self._learning_rate(), speed)
        train_step.losses.zero_()
        progress.interval = Interval.for_corpora(len(self.sizes))

    def _save_if_due(self, run_log: RunLog, saver: Saver, stop: StopRequest) -> None:
        """Validate, and save the state and a checkpoint, if they are due. On a request to stop, save the state only."""
        progress, checkpoint_due = self.progress, self._checkpoint_due()
        if not checkpoint_due and not stop.agreed:
            return
        self._check_finite()
        scores = self._validate(run_log) if self._validation_due() else {}
        progress.interval.losses = self.ranks.all_reduce_sum(self.train_step.losses).tolist()
        progress.metrics_bytes, progress.samples_bytes = run_log.sizes
        saver.save(progress, self.train_step, scores if checkpoint_due else None)

    def _validation_due(self) -> bool:
        return self._reason_to_end() is not None or self.progress.step % self.config.training.validate_every == 0

    def _checkpoint_due(self) -> bool:
        return self._validation_due() or self.progress.step % self.config.training.checkpoint_every == 0

    def _check_finite(self, *losses: float) -> None:
        """Raises NmtError if a loss or a weight is not a finite number. Call it before logging or saving."""
        if all(map(math.isfinite, losses)) and self.train_step.is_finite():
            return
        saved = model_file.checkpoints(self.run_dir)
        kept = f"the last good checkpoint is {saved[-1]}" if saved else "no checkpoint had been written"
        resume = "; the same command then resumes from the last save" if state.newest(self.run_dir) else ""
        # The schedule `paper` has no training.learning_rate: its peak falls with more warmup steps.
        advice = "Raise" if self.config.training.learning_rate is None else "Lower training.learning_rate, raise"
        raise NmtError(
            f"the loss or a weight is no longer a number at step {self.progress.step:,}; {kept}. {advice} "
            f"training.warmup_steps, set training.clip_norm: 1, or train in float32 or bfloat16{resume}"
        )

    def _validate(self, run_log: RunLog) -> dict[str, Any]:
        """Score the model on the validation sets, log the scores and compare their means with the best so far.

        Returns `Validation.provenance`, or an empty dictionary without a validation set.
        """
        if not self.validation:
            return {}
        progress, training, translate = self.progress, self.config.training, self.data.translate_validation
        # Uncompiled, because each of the many shapes of padded batches would be compiled.
        eager = torch.compiler.set_stance("force_eager") if self.train_step.compiled else nullcontext()
        with eager, self.cores.all_threads():
            result = validate(self.train_step, self.validation, translate).since(progress.at_start.values())
        self._check_finite(*(scores["validation_loss"] for scores in result.set_scores))
        if progress.step == 0:
            progress.at_start = dict(zip(result.names, result.set_scores, strict=True))
        if result.translated:
            self._report_samples(run_log, result)
        run_log.metrics({"step": progress.step, **self.training_steps.metrics(progress), **result.row})
        value = result.value(training)
        progress.best.validations_since += 1
        line, *set_lines = result.lines()
        if progress.best.value is None or value > progress.best.value:
            progress.best = Best(value, progress.step)
            line += f"  (best {training.best_metric}{f' of {training.best_set}' if training.best_set else ''})"
        log.info("step %s  %s", f"{progress.step:,}", line)
        for line in set_lines:
            log.info("  %s", line)
        if len(self.sizes) > 1:
            log.info("  training so far: %s", self._corpora_so_far())
        return result.provenance

    def _report_samples(self, run_log: RunLog, result: Validation) -> None:
        """Write and log the sample translations of each validation set."""
        several = len(result.names) > 1
        for name, translated in zip(result.names, result.translated, strict=True):
            run_log.samples(self.progress.step, translated.samples, name if several else None)
            for sample in translated.samples:
                head = f"{name}:" if several else ""
                log.info("%s\n  source       %s\n  reference    %s\n  translation  %s", head, *sample)

    def _corpora_so_far(self) -> str:
        """For each corpus, its share of the pairs and the passes over it since the start, and its -log p in the newest
        row of metrics."""
        progress, texts = self.progress, list[str]()
        total = max(1, sum(progress.pair_counts))
        for i, (corpus, size) in enumerate(zip(self.config.data.train, self.sizes, strict=True)):
            pairs, nll = progress.pair_counts[i], self.corpora[i]["nll"] if self.corpora else None
            text = f"{corpus.label} {pairs / total:.1%}, {pairs / max(1, size):.2f} passes"
            texts.append(text if nll is None else f"{text}, nll {nll:.3f}")
        return "; ".join(texts)

    def _validation_batches(self, held_out: ValidationSet) -> Batches:
        """Batches of a complete validation set. Raises NmtError for a pair too long to score."""
        pairs = held_out.ids
        longest, limit = int(max(pairs.source.lengths.max(), pairs.target.lengths.max())), self.model.longest_position
        if limit is not None and longest > limit:
            raise NmtError(
                f"data.validation, {held_out.name}: a sentence has {longest} subwords, and these model settings "
                f"allow at most {limit} positions: remove the sentence, or choose model settings that allow longer ones"
            )
        least = max(longest, self.micro_batch_tokens)
        tokens = validation_tokens(self.model, self.device, longest, least, self.ranks)
        order = BatchOrder(self.config.seed, self.config.data.pool_pairs)
        return Batches(pairs, Budget(tokens * self.ranks.size, tokens), order, self.ranks)
