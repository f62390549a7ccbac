"""The training loop: batches and a model to checkpoints."""

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from tqdm import tqdm

import nmt
from nmt import checkpoint, settings
from nmt.checkpoint import Checkpoint
from nmt.config import Config
from nmt.data.batching import Batch, Batches, Step, read_ahead
from nmt.data.token_store import Sequences
from nmt.data.vocabulary import BOS, PAD, Vocabulary
from nmt.errors import NmtError
from nmt.model.transformer import Transformer
from nmt.training import state
from nmt.training.loss import smoothed_cross_entropy
from nmt.training.metrics import Metrics
from nmt.training.schedule import learning_rate
from nmt.training.state import Identity, Progress
from nmt.training.stopping import StopRequest

log = logging.getLogger("nmt")


class SearchScores(Protocol):
    """What translating the validation set gives; samples are (source, reference, translation)."""

    @property
    def bleu(self) -> float: ...
    @property
    def chrf(self) -> float: ...
    @property
    def samples(self) -> Sequence[tuple[str, str, str]]: ...


@dataclass(frozen=True)
class Material:
    """What a run trains and validates on."""

    vocabulary: Vocabulary
    train: Sequences
    validation: Sequences | None
    translate_validation: Callable[[Transformer], SearchScores] | None
    data_key: str
    vocabulary_key: str


class Trainer:
    """One run: starts in an empty folder, resumes in one with a state.

    The gradient of a step is that of the sum of all its tokens' losses over their count, however
    the step is cut into micro-batches.
    """

    def __init__(self, config: Config, material: Material, device: torch.device):
        self.config, self.material, self.device = config, material, device
        self.run_dir = Path(config.run_dir)
        torch.manual_seed(config.seed)
        self.model = checkpoint.new_model(config, material.vocabulary).to(device)
        self.optimizer = _optimizer(self.model, config, device)
        half = config.training.precision == "float16"
        self.scaler = torch.amp.GradScaler(device.type, enabled=half)
        self.progress = Progress()
        # Sums of the loss and of -log p since the last logged line, on the device: reading them would wait for it.
        self.losses = torch.zeros(2, device=device, dtype=torch.float32 if device.type == "mps" else torch.float64)
        self.batches = self._batches(material.train, config.training.batch_tokens, config.data.over_budget)
        self.validation = self._validation_batches()
        data_key = f"{material.data_key}, {self.batches.skipped} pairs skipped"  # a step's place depends on both
        self.identity = Identity(config, data_key, material.vocabulary_key)

    def run(self) -> StopRequest:
        """Train until max_steps, max_epochs, patience or a stop request; returns the request, unset if none came.

        Raises NmtError when another process trains in the folder, and when the loss is no longer a number;
        what was saved before stays.
        """
        with state.alone(self.run_dir):
            return self._run()

    def _run(self) -> StopRequest:
        if state.exists(self.run_dir):
            self.progress = state.restore(self.run_dir, self.identity, self.model, self.optimizer, self.scaler)
            self.losses += torch.tensor(self.progress.losses, dtype=self.losses.dtype, device=self.device)
            log.info("resuming %s at step %s", self.run_dir, f"{self.progress.step:,}")
        else:
            state.move_aside(self.run_dir)
        self._write_config()
        ended = self._ended()
        if ended and checkpoint.checkpoint_path(self.run_dir, self.progress.step).exists():
            log.info("nothing to do: %s", ended)
            return StopRequest()
        self._say_what()
        tensorboard = self.config.training.tensorboard
        with (
            Metrics(self.run_dir, self.progress.metrics_bytes, tensorboard=tensorboard) as metrics,
            StopRequest() as stop,
        ):
            if ended:  # by a setting changed since the run was stopped between two checkpoints
                self._save_where_due(metrics, stop)
            else:
                self._loop(metrics, stop)
        return stop

    def _write_config(self) -> None:
        path = self.run_dir / "config.yaml"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(settings.to_yaml(self.config), encoding="utf-8")
        except OSError as error:
            raise NmtError(f"{path}: cannot be written: {error.strerror}: choose another run_dir") from None

    def _say_what(self) -> None:
        """What is trained, on how much, where."""
        parts = self.model.parameter_counts()
        total = parts.pop("total")
        shares = ", ".join(f"{name} {count:,}" for name, count in parts.items() if count)
        log.info("model: %s parameters (%s)", f"{total:,}", shares)
        steps, skipped = self.batches.steps_in_epoch(self.progress.epoch), self.batches.skipped
        left_out = f"; {skipped:,} pairs longer than a batch skipped (data.over_budget)" if skipped else ""
        threads = f", {torch.get_num_threads()} threads" if self.device.type == "cpu" else ""
        precision = self.config.training.precision
        log.info(
            "training: about %s steps an epoch%s; %s%s, %s", f"{steps:,}", left_out, self.device, threads, precision
        )

    def _loop(self, metrics: Metrics, stop: StopRequest) -> None:
        training, progress = self.config.training, self.progress
        bar = tqdm(total=training.max_steps, initial=progress.step, unit="step", dynamic_ncols=True, disable=None)
        with bar, closing(self._steps()) as steps:
            clock = time.perf_counter()
            for step in steps:
                self._train_step(step)
                elapsed = time.perf_counter() - clock
                progress.seconds += elapsed
                progress.interval_seconds += elapsed
                self._show(bar)
                if progress.step % training.log_every == 0:
                    self._log(metrics, aloud=bool(bar.disable))
                self._save_where_due(metrics, stop)
                if ended := self._ended():
                    log.info("done: %s", ended)
                    return
                if stop.signal:
                    log.info("saved at step %s: the same command goes on from there", f"{progress.step:,}")
                    return
                clock = time.perf_counter()  # validation and saving are not training time

    def _show(self, bar: "tqdm[Any]") -> None:
        """Move the bar; every tenth step also what it says, since reading the loss waits for the device."""
        bar.update()
        if not bar.disable and self.progress.step % 10 == 0:
            loss, speed = self._interval()
            bar.set_postfix_str(f"loss {loss:.3f}, lr {self._rate():.1e}, {speed:,.0f} tokens/s")

    def _interval(self) -> tuple[float, float]:
        """Over the steps since the last logged line: loss a target token, and target tokens a second."""
        progress = self.progress
        tokens = progress.interval_target_tokens
        return float(self.losses[0]) / tokens, tokens / max(progress.interval_seconds, 1e-9)

    def _save_where_due(self, metrics: Metrics, stop: StopRequest) -> None:
        """Validate and write checkpoint and state at their steps and at the end; the state alone when stopping."""
        training, step = self.config.training, self.progress.step
        ended = self._ended() is not None
        validate = ended or step % training.validate_every == 0
        if validate or step % training.checkpoint_every == 0:
            self._check_finite()
            scores = self._validate(metrics) if validate else {}
            self._save_checkpoint(scores)
            self._save_state(metrics)
            self._discard_checkpoints()
        elif stop.signal:
            self._check_finite()
            self._save_state(metrics)

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
        """One update from the micro-batches of one step."""
        training, progress = self.config.training, self.progress
        progress.step += 1
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        self.model.train()
        for batch in step.micro_batches:
            loss, nll = self._losses(batch)
            self.scaler.scale(loss / step.target_tokens).backward()  # type: ignore[no-untyped-call]
            self.losses += torch.stack([loss, nll]).detach()
        if training.clip_norm is not None:
            self.scaler.unscale_(self.optimizer)
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), training.clip_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        progress.target_tokens += step.target_tokens
        progress.interval_target_tokens += step.target_tokens
        progress.interval_source_tokens += step.source_tokens
        progress.interval_cells += step.cells

    def _rate(self) -> float:
        return learning_rate(self.progress.step, self.config.training, self.config.model.d_model)

    def _losses(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sums over a micro-batch's tokens of the smoothed loss and of -log p."""
        training = self.config.training
        # Found on the CPU, where the batch was made: the loss is taken only where there are tokens.
        tokens = (batch.target.flatten() != PAD).nonzero()[:, 0].to(self.device, non_blocking=True)  # [N]
        source = batch.source.to(self.device, non_blocking=True)  # [B, S]
        target = batch.target.to(self.device, non_blocking=True)  # [B, T]
        half = None if training.precision == "float32" else getattr(torch, training.precision)
        with torch.autocast(self.device.type, half, enabled=half is not None):
            states = self.model(source, F.pad(target[:, :-1], (1, 0), value=BOS))  # [B, T, D]
            return smoothed_cross_entropy(
                states.flatten(0, 1).index_select(0, tokens),
                self.model.output.weight,
                target.flatten()[tokens],
                training.label_smoothing if self.model.training else 0.0,
            )

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

    def _log(self, metrics: Metrics, *, aloud: bool) -> None:
        """One line of metrics over the steps since the last; then the sums start anew."""
        self._check_finite()
        progress = self.progress
        loss, speed = self._interval()
        filled = progress.interval_source_tokens + progress.interval_target_tokens
        row = {
            "step": progress.step,
            "epoch": progress.epoch + 1,
            "loss": loss,
            "nll": float(self.losses[1]) / progress.interval_target_tokens,
            "learning_rate": self._rate(),
            "target_tokens": progress.target_tokens,
            "target_tokens_per_second": round(speed, 1),
            "padding": 1 - filled / progress.interval_cells,
            "seconds": round(progress.seconds, 3),
        }
        metrics.write(row)
        self.losses.zero_()
        progress.start_interval()
        # A progress bar shows this already: the line is for the log file then.
        line = f"step {progress.step:,}  epoch {row['epoch']}  loss {loss:.3f}  lr {row['learning_rate']:.2e}"
        log.log(logging.INFO if aloud else logging.DEBUG, "%s  %s target tokens/s", line, f"{speed:,.0f}")

    def _check_finite(self) -> None:
        """NmtError when a loss or a weight is not a finite number: nothing of that is saved."""
        checked = [self.losses, *checkpoint.weights_of(self.model).values()]
        if torch.stack([tensor.isfinite().all() for tensor in checked]).all():
            return
        whole = checkpoint.checkpoints(self.run_dir)
        kept = f"the last good checkpoint is {whole[-1]}" if whole else "no checkpoint had been written"
        raise NmtError(
            f"the loss or a weight is no longer a number at step {self.progress.step:,}; {kept}. Lower "
            "training.learning_rate, raise training.warmup_steps, set training.clip_norm: 1, or train in float32 "
            "or bfloat16; the same command then goes on from the last save"
        )

    @torch.no_grad()
    def _validate(self, metrics: Metrics) -> dict[str, float]:
        """Loss on the validation set and, by search, BLEU and chrF: written down, compared with the best."""
        material, progress, training = self.material, self.progress, self.config.training
        if self.validation is None:
            return {}
        self.model.eval()
        total, tokens = 0.0, 0
        for step in self.validation.epoch(0):
            total += sum(float(self._losses(batch)[1]) for batch in step.micro_batches)
            tokens += step.target_tokens
        scores = {"validation_loss": total / tokens}
        line = f"validation_loss {scores['validation_loss']:.4f}"
        if material.translate_validation is not None:
            translated = material.translate_validation(self.model)
            scores |= {"bleu": translated.bleu, "chrf": translated.chrf}
            line += f"  BLEU {translated.bleu:.2f}  chrF {translated.chrf:.2f}"
            for sample in translated.samples:
                log.info("\n  source       %s\n  reference    %s\n  translation  %s", *sample)
        metrics.write({"step": progress.step, **scores})
        value = scores[training.best_metric] * (-1 if training.best_metric == "validation_loss" else 1)
        progress.without_best += 1
        if progress.best is None or value > progress.best:
            progress.best, progress.best_step, progress.without_best = value, progress.step, 0
            line += "  (best so far)"
        log.info("step %s  %s", f"{progress.step:,}", line)
        return scores

    def _save_checkpoint(self, scores: dict[str, float]) -> None:
        """Write the model file of this step, and the best one if it is that."""
        progress, training = self.progress, self.config.training
        provenance = {
            "nmt": nmt.__version__,
            "torch": torch.__version__,
            "run_dir": str(self.run_dir),
            "step": progress.step,
            "epoch": progress.epoch,
            "target_tokens": progress.target_tokens,
            "best_metric": training.best_metric,
            **scores,
        }
        weights = checkpoint.weights_of(self.model)
        model_file = Checkpoint(self.config, self.material.vocabulary, weights, provenance)
        checkpoint.save(checkpoint.checkpoint_path(self.run_dir, progress.step), model_file)
        if scores and progress.best_step == progress.step:
            checkpoint.save(self.run_dir / checkpoint.BEST, model_file)

    def _discard_checkpoints(self) -> None:
        """Delete the checkpoints that keep_last and keep_best no longer keep."""
        training = self.config.training
        kept = {*checkpoint.last(self.run_dir, training.keep_last), *checkpoint.best(self.run_dir, training.keep_best)}
        for path in set(checkpoint.checkpoints(self.run_dir)) - kept:
            path.unlink()

    def _save_state(self, metrics: Metrics) -> None:
        self.progress.losses = self.losses.tolist()
        self.progress.metrics_bytes = metrics.size
        state.save(self.run_dir, self.identity, self.progress, self.model, self.optimizer, self.scaler)

    def _validation_batches(self) -> Batches | None:
        """Batches of the whole validation set, however long its pairs. NmtError where the model cannot take one."""
        sequences, sizes = self.material.validation, self.config.model
        if sequences is None:
            return None
        longest = int(max(sequences.source_lengths.max(), sequences.target_lengths.max()))
        if sizes.positions == "learned" and longest > sizes.max_positions:
            raise NmtError(
                f"data.validation: a sentence has {longest} subwords, more than model.max_positions: "
                f"{sizes.max_positions}: raise it, or take the sentence out"
            )
        training = self.config.training
        return self._batches(sequences, max(longest, training.micro_batch_tokens or training.batch_tokens), "error")

    def _batches(self, sequences: Sequences, cells: int, over_budget: Literal["skip", "error"]) -> Batches:
        micro = self.config.training.micro_batch_tokens if sequences is self.material.train else None
        return Batches(
            sequences,
            batch_tokens=cells,
            micro_batch_tokens=micro,
            seed=self.config.seed,
            pool_pairs=self.config.data.pool_pairs,
            over_budget=over_budget,
        )


def _optimizer(model: Transformer, config: Config, device: torch.device) -> torch.optim.Optimizer:
    """Adam as in section 5.3; with weight_decay, AdamW's, on matrices only."""
    training = config.training
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": training.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=0.0,
        betas=training.adam_betas,
        eps=training.adam_epsilon,
        fused=device.type in ("cpu", "cuda"),
    )
