"""The training loop: batches and a model to checkpoints."""

import logging
import signal
import time
from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from nmt.checkpoints import model_file, run_folder
from nmt.config.schema import Config
from nmt.data.batching import Batches, Step, read_ahead
from nmt.data.token_store import Sequences
from nmt.device import explaining_out_of_memory
from nmt.distributed.ranks import Ranks
from nmt.distributed.stopping import StopRequest
from nmt.errors import NmtError
from nmt.models.interface import TranslationModel
from nmt.training import memory, sharding, state
from nmt.training.data import Material
from nmt.training.environment import environment
from nmt.training.profiling import Profile
from nmt.training.records import Records
from nmt.training.saving import Saver
from nmt.training.schedule import learning_rate
from nmt.training.state import Identity, Progress
from nmt.training.train_step import Learner

log = logging.getLogger("nmt")

_LEAST_SCALE = 2.0**-14  # float16's loss scale, halved at each overflow, starts at 65,536: below this nothing fits


class Trainer:
    """One run: starts in an empty folder, resumes in one with a state. The first rank alone writes and speaks."""

    def __init__(
        self,
        config: Config,
        material: Material,
        device: torch.device,
        ranks: Ranks = Ranks(),  # noqa: B008 (frozen)
        *,
        deadline: float = float("inf"),
        profile: bool = False,
    ):
        """deadline: when to save and stop, on the clock of time.monotonic(); profile: time and trace some steps.

        Raises NmtError when ranks were given other data, and where memory or positions do not suffice for it.
        """
        self.config, self.material, self.device, self.ranks = config, material, device, ranks
        self.run_dir, self.deadline = Path(config.run_dir), deadline
        ranks.agree({"the vocabulary": material.vocabulary_key, "the training data": material.data_key})
        with explaining_out_of_memory(
            lambda: f"{device}: out of memory with the model alone: lower model.d_model or layers"
        ):
            self.learner = Learner(config, material.vocabulary, device, ranks)
        self.micro_cells = self._micro_cells()
        self.batches = self._batches(
            material.train, config.training.batch_tokens, self.micro_cells, config.vocabulary.segmentations
        )
        self.validation = self._validation_batches()
        data_key = f"{material.data_key}, {self.batches.skipped} pairs skipped"  # a step's place depends on both
        self.identity = Identity(config, data_key, material.vocabulary_key, material.validation_key)
        self.progress = Progress()
        dtype = self.learner.objective.autocast_dtype or torch.float32
        self.profile = Profile(self.run_dir / "profile", device, dtype, ranks) if profile else None

    @property
    def model(self) -> TranslationModel:
        """What is trained."""
        return self.learner.model

    def run(self) -> StopRequest:
        """Train until max_steps, max_epochs, patience or a request to stop; returns that, unset if none came.

        Raises NmtError when another process trains in the folder, when the device's memory is too small and when
        the loss is no longer a number; what was saved before stays.
        """
        alone = run_folder.alone(self.run_dir) if self.ranks.first else nullcontext()
        with explaining_out_of_memory(self._out_of_memory), alone:
            stop = self._run()
        if self.profile:
            self.profile.close()
        return stop

    def _out_of_memory(self) -> str:
        return (
            f"{self.device}: out of memory at step {self.progress.step:,} with {self.micro_cells:,} cells at "
            "once: lower training.micro_batch_tokens (auto finds the most that fits; what a step learns stays "
            "the same), or set training.precision: bfloat16 or training.activation_checkpointing: true"
        )

    def _run(self) -> StopRequest:
        if self.ranks.broadcast(state.exists(self.run_dir)):
            self.progress = state.restore(self.run_dir, self.identity, self.learner, self.ranks)
            if self.ranks.first:
                self.learner.losses += torch.tensor(self.progress.losses, dtype=torch.float64).to(self.learner.losses)
            log.info("resuming %s at step %s", self.run_dir, f"{self.progress.step:,}")
        elif self.ranks.first:
            run_folder.move_aside(self.run_dir)
        auto = self.config.training.micro_batch_tokens == "auto"
        self.progress.micro_cells, self.progress.ranks = self.micro_cells if auto else 0, self.ranks.size
        stop, ended = StopRequest(self.deadline), self._ended()
        has_model = model_file.checkpoint_path(self.run_dir, self.progress.step).exists()
        if self.ranks.first:
            run_folder.write_config(self.run_dir, self.config)
        if self.progress.step > self.config.training.max_steps:
            log.warning(
                "%s is at step %s, past training.max_steps: %s: nothing more is trained; raise it to go on",
                *(self.run_dir, f"{self.progress.step:,}", f"{self.config.training.max_steps:,}"),
            )
        if self.ranks.broadcast(bool(ended) and has_model):
            log.info("nothing to do: %s", ended)
            return stop
        self._say_what()
        self.learner.connect()
        run, board = self.run_dir if self.ranks.first else None, self.config.training.tensorboard
        with Records(run, self.progress, tensorboard=board) as records:
            counts = {"parameters": self.model.parameter_counts(), "skipped_pairs": self.batches.skipped}
            facts = {**environment(self.device, self.ranks), **counts, "data": self.material.data_report}
            records.start(self.progress.step, facts)
            self._train(records, stop)
            finished = self._ended()  # said only now that all is saved
            if finished:
                log.info("done: %s", finished)
            else:
                log.info("%s: saved at step %s; run again, it goes on", stop.reason, f"{self.progress.step:,}")
            records.end(self.progress.step, finished or stop.reason, finished=finished is not None)
        return stop

    def _train(self, records: Records, stop: StopRequest) -> None:
        """The loop, with what saves beside it; or what is left to be saved where all is trained."""
        with Saver(self.run_dir, self.identity, self.material.vocabulary, self.ranks) as saver, stop:
            try:
                if self._ended():  # by a setting changed since the run was stopped between two checkpoints
                    self._save_where_due(records, saver, stop)
                else:
                    self._loop(records, saver, stop)
            except RuntimeError:
                if self.ranks.size > 1 and stop.asked == signal.SIGTERM:
                    # The launcher ends this rank, for another has died and with it the connections. It says which.
                    log.debug("after SIGTERM", exc_info=True)
                    raise SystemExit(1) from None
                raise

    def _say_what(self) -> None:
        """What is trained, on how much, where."""
        parts = self.model.parameter_counts()
        total = parts.pop("total")
        shares = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
        log.info("model: %s parameters (%s)", f"{total:,}", shares)
        steps, skipped = self.batches.steps_in_epoch(self.progress.epoch), self.batches.skipped
        left_out = f"; {skipped:,} pairs longer than a batch skipped (data.over_budget)" if skipped else ""
        where = f"{self.ranks.size} ranks, {self.device.type}" if self.ranks.size > 1 else str(self.device)
        threads = f", {torch.get_num_threads()} threads" if self.device.type == "cpu" else ""
        precision = self.config.training.precision
        log.info("training: about %s steps an epoch%s; %s%s, %s", f"{steps:,}", left_out, where, threads, precision)

    def _loop(self, records: Records, saver: Saver, stop: StopRequest) -> None:
        training, progress = self.config.training, self.progress
        hidden = None if self.ranks.first else True  # None: hidden where there is no terminal
        bar = tqdm(total=training.max_steps, initial=progress.step, unit="step", dynamic_ncols=True, disable=hidden)
        shown = self.ranks.broadcast(not bar.disable)
        with bar, closing(self._steps()) as steps:
            clock = time.perf_counter()
            while True:
                with self._phase("data"):
                    step = next(steps)
                progress.interval_waiting += time.perf_counter() - clock
                stopping = self.ranks.all_reduce_max_async(lambda: stop.asked)  # agreed on while the step is computed
                self._train_step(step)
                stop.agreed = stopping()
                elapsed = time.perf_counter() - clock
                progress.seconds += elapsed
                progress.interval_seconds += elapsed
                if self.profile:  # after the clock was read: to report takes seconds, and is not training
                    self.profile.step(self._flops(step.sentences, step.source_tokens, step.target_tokens))
                bar.update()
                if shown and progress.step % 10 == 0:  # not always, for reading the loss waits for the device
                    loss, _, speed = self._interval()
                    bar.set_postfix_str(f"loss {loss:.3f}, lr {self._rate():.1e}, {speed:,.0f} tokens/s")
                if progress.step % training.log_every == 0:
                    self._log(records, aloud=bool(bar.disable))
                saver.check()
                self._save_where_due(records, saver, stop)
                if self._ended():
                    stop.agreed = 0  # there is nothing to go on with
                    return
                if stop.agreed:
                    return
                clock = time.perf_counter()  # validation and saving are not training time

    def _interval(self) -> tuple[float, float, float]:
        """Over all ranks' steps since the last logged line: loss and -log p a target token, target tokens a second."""
        tokens, seconds = self.progress.interval_target_tokens, self.progress.interval_seconds
        loss, nll = (self.ranks.all_reduce_sum(self.learner.losses) / tokens).tolist()
        return loss, nll, tokens / max(seconds, 1e-9)

    def _save_where_due(self, records: Records, saver: Saver, stop: StopRequest) -> None:
        """Validate and save all at their steps and at the end; the state alone when stopping."""
        training, step = self.config.training, self.progress.step
        ended = self._ended() is not None
        validate = ended or step % training.validate_every == 0
        save_all = validate or step % training.checkpoint_every == 0
        if not save_all and not stop.agreed:
            return
        self._check_finite()
        scores = self._validate(records) if validate else {}
        self.progress.losses = self.ranks.all_reduce_sum(self.learner.losses).tolist()
        records.note_sizes(self.progress)
        if save_all:
            saver.save_all(self.progress, self.learner, scores)
        else:
            saver.save_state(self.progress, self.learner)

    def _steps(self) -> Generator[Step, None, None]:
        """The steps from the present position on; `progress` holds the position after the one yielded."""
        progress = self.progress
        while True:
            steps = self.batches.epoch(progress.epoch, progress.step_in_epoch)
            with closing(read_ahead(steps, self.config.data.prefetch, pin=self.device.type == "cuda")) as ahead:
                following = next(ahead, None)
                while following is not None:
                    step, following = following, next(ahead, None)
                    progress.step_in_epoch += 1
                    if following is None:
                        progress.epoch, progress.step_in_epoch = progress.epoch + 1, 0
                    yield step

    def _train_step(self, step: Step) -> None:
        """One update, and its counts."""
        progress = self.progress
        progress.step += 1
        logged = progress.step % self.config.training.log_every == 0
        learned = self.learner.learn(step, progress.step, self._rate(), self._phase, norm=logged)
        progress.overflows += not learned
        progress.target_tokens += step.target_tokens
        progress.interval_target_tokens += step.target_tokens
        progress.interval_source_tokens += step.source_tokens
        progress.interval_sentences += step.sentences
        progress.interval_cells += step.cells

    def _phase(self, name: str) -> AbstractContextManager[Any]:
        return self.profile.phase(name) if self.profile else nullcontext()

    def _rate(self) -> float:
        return learning_rate(self.progress.step, self.config.training, self.config.model.d_model)

    def _flops(self, sentences: int, source: int, target: int) -> float:
        return self.model.training_flops(sentences, source, target)

    def _ended(self) -> str | None:
        """Why there is nothing more to train, or None."""
        training, progress = self.config.training, self.progress
        if progress.step >= training.max_steps:
            return f"training.max_steps: {training.max_steps} reached"
        if training.max_epochs is not None and progress.epoch >= training.max_epochs:
            return f"training.max_epochs: {training.max_epochs} reached"
        if training.patience is not None and progress.without_best >= training.patience:
            return f"{progress.without_best} validations without a new best (training.patience)"
        return None

    def _log(self, records: Records, *, aloud: bool) -> None:
        """One line of metrics over the steps since the last; then the sums start anew."""
        self._check_finite()
        progress, learner = self.progress, self.learner
        sentences, source, target = (
            progress.interval_sentences, progress.interval_source_tokens, progress.interval_target_tokens
        )  # fmt: skip
        loss, nll, speed = self._interval()
        norm = learner.gradient_norm  # of this step: not a finite one where float16 overflowed in it
        row = {
            "step": progress.step,
            "epoch": progress.epoch + 1,
            "loss": loss,
            "nll": nll,
            "learning_rate": self._rate(),
            **({"gradient_norm": float(norm)} if norm is not None and norm.isfinite() else {}),
            "target_tokens": progress.target_tokens,
            "target_tokens_per_second": round(speed, 1),
            "tflops": round(self._flops(sentences, source, target) / max(progress.interval_seconds, 1e-9) / 1e12, 4),
            "padding": 1 - (source + target) / progress.interval_cells,
            "data_wait": round(progress.interval_waiting / max(progress.interval_seconds, 1e-9), 4),
            "seconds": round(progress.seconds, 3),
        }
        if self.device.type == "cuda":
            row["peak_memory_gib"] = round(torch.cuda.max_memory_allocated(self.device) / 2**30, 3)
        if learner.scaler.is_enabled():
            row |= {"loss_scale": learner.scaler.get_scale(), "overflows": progress.overflows}
        records.metrics.write(row)
        learner.losses.zero_()
        progress.start_interval()
        # A progress bar shows this already: the line is for the log file then.
        line = f"step {progress.step:,}  epoch {row['epoch']}  loss {loss:.3f}  lr {row['learning_rate']:.2e}"
        log.log(logging.INFO if aloud else logging.DEBUG, "%s  %s target tokens/s", line, f"{speed:,.0f}")

    def _check_finite(self) -> None:
        """NmtError when a loss or a weight is not a finite number: nothing of that is saved."""
        learner = self.learner
        weights = map(sharding.local_shard, model_file.weights_of(self.model).values())
        finite = torch.stack([tensor.isfinite().all() for tensor in (learner.losses, *weights)]).all()
        lost = learner.scaler.is_enabled() and learner.scaler.get_scale() < _LEAST_SCALE
        if not self.ranks.all_reduce_max_async(lambda: int(lost or not finite))():
            return
        whole = model_file.checkpoints(self.run_dir)
        kept = f"the last good checkpoint is {whole[-1]}" if whole else "no checkpoint had been written"
        saved = "; the same command then goes on from the last save" if state.exists(self.run_dir) else ""
        raise NmtError(
            f"the loss or a weight is no longer a number at step {self.progress.step:,}; {kept}. Lower "
            "training.learning_rate, raise training.warmup_steps, set training.clip_norm: 1, or train in float32 "
            f"or bfloat16{saved}"
        )

    @torch.no_grad()
    def _validate(self, records: Records) -> dict[str, Any]:
        """Loss on the validation set and, by search, BLEU and chrF: written down, compared with the best.

        Returns them by name, with the `signatures` of those by search; nothing without a validation set.
        """
        material, progress, training = self.material, self.progress, self.config.training
        if self.validation is None:
            return {}
        self.learner.objective.eval()
        mine, tokens = torch.zeros((), dtype=torch.float64), 0
        for step in self.validation.epoch(0):
            mine += sum(float(self.learner.measure(batch)[1]) for batch in step.micro_batches)
            tokens += step.target_tokens
        if self.learner.sharded:
            sharding.reshard(self.learner.objective)
        scores = {"validation_loss": float(self.ranks.all_reduce_sum(mine)) / tokens}
        signatures: Mapping[str, str] = {}
        line = f"validation_loss {scores['validation_loss']:.4f}"
        if material.translate_validation is not None:
            translated = material.translate_validation(self.learner.unsharded_model())
            scores |= {"bleu": translated.bleu, "chrf": translated.chrf}
            line += f"  BLEU {translated.bleu:.2f}  chrF {translated.chrf:.2f}"
            signatures = translated.signatures
            records.sample(progress.step, translated.samples)
            for sample in translated.samples:
                log.info("\n  source       %s\n  reference    %s\n  translation  %s", *sample)
        scores = self.ranks.broadcast(scores)
        records.metrics.write({"step": progress.step, **scores})
        value = scores[training.best_metric] * (-1 if training.best_metric == "validation_loss" else 1)
        progress.without_best += 1
        if progress.best is None or value > progress.best:
            progress.best, progress.best_step, progress.without_best = value, progress.step, 0
            line += f"  (best {training.best_metric})"
        log.info("step %s  %s", f"{progress.step:,}", line)
        return {**scores, "signatures": signatures}

    def _micro_cells(self) -> int:
        """The most cells that a device is given at once."""
        data, training, budget = self.material.train, self.config.training, self.config.training.batch_tokens
        longer = np.maximum(data.source_lengths, data.target_lengths)
        longer = longer[longer <= budget]  # longer ones are in no batch
        if training.micro_batch_tokens != "auto":
            cells = min(training.micro_batch_tokens or budget, budget)
            if self.device.type == "cpu":
                most = min(cells, -(-budget // self.ranks.size))  # a rank's share of a step
                memory.check_step(self.config, self.learner.objective, most, longer, self.ranks.local_size)
            return cells
        longest = int(longer.max(initial=1))
        chosen = self.ranks.broadcast(self._chosen_before() if self.ranks.first else 0)
        return memory.micro_batch_cells(self.learner.objective, budget, longest, self.ranks, chosen)

    def _chosen_before(self) -> int:
        """What `auto` chose when the run that is to be resumed began, for the same number of ranks; else 0."""
        saved = state.saved(self.run_dir)
        if saved is None or not saved[1].micro_cells:
            return 0
        _, progress = saved
        if progress.ranks == self.ranks.size:
            return progress.micro_cells
        log.info(
            "training.micro_batch_tokens: auto: %s cells for %s ranks when the run began; chosen anew for %s",
            *(f"{progress.micro_cells:,}", progress.ranks, self.ranks.size),
        )
        return 0

    def _validation_batches(self) -> Batches | None:
        """Batches of the whole validation set, however long its pairs. NmtError where the model cannot take one."""
        sequences, limit = self.material.validation, self.model.longest_position
        if sequences is None:
            return None
        longest = int(max(sequences.source_lengths.max(), sequences.target_lengths.max()))
        if limit is not None and longest > limit:
            raise NmtError(
                f"data.validation: a sentence has {longest} subwords, more than model.max_positions: "
                f"{limit}: raise it, or take the sentence out"
            )
        cells = max(longest, self.micro_cells)
        return self._batches(sequences, cells * self.ranks.size, cells)

    def _batches(self, sequences: Sequences, cells: int, micro_cells: int, segmentations: int = 1) -> Batches:
        return Batches(
            sequences,
            batch_tokens=cells,
            micro_batch_tokens=micro_cells,
            seed=self.config.seed,
            pool_pairs=self.config.data.pool_pairs,
            over_budget=self.config.data.over_budget,
            segmentations=segmentations,
            rank=self.ranks.rank,
            world_size=self.ranks.size,
        )
