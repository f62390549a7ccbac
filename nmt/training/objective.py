"""The training objective: a micro-batch in, its losses out."""

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
from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.device import is_device_fault
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError, first_line
from nmt.models.translation_model import PackedSentences, SampledStates, TranslationModel
from nmt.training.consistency import ConsistencyWeights, consistent_cross_entropy
from nmt.training.loss import smoothed_cross_entropy, with_bias

log = logging.getLogger("nmt")

_ENTROPY_WEIGHT = 0.01  # of Xu et al. 2015, λ_e: they give no number


class _Weights(NamedTuple):
    """together: the weights that are copied at once: those of each layer, and all others. When a layer's gradients are
    there, DDP can send them. Frozen ones are apart: copies made together all get a gradient if one does. named: every
    name of every weight; a tied one has several."""

    together: list[list[nn.Parameter]]
    named: list[tuple[str, nn.Parameter]]


class PackedStates(Protocol):
    """What may stand in for `Objective.packed_states`, in training and for the batches that fit."""

    def fits(self, batch: PackedBatch) -> bool: ...

    def __call__(self, batch: PackedBatch) -> Tensor: ...


class Objective(nn.Module):
    """The model and its loss in one module, so that DDP sees every use of every weight.

    With bfloat16 the model computes with bfloat16 copies of its float32 weights: everything between two layers is
    bfloat16 too, while norms, softmax and sums use float32 inside. float16 has too small a range for that: there
    autocast chooses the type of each operation. So it does with bfloat16 if weights are `sharded`, or if layers are
    computed a second time in the backward pass, when the copies are gone.
    """

    def __init__(self, model: TranslationModel, training: schema.TrainingConfig, *, sharded: bool = False):
        super().__init__()
        self.packed = False  # whether batches in training are
        self.recorded: PackedStates | None = None  # the passes as CUDA graphs
        self.corpora = 1  # whose -log p is summed separately
        self.model, self.smoothing = model, training.label_smoothing
        self.passes, self.consistency = training.passes, ConsistencyWeights.of(training)
        model.cuts = bool(training.cutoff)
        types = {"float32": None, "tf32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
        self.dtype: torch.dtype | None = types[training.precision]
        self.copies_weights = self.dtype == torch.bfloat16 and not (sharded or training.activation_checkpointing)

    def forward(self, batch: Batch | PackedBatch) -> tuple[Tensor, Tensor]:
        """Sums over the batch's target tokens, in nats: of the loss, label-smoothed in training only, and of -log p,
        those of each corpus, [C]."""
        sampled, passes = None, self.passes if self.training else 1
        if isinstance(batch, PackedBatch):
            recorded = self.recorded if self.training else None
            read = recorded(batch) if recorded and recorded.fits(batch) else self.packed_states(batch)
            of_passes = read.view(passes, -1, read.shape[-1])
            states, labels = of_passes[:, : batch.target_tokens].flatten(0, 1), batch.labels
        else:
            found = self._states(*_read(batch, passes))  # [P·B, T, D]
            if isinstance(found, SampledStates):
                sampled, found = found, found.states
            states, labels = _at_tokens(found, batch, passes), _at_tokens(batch.target, batch)
        with self._autocast(labels.device):
            smoothing = self.smoothing if self.training else 0.0
            states, weight = with_bias(states, self.model.output_weight, self.model.output_bias)
            if passes == 1:
                loss, nll = smoothed_cross_entropy(states, weight, labels, smoothing)
            else:
                loss, nll = consistent_cross_entropy(states, weight, labels, smoothing, self.consistency)
        if sampled is not None:
            assert isinstance(batch, Batch)
            with torch.no_grad(), self._autocast(labels.device):
                of_mean = _at_tokens(sampled.mean_states, batch)
                of_mean, weight = with_bias(of_mean, self.model.output_weight, self.model.output_bias)
                _, mean_nll = smoothed_cross_entropy(of_mean, weight, labels, 0.0)
            loss = loss + sampling_loss(sampled, nll - mean_nll, batch)
        return loss, self._by_corpus(nll, batch)

    def packed_states(self, batch: PackedBatch) -> Tensor:
        """The decoder's last states at all places of the target in all passes, [P·N, D]."""
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
            for weights in self._weights.together:
                copies |= zip(weights, _Copies.apply(*weights), strict=True)  # type: ignore[no-untyped-call]
            # Not tie_weights: PyTorch 2.13 does not restore the weights of a module that has two names.
            named = {name: copies[weight] for name, weight in self._weights.named}
            return torch.func.functional_call(self.model, named, inputs, tie_weights=False)
        with self._autocast(self.model.output_weight.device):
            return self.model(*inputs)

    @cached_property
    def _weights(self) -> "_Weights":
        """Found in the first pass, when weights are where they stay: it takes milliseconds, too long for each one."""
        layers = [list(layer.parameters()) for layer in self.model.layers()]
        in_layers = {weight for weights in layers for weight in weights}
        together = [*layers, [weight for weight in self.model.parameters() if weight not in in_layers]]
        trained = [[weight for weight in weights if weight.requires_grad] for weights in together]
        frozen = [weight for weight in self.model.parameters() if not weight.requires_grad]
        named = [
            (f"{path}.{name}".lstrip("."), weight)
            for path, module in self.model.named_modules()
            for name, weight in module.named_parameters(recurse=False)
        ]
        return _Weights([weights for weights in (*trained, frozen) if weights], named)

    def _autocast(self, device: torch.device) -> torch.autocast:
        return torch.autocast(device.type, self.dtype, enabled=self.dtype is not None)


def _read(batch: Batch, passes: int) -> tuple[Tensor, Tensor]:
    """What the encoder and the decoder read in all passes, one pass after the other: [P·B, S] and [P·B, T]."""
    source, target = (
        each.repeat(passes, 1) if read is None else read.flatten(0, 1)
        for each, read in ((batch.source, batch.read_source), (batch.target, batch.read_target))
    )
    return source, F.pad(target[:, :-1], (1, 0), value=BOS)


def _read_packed(batch: PackedBatch, side: int, passes: int) -> PackedSentences:
    """The same of one side of a packed batch: the passes are more sentences, after those of the first."""
    ids, start, end, other_start, other_end = batch.side(side)
    read = batch.read(side)
    shift = len(ids) * torch.arange(passes, device=ids.device, dtype=ids.dtype)[:, None]
    shift = shift * (end > 0)  # empty places keep 0
    ids = ids.repeat(passes) if read is None else read.flatten()
    start, end, other_start, other_end = ((x + shift).flatten() for x in (start, end, other_start, other_end))
    return PackedSentences(ids, start, end, other_start, other_end, batch.longest)


def _at_tokens(x: Tensor, batch: Batch, passes: int = 1) -> Tensor:
    """x [P·B, T, ...] at the target tokens of a batch, [P·N, ...]."""
    flat, places = x.flatten(0, 1), batch.target_places
    if passes > 1:
        starts = len(flat) // passes * torch.arange(passes, device=places.device)
        places = (places + starts[:, None]).flatten()
    return flat.index_select(0, places)


def sampling_loss(sampled: SampledStates, difference: Tensor, batch: Batch) -> Tensor:
    """A number that is 0, whose gradient is that of the expected loss with respect to the probabilities of drawing.

    The score function's gradient (Williams 1992; Xu et al. 2015, equation 11): (R_t - b_t) ∇log p_t, where R_t is the
    loss of this position and, if the drawing changes them too, of all later ones. The baseline b_t is the same loss
    after a pass with the mean in place of what is drawn: that of soft attention (Deng et al. 2018). As it does not
    depend on what was drawn, the gradient is unbiased. The entropy keeps p from ending at one position too early.
    difference [N]: -log p of the batch's target tokens, minus that after the pass with the mean; with label
    smoothing, drawing still learns from the loss without it.
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
    """bfloat16 copies of some weights at once, and their gradients in float32 at once: hundreds of small copies would
    take a program longer to start than a GPU to make."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        return copied_together(weights, torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return copied_together(gradients, torch.float32)


def copied_together(tensors: Sequence[Tensor | None], dtype: torch.dtype | None = None) -> tuple[Any, ...]:
    """Copies of tensors, all made at once, in another type if one is given; None stays None."""
    there = [tensor for tensor in tensors if tensor is not None]
    copies = [torch.empty_like(tensor, dtype=dtype) for tensor in there]
    if there:
        torch._foreach_copy_(copies, there)
    copied = iter(copies)
    return tuple(None if tensor is None else next(copied) for tensor in tensors)


def packs(objective: Objective, wanted: bool | None, ranks: Ranks, *, sharded: bool) -> bool:
    """Whether batches are packed: training.packed (`wanted`), or if that is None, on CUDA where it works.

    A small batch is tried on each rank, but not with `sharded` layers, which one rank cannot run alone. Raises NmtError
    if batches must be packed and cannot be. Collective: all ranks get the same answer.
    """
    on_gpu = objective.model.output_weight.device.type == "cuda"
    if wanted is False or (wanted is None and not (on_gpu and objective.model.can_pack)):
        return False
    reason = "" if objective.model.can_pack else "this model takes padded batches only"
    if not reason and not on_gpu:
        log.info("training.packed: true: slow without CUDA, and attention needs memory with the square of a batch")
    if not reason and on_gpu and not sharded:
        reason = next(filter(None, ranks.all_gather(_reason_it_fails(objective))), "")
    if reason and wanted:
        raise NmtError(f"training.packed: true: packed batches do not work here ({reason}): set it to null")
    if reason:
        log.warning("training.packed: packed batches do not work here, going on with padded ones (%s)", reason)
    return not reason


def _reason_it_fails(objective: Objective) -> str:
    """Try a packed batch. Why it does not work (no Triton, no C compiler, a GPU that is too old), or an empty text.
    Raises what a fault of the device raises: padded batches would fail there too."""
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
    """Forward and backward over a batch; no weight changes, no gradient is left."""
    objective.train()
    loss, _ = objective(batch.to(objective.model.output_weight.device))
    loss.backward()
    objective.zero_grad(set_to_none=True)
