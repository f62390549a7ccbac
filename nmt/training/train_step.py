"""One optimizer step, with the model and everything else that a step changes."""

import copy
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import get_ema_multi_avg_fn

from nmt.checkpoints import model_file
from nmt.config.schema import TrainingConfig
from nmt.data.batches.batching import Step
from nmt.data.batches.packing import PackedBatch
from nmt.data.batches.padding import Batch
from nmt.distributed.ranks import Ranks
from nmt.models import build
from nmt.models.translation_model import TranslationModel
from nmt.training import cuda_graph, freezing, sharding
from nmt.training.adam import AdamW
from nmt.training.compilation import compile_layers
from nmt.training.data_parallel import data_parallel
from nmt.training.muon import Muon
from nmt.training.objective import Objective, packs

Phase = Callable[[str], AbstractContextManager[Any]]

# From this number of floating-point operations on, layers are compiled by default. A GPU for training needs about a
# millisecond for the matrix products of such a pass. Its hundreds of small kernels take several milliseconds, whatever
# their size. Compiling saves about as much time as the products take: in smaller passes too little to pay for 20
# seconds of compilation.
_FLOPS_OF_LARGE_PASS = 3e11
# Positions. In larger steps, the GPU computes for longer than the program needs to start the operations.
_LARGEST_RECORDED_STEP = 8_192
_MIN_LOSS_SCALE = 2.0**-14  # float16 starts at 65,536, and each overflow halves it; below this, training fails


class TrainStep:
    """The model, its optimizer, float16's loss scaler and the moving average of the weights (None without one).

    losses: this rank's sums of the loss and of each corpus's -log p since the last reset, on the device.
    gradient_norm: the norm of the full gradient in the last step that computed it.
    """

    def __init__(
        self,
        model: TranslationModel,
        training: TrainingConfig,
        seed: int,
        device: torch.device,
        ranks: Ranks,
        corpora: int = 1,
    ):
        self.model, self.training, self.seed, self.device, self.ranks = model, training, seed, device, ranks
        torch.set_float32_matmul_precision("high" if training.precision == "tf32" else "highest")
        self.sharded = training.sharded and ranks.size > 1
        self.model.recompute = training.activation_checkpointing
        freezing.freeze(self.model, training.freeze)
        self.objective = Objective(self.model, training, sharded=self.sharded)
        if self.sharded:
            sharding.shard(self.objective, device, ranks, training.gradient_precision)
        self.objective.to(device)
        if device.type == "cuda":
            # cuDNN's attention needs a fraction of a second for each new shape. Padded batches often have new shapes,
            # and validation always pads.
            torch.backends.cuda.enable_cudnn_sdp(False)
        self.objective.packed = packs(self.objective, training.packed, ranks, sharded=self.sharded)
        self.compiled = False  # until `prepare`
        self.recorded: cuda_graph.RecordedStep | None = None  # the step as a CUDA graph
        self.parallel: nn.Module = self.objective
        self.optimizer = _optimizer(self.model, training)
        self.scaler = torch.amp.GradScaler(device.type, enabled=training.precision == "float16")
        self.average = None if training.ema_decay is None else copy.deepcopy(self.model).requires_grad_(False)
        self.objective.corpora = corpora
        precise = torch.float32 if device.type == "mps" else torch.float64
        self.losses = torch.zeros(1 + corpora, device=device, dtype=precise)
        self.gradient_norm: Tensor | None = None

    def load_weights(self, weights: Mapping[str, Tensor], average: Mapping[str, Tensor] | None = None) -> None:
        """Copy full weights into the model, sharded like the model, and into the moving average if there is one. The
        average gets `average`, or `weights` if that is empty or None. Raises NmtError as `model_file.load_weights`
        does. Collective if sharded."""
        parameters, sharded = dict(self.model.named_parameters()), dict[str, Tensor]()
        for name, weight in weights.items():
            sharded[name] = sharding.shard_like(weight, parameters[name]) if name in parameters else weight
        model_file.load_weights(self.model, sharded)
        if self.average is not None:
            model_file.load_weights(self.average, average or weights)

    def prepare(self, example: Batch | PackedBatch) -> None:
        """Call once before the first step. Compiles the layers if configured, for batches like the example, records the
        step or its passes if possible, and sends the first rank's weights to all ranks."""
        if self._compiles(example):
            ranks_here = self.ranks.local_size
            self.compiled = compile_layers(self.objective, example, sharded=self.sharded, ranks_here=ranks_here)
        if self._can_record() and isinstance(example, PackedBatch):
            if self._is_one_graph(example):
                batch = example.to(self.device)
                self.recorded = cuda_graph.RecordedStep(self._learn_batch, batch, self.model, self.optimizer)
            else:
                cuda_graph.record(self.objective, example)
        self.ranks.barrier()  # the next operation is NCCL's, which does not wait long
        if self.ranks.size > 1 and not self.sharded:
            self.parallel = data_parallel(self.objective, self.training.gradient_precision)

    def _compiles(self, example: Batch | PackedBatch) -> bool:
        """Whether the layers are to be compiled, for batches like the example."""
        if self.training.compile is not None:
            return self.training.compile
        if self.device.type != "cuda" or not isinstance(example, PackedBatch):
            return False
        return self._is_large(example) or not self._can_record()

    def _is_large(self, example: PackedBatch) -> bool:
        """Whether a pass over batches like the example has so much work that compiling pays."""
        positions = example.numbers.shape[1]
        # As if each sentence had one token: the products of attention are few.
        flops = self.training.passes * self.model.training_flops(positions, positions, positions)
        return flops >= _FLOPS_OF_LARGE_PASS

    def _can_record(self) -> bool:
        """Whether CUDA graphs are possible: each pass has the same operations, and one rank starts them alone."""
        return self.device.type == "cuda" and not (self.sharded or self.training.activation_checkpointing)

    def _is_one_graph(self, example: PackedBatch) -> bool:
        """Whether a whole step of a batch like the example can be one CUDA graph, and is small enough to gain by it."""
        positions = example.numbers.shape[1]
        one_micro_batch = self.ranks.size == 1 and self.training.batch_tokens <= positions
        same_operations = self.training.passes == 1 and not self.scaler.is_enabled()
        return one_micro_batch and same_operations and positions <= _LARGEST_RECORDED_STEP

    def run(
        self, step: Step, step_number: int, learning_rate: float, phase: Phase = nullcontext, *, norm: bool = False
    ) -> bool:
        """Update the weights. step_number: counted from 1; norm: compute `gradient_norm` even without clipping.

        The loss is the sum over all target tokens divided by their number, so that the gradient does not depend on how
        the step is split into ranks and micro-batches. Returns False if float16 overflowed and no weight changed.
        """
        # Dropout depends on seed, step and rank only: a resumed run needs no saved generator state.
        generated = np.random.SeedSequence((self.seed, step_number, self.ranks.rank)).generate_state(1, np.uint64)
        torch.manual_seed(int(generated[0]))
        self.objective.train()
        share = self.ranks.size / step.target_tokens  # DDP and FSDP compute the mean over the ranks, not the sum
        match step.micro_batches:
            case [PackedBatch() as batch] if self.recorded is not None and self.recorded.fits(batch):
                with phase("replay"):
                    self.gradient_norm, updated = self.recorded(batch, share, learning_rate), True
                if self.recorded.failed:
                    self.recorded = None
                    cuda_graph.record(self.objective, batch)
            case batches:
                updated = self._learn(batches, share, learning_rate, phase, norm=norm)
        if updated and self.average is not None:
            self._update_ema(self.average, step_number)
        return updated

    def _learn(
        self,
        micro_batches: Sequence[Batch | PackedBatch],
        share: float | Tensor,
        learning_rate: float | Tensor,
        phase: Phase = nullcontext,
        *,
        norm: bool,
    ) -> bool:
        """The operations of a step except the moving average. share: the factor of the summed loss."""
        losses = torch.zeros_like(self.losses)
        for i, batch in enumerate(micro_batches, start=1):
            with self._synchronized(last=i == len(micro_batches)):
                with phase("forward"):
                    loss, nll = self.parallel(batch.to(self.device))
                with phase("backward"):
                    self.scaler.scale(loss * share).backward()
            losses += torch.cat([loss[None], nll]).detach()
        with phase("optimizer"):
            updated = self._update(learning_rate, norm)
        if updated:  # after an overflow of float16 the step is skipped, and its loss may be NaN
            self.losses += losses
        return updated

    def _learn_batch(self, batch: PackedBatch, share: Tensor, learning_rate: Tensor) -> Tensor:
        """A step of one micro-batch on one rank, without a loss scale. Returns the gradient's norm. All that differs
        between two steps is in the tensors, so that a CUDA graph can be recorded."""
        self._learn([batch], share, learning_rate, norm=True)
        assert self.gradient_norm is not None
        return self.gradient_norm

    def wait(self) -> None:
        """Wait until a GPU has computed everything, so that a clock measures the computation."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def is_finite(self) -> bool:
        """Whether all losses and weights are finite numbers, and float16's loss scale is not too small. Collective."""
        weights = map(sharding.local_shard, model_file.weights_of(self.model).values())
        finite = torch.stack([tensor.isfinite().all() for tensor in (self.losses, *weights)]).all()
        too_small = self.scaler.is_enabled() and self.scaler.get_scale() < _MIN_LOSS_SCALE
        return not self.ranks.all_reduce_max_async(lambda: int(too_small or not finite))()

    def _synchronized(self, *, last: bool) -> AbstractContextManager[Any]:
        """A context for a micro-batch. Gradients are summed over the ranks once per step, in the last micro-batch."""
        if self.sharded:
            self.objective.set_requires_gradient_sync(last)  # type: ignore[operator]
        if last or not isinstance(self.parallel, DistributedDataParallel):
            return nullcontext()
        return self.parallel.no_sync()

    def unsharded_model(self) -> TranslationModel:
        """The model with all its weights, which this rank can call alone. Collective if sharded."""
        model = self.model
        if not self.sharded:
            return model
        full = build.build(model.config, model.source_vocabulary, model.target_vocabulary, model.padding)
        full.to(self.device)
        weights = model_file.weights_of(model)
        model_file.load_weights(full, {name: sharding.gather(weight) for name, weight in weights.items()})
        return full.eval()

    def _update(self, learning_rate: float | Tensor, norm: bool) -> bool:
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
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
        return self.scaler.get_scale() >= scale  # an overflow lowers it

    @torch.no_grad()
    def _update_ema(self, average: TranslationModel, step_number: int) -> None:
        """average ← d average + (1-d) weights. d grows to ema_decay, so that the first weights are soon forgotten."""
        assert self.training.ema_decay is not None
        decay = min(self.training.ema_decay, (1 + step_number) / (10 + step_number))
        update = get_ema_multi_avg_fn(decay)  # type: ignore[no-untyped-call]
        update(list(average.parameters()), list(self.model.parameters()), step_number)


def _optimizer(model: TranslationModel, training: TrainingConfig) -> torch.optim.Optimizer:
    """Adam as in section 5.3 of the paper; with weight_decay AdamW, which decays matrices only. With
    training.optimizer: muon, Muon for the matrices in the layers and Adam for all other weights. Frozen weights are
    left out."""
    uses_muon = {"adam": False, "muon": True}[training.optimizer]
    muon_matrices = dict[Tensor, list[int]]()
    if uses_muon:
        muon_matrices = {weight: rows for weight, rows in model.matrices().items() if weight.requires_grad}
    adam_weights = [weight for weight in model.parameters() if weight.requires_grad and weight not in muon_matrices]
    matrices = [weight for weight in adam_weights if weight.dim() > 1]
    vectors = [weight for weight in adam_weights if weight.dim() <= 1]
    adam = AdamW(
        [{"params": matrices, "weight_decay": training.weight_decay}, {"params": vectors, "weight_decay": 0.0}],
        lr=0.0,
        betas=training.adam_betas,
        eps=training.adam_epsilon,
        capturable=model.output_weight.is_cuda,  # a step may be recorded
        fused=bool(adam_weights) and adam_weights[0].device.type in ("cpu", "cuda"),
    )
    if not uses_muon:
        return adam
    fast = training.precision == "bfloat16" and any(weight.is_cuda for weight in muon_matrices)
    return Muon(muon_matrices, adam, training.weight_decay, torch.bfloat16 if fast else torch.float32)
