"""The training objective, which computes the losses of a micro-batch."""

import logging
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import schema
from nmt.data.batches.packing import PackedBatch, pack
from nmt.data.batches.padding import Batch
from nmt.data.subwords.vocabulary import BOS, EOS, PAD
from nmt.device import is_device_fault
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError, first_line
from nmt.models.translation_model import PackedSentences, SampledStates, TranslationModel
from nmt.training.consistency import ConsistencyWeights, consistent_cross_entropy
from nmt.training.loss import smoothed_cross_entropy, with_bias

log = logging.getLogger("nmt")

_ENTROPY_WEIGHT = 0.01  # λ_e of Xu et al. 2015, who give no number


class _Weights(NamedTuple):
    """groups: weights that are copied together: one group for each layer, and one for all others. Without a CUDA graph,
    DDP can send a layer's gradients when its group is complete. Frozen weights have their own group, because all copies
    of a group get a gradient if one does. named: every weight with its name; a tied weight once for each name."""

    groups: list[list[nn.Parameter]]
    named: list[tuple[str, nn.Parameter]]


class PackedStates(Protocol):
    """A replacement of `Objective.packed_states` in training, for the batches that fit."""

    def fits(self, batch: PackedBatch) -> bool: ...

    def __call__(self, batch: PackedBatch) -> Tensor: ...


class Objective(nn.Module):
    """The model and its loss in one module, so that DDP sees every use of every weight.

    With bfloat16 the model computes with bfloat16 copies of its float32 weights. Everything between two layers is
    bfloat16 too, while norms, softmax and sums use float32 inside. The range of float16 is too small for this, so
    autocast chooses the dtype of each operation. Autocast is also used with bfloat16 if weights are `sharded`, or if
    layers are computed a second time in the backward pass, when the copies no longer exist.
    """

    def __init__(self, model: TranslationModel, training: schema.TrainingConfig, *, sharded: bool = False):
        super().__init__()
        self.packed = False  # whether training batches are packed
        self.recorded: PackedStates | None = None  # the passes as CUDA graphs
        self.corpora = 1  # the number of corpora, whose -log p is summed separately
        self.model, self.smoothing = model, training.label_smoothing
        self.passes, self.consistency = training.passes, ConsistencyWeights.from_config(training)
        model.cuts = bool(training.cutoff)
        # `nmt train` replaces "auto" (see `training.precision`). Without it, this is float32, as on a CPU.
        types = {"auto": None, "float32": None, "tf32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
        self.dtype: torch.dtype | None = types[training.precision]
        self.copies_weights = self.dtype == torch.bfloat16 and not (sharded or training.activation_checkpointing)

    def forward(self, batch: Batch | PackedBatch) -> tuple[Tensor, Tensor]:
        """The loss summed over the batch's target tokens, and the sums of -log p for each corpus [C]; in nats. The loss
        is label-smoothed in training only."""
        sampled, counted, passes = None, None, self.passes if self.training else 1
        if isinstance(batch, PackedBatch):
            recorded = self.recorded if self.training else None
            packed = recorded(batch) if recorded and recorded.fits(batch) else self.packed_states(batch)
            packed = packed.view(passes, -1, packed.shape[-1])
            states, labels = packed[:, : batch.target_tokens].flatten(0, 1), batch.labels
            if batch.target_tokens is None:
                assert passes == 1
                counted = labels != PAD
        else:
            padded = self._states(*_read(batch, passes))  # [P·B, T, D]
            if isinstance(padded, SampledStates):
                sampled, padded = padded, padded.states
            states, labels = _at_tokens(padded, batch, passes), _at_tokens(batch.target, batch)
        with self._autocast(labels.device):
            smoothing = self.smoothing if self.training else 0.0
            states, weight = with_bias(states, self.model.output_weight, self.model.output_bias)
            if passes == 1:
                loss, nll = smoothed_cross_entropy(states, weight, labels, smoothing, counted)
            else:
                loss, nll = consistent_cross_entropy(states, weight, labels, smoothing, self.consistency)
        if sampled is not None:
            assert isinstance(batch, Batch)
            with torch.no_grad(), self._autocast(labels.device):
                mean_states = _at_tokens(sampled.mean_states, batch)
                mean_states, weight = with_bias(mean_states, self.model.output_weight, self.model.output_bias)
                _, mean_nll = smoothed_cross_entropy(mean_states, weight, labels, 0.0)
            loss = loss + sampling_loss(sampled, nll - mean_nll, batch)
        return loss, self._by_corpus(nll, batch)

    def packed_states(self, batch: PackedBatch) -> Tensor:
        """The decoder's last states at all target positions of all passes, [P·N, D]."""
        passes = self.passes if self.training else 1
        states = self._states(*(_read_packed(batch, side, passes) for side in (0, 1)))
        assert isinstance(states, Tensor)
        return states

    def _by_corpus(self, nll: Tensor, batch: Batch | PackedBatch) -> Tensor:
        """Sums of nll [N] over the tokens of each corpus, [C]."""
        exact = nll.double() if nll.device.type == "cpu" else nll
        if self.corpora == 1 or batch.corpora is None:
            return F.pad(exact.sum()[None], (0, self.corpora - 1)).to(nll.dtype)
        return exact.new_zeros(self.corpora).index_add(0, batch.corpora, exact).to(nll.dtype)

    def _states(self, *inputs: Tensor | PackedSentences) -> Tensor | SampledStates:
        """The decoder's last states for source and decoder input, [B, T, D] or packed [N, D]; see TranslationModel."""
        if self.copies_weights:
            copies: dict[Tensor, Tensor] = {}
            for weights in self._weights.groups:
                copies |= zip(weights, _Copies.apply(*weights), strict=True)  # type: ignore[no-untyped-call]
            # Not tie_weights=True: PyTorch 2.13 does not restore the weights of a module that has two names.
            named = {name: copies[weight] for name, weight in self._weights.named}
            return torch.func.functional_call(self.model, named, inputs, tie_weights=False)
        with self._autocast(self.model.output_weight.device):
            return self.model(*inputs)

    @cached_property
    def _weights(self) -> "_Weights":
        """Computed once, in the first pass, when the weights no longer move; it takes milliseconds."""
        layers = [list(layer.parameters()) for layer in self.model.layers()]
        in_layers = set[nn.Parameter]().union(*layers)
        others = [weight for weight in self.model.parameters() if weight not in in_layers]
        groups = list[list[nn.Parameter]]()
        for weights in (*layers, others):
            groups.append([weight for weight in weights if weight.requires_grad])
        frozen = [weight for weight in self.model.parameters() if not weight.requires_grad]
        named = list[tuple[str, nn.Parameter]]()
        for path, module in self.model.named_modules():
            for name, weight in module.named_parameters(recurse=False):
                named.append((f"{path}.{name}".lstrip("."), weight))
        return _Weights([weights for weights in (*groups, frozen) if weights], named)

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, self.dtype, enabled=self.dtype is not None)


def _read(batch: Batch, passes: int) -> tuple[Tensor, Tensor]:
    """The inputs of the encoder and the decoder in all passes, one pass after the other: [P·B, S] and [P·B, T]."""
    source = batch.source.repeat(passes, 1) if batch.read_source is None else batch.read_source.flatten(0, 1)
    target = batch.target.repeat(passes, 1) if batch.read_target is None else batch.read_target.flatten(0, 1)
    return source, F.pad(target[:, :-1], (1, 0), value=BOS)


def _read_packed(batch: PackedBatch, side: int, passes: int) -> PackedSentences:
    """The input from one side of a packed batch in all passes. Later passes follow as further sentences."""
    ids, start, end, other_start, other_end = batch.side(side)
    read = batch.read(side)
    shift = len(ids) * torch.arange(passes, device=ids.device, dtype=ids.dtype)[:, None]
    shift = shift * (end > 0)  # empty positions keep 0
    ids = ids.repeat(passes) if read is None else read.flatten()
    start, end, other_start, other_end = ((x + shift).flatten() for x in (start, end, other_start, other_end))
    return PackedSentences(ids, start, end, other_start, other_end, batch.longest)


def _at_tokens(x: Tensor, batch: Batch, passes: int = 1) -> Tensor:
    """x [P·B, T, ...] at the target tokens of a batch, [P·N, ...]."""
    flat, indices = x.flatten(0, 1), batch.target_places
    if passes > 1:
        starts = len(flat) // passes * torch.arange(passes, device=indices.device)
        indices = (indices + starts[:, None]).flatten()
    return flat.index_select(0, indices)


def sampling_loss(sampled: SampledStates, difference: Tensor, batch: Batch) -> Tensor:
    """Zero, with the gradient of the expected loss with respect to the sampling probabilities.

    The score function estimator (Williams 1992; Xu et al. 2015, equation 11): (R_t - b_t) ∇log p_t. R_t is the loss at
    this position; if the sample changes later positions too, their losses are added. The baseline b_t is the same loss
    after a pass with the mean in place of the sample, as in soft attention (Deng et al. 2018). The baseline does not
    depend on the sample, so the gradient is unbiased. The entropy term keeps p from collapsing to one position too
    early.
    difference [N]: -log p of the batch's target tokens, minus -log p after the pass with the mean. Neither is
    label-smoothed.
    """
    tokens = torch.zeros_like(batch.target, dtype=torch.bool).flatten().index_fill(0, batch.target_places, True)
    tokens = tokens.view_as(batch.target)
    reward = torch.zeros(tokens.shape, dtype=difference.dtype, device=difference.device)
    reward = reward.masked_scatter(tokens, difference.detach())
    if sampled.later:
        reward = reward.flip(1).cumsum(1).flip(1)
    total = ((reward * sampled.log_p - _ENTROPY_WEIGHT * sampled.entropy) * tokens).sum()
    return total - total.detach()


class _Copies(torch.autograd.Function):
    """Copies some weights to bfloat16 in one operation, and their gradients to float32 in one. Starting hundreds of
    small copies would take longer than the GPU takes to make them."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return copied_together(weights, torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return copied_together(gradients, torch.float32)


def copied_together(tensors: Sequence[Tensor | None], dtype: torch.dtype | None = None) -> tuple[Any, ...]:
    """Copies of tensors, made in one operation, in `dtype` unless it is None; None among the tensors stays None."""
    originals = [tensor for tensor in tensors if tensor is not None]
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in originals]
    if originals:
        torch._foreach_copy_(copies, originals)
    copied = iter(copies)
    return tuple(None if tensor is None else next(copied) for tensor in tensors)


def packs(objective: Objective, packed: bool | None, ranks: Ranks, *, sharded: bool) -> bool:
    """Whether batches are packed. packed: training.packed; if None, batches are packed on CUDA if this works.

    Each rank tries a small batch, except with `sharded` layers, which one rank cannot run alone. Raises NmtError if
    packing is required (by the setting or a saved run) and does not work. Collective: all ranks get the same answer.
    """
    on_gpu = objective.model.output_weight.device.type == "cuda"
    if packed is False or (packed is None and not (on_gpu and objective.model.can_pack)):
        return False
    reason = "" if objective.model.can_pack else "this model takes padded batches only"
    if not reason and not on_gpu:
        log.info(
            "training.packed: slow without CUDA, and the memory of attention grows with the square of the batch size"
        )
    if not reason and on_gpu and not sharded:
        reason = next(filter(None, ranks.all_gather(_reason_it_fails(objective))), "")
    if reason and packed:
        raise NmtError(
            f"training.packed: packed batches do not work here ({reason}): set it to false (with a new run_dir if the "
            "saved run has packed batches)"
        )
    if reason:
        log.warning("training.packed: packed batches do not work here, continuing with padded batches (%s)", reason)
    return not reason


def _reason_it_fails(objective: Objective) -> str:
    """Try a packed batch. Returns the reason of a failure (no Triton, no C compiler, a GPU that is too old), or an
    empty string. A device fault or a lack of memory is raised again, because padded batches would fail too."""
    rows = [np.full(3, EOS)] * 2
    try:
        run_passes(objective, pack(rows, rows, length=16, longest=3))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        if is_device_fault(error):
            raise
        return first_line(error)
    return ""


def run_passes(objective: Objective, batch: Batch | PackedBatch) -> None:
    """Run a forward and a backward pass over a batch, then delete the gradients. No weight changes."""
    objective.train()
    loss, _ = objective(batch.to(objective.model.output_weight.device))
    loss.backward()
    objective.zero_grad(set_to_none=True)
