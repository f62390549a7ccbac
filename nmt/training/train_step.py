"""One optimizer step: the model and all that changes with it."""

import copy
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import get_ema_multi_avg_fn

from nmt.checkpoints import model_file
from nmt.config import schema
from nmt.config.schema import Config
from nmt.data.batching import Batch, Step
from nmt.data.vocabulary import PAD, Vocabulary
from nmt.distributed.ranks import Ranks
from nmt.models.interface import TranslationModel
from nmt.training import sharding
from nmt.training.objective import Objective, compile_layers

Phase = Callable[[str], AbstractContextManager[Any]]


class Learner:
    """Weights, Adam's moments, float16's loss scale, the weights' moving average.

    losses: the sums of this rank's loss and of its -log p since someone last set them to zero, on the device.
    gradient_norm: of the last step that was asked for it.
    """

    def __init__(self, settings: Config, vocabulary: Vocabulary, device: torch.device, ranks: Ranks):
        training = settings.training
        self.training, self.device, self.ranks, self.seed = training, device, ranks, settings.seed
        torch.manual_seed(settings.seed)
        torch.set_float32_matmul_precision("high" if training.precision == "tf32" else "highest")
        self.sharded = training.sharded and ranks.size > 1
        self._new_model = partial(model_file.new_model, settings, vocabulary)
        self.model = self._new_model()
        self.model.recompute = training.activation_checkpointing
        self.objective = Objective(self.model, training)
        if self.sharded:
            sharding.shard(self.objective, device, ranks)
        self.objective.to(device)
        self.parallel: nn.Module = self.objective
        self.optimizer = _optimizer(self.model, training)
        self.scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "float16")
        self.average = None if training.ema_decay is None else copy.deepcopy(self.model).requires_grad_(False)
        self.losses = torch.zeros(2, device=device, dtype=torch.float32 if device.type == "mps" else torch.float64)
        self.gradient_norm: Tensor | None = None

    def connect(self) -> None:
        """Before the first step: compile where that is wanted, and join the ranks, all with the first one's weights."""
        if self.training.compile:
            compile_layers(self.objective, self.device, sharded=self.sharded)
        if self.ranks.size > 1 and not self.sharded:  # sums gradients while the backward pass goes on
            with warnings.catch_warnings():  # PyTorch 2.13 has another name for an argument that those before need
                warnings.simplefilter("ignore", FutureWarning)
                self.parallel = DistributedDataParallel(
                    self.objective, broadcast_buffers=False, gradient_as_bucket_view=True
                )

    def learn(self, step: Step, number: int, rate: float, phase: Phase, *, norm: bool = False) -> bool:
        """The update of step `number` (from 1) at a learning rate; `norm`: find the gradient's norm as well.

        The gradient is that of the sum of all its tokens' losses over their count, however the step is cut
        into ranks and micro-batches. Returns False where float16 overflowed and the weights stayed as they were.
        """
        # The masks of dropout follow from the step and the rank: a resumed run needs no saved generator.
        generated = np.random.SeedSequence((self.seed, number, self.ranks.rank)).generate_state(1, np.uint64)
        torch.manual_seed(int(generated[0]))
        self.objective.train()
        # DDP and FSDP take the mean over the ranks where the sum is wanted.
        share = self.ranks.size / step.target_tokens
        for i, batch in enumerate(step.micro_batches, start=1):
            with self._reduced(last=i == len(step.micro_batches)):
                with phase("forward"):
                    loss, nll = self.measure(batch, self.parallel)
                with phase("backward"):
                    self.scaler.scale(loss * share).backward()  # type: ignore[no-untyped-call]
            sums = torch.stack([loss, nll]).detach()
            # float16 overflows now and then: the scaler leaves such a step out, so its sums must not spoil the others.
            self.losses += sums.where(sums.isfinite(), 0) if self.scaler.is_enabled() else sums
        with phase("optimizer"):
            learned = self._update(rate, norm)
        if learned and self.average is not None:
            self._update_ema(self.average, number)
        return learned

    def measure(self, batch: Batch, objective: nn.Module | None = None) -> tuple[Tensor, Tensor]:
        """The sums over a micro-batch's tokens of the smoothed loss and of -log p."""
        # Found on the CPU, where the batch was made: the loss is taken only where there are tokens.
        tokens = (batch.target.flatten() != PAD).nonzero()[:, 0]  # [N]
        here = (tensor.to(self.device, non_blocking=True) for tensor in (batch.source, batch.target, tokens))
        loss, nll = (objective or self.objective)(*here)
        return loss, nll

    def _reduced(self, *, last: bool) -> AbstractContextManager[Any]:
        """Gradients are summed over the ranks once a step: in its last micro-batch."""
        if self.sharded:
            sharding.reduce_gradients(self.objective, last)
        if last or not isinstance(self.parallel, DistributedDataParallel):
            return nullcontext()
        return self.parallel.no_sync()

    def unsharded_model(self) -> TranslationModel:
        """The model as one that can be called on this rank alone. Collective where weights are shared out."""
        if not self.sharded:
            return self.model
        plain = self._new_model().to(self.device)
        weights = model_file.weights_of(self.model)
        model_file.load_weights(plain, {name: sharding.gather(weight) for name, weight in weights.items()})
        return plain.eval()

    def _update(self, rate: float, norm: bool) -> bool:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        clip = self.training.clip_norm
        if norm or clip is not None:
            self.scaler.unscale_(self.optimizer)
            weights = list(self.model.parameters())
            total = torch.nn.utils.get_total_norm([w.grad for w in weights if w.grad is not None])
            if clip is not None:
                torch.nn.utils.clip_grads_with_norm_(weights, clip, total)
            self.gradient_norm = sharding.gather(total)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return self.scaler.get_scale() >= scale  # lowered where it overflowed

    @torch.no_grad()
    def _update_ema(self, average: TranslationModel, number: int) -> None:
        """average ← d average + (1-d) weights, d growing to ema_decay lest the first weights be remembered long."""
        assert self.training.ema_decay is not None
        decay = min(self.training.ema_decay, (1 + number) / (10 + number))
        follow = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        follow(list(average.parameters()), list(self.model.parameters()), number)


def _optimizer(model: nn.Module, training: schema.TrainingConfig) -> torch.optim.Optimizer:
    """Adam as in section 5.3; with weight_decay, AdamW's, on matrices only."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": training.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=0.0,
        betas=training.adam_betas,
        eps=training.adam_epsilon,
        fused=matrices[0].device.type in ("cpu", "cuda"),
    )
