"""The training objective: a micro-batch in, its losses out."""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import schema
from nmt.data.vocabulary import BOS
from nmt.models.interface import TranslationModel
from nmt.training.loss import smoothed_cross_entropy

log = logging.getLogger("nmt")


class Objective(nn.Module):
    """The model and its loss in one module, so that DDP sees every use of every weight."""

    def __init__(self, model: TranslationModel, training: schema.TrainingConfig):
        super().__init__()
        self.model = model
        self.smoothing = training.label_smoothing
        mixed = training.precision in ("bfloat16", "float16")
        self.autocast_dtype = getattr(torch, training.precision) if mixed else None

    def forward(self, source: Tensor, target: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Source ids [B, S], target ids [B, T], indices [N] of the target's tokens (not padding) in the B·T flattened →
        sums over the tokens, in nats: of the loss, label-smoothed in training only, and of -log p."""
        with torch.autocast(source.device.type, self.autocast_dtype, enabled=self.autocast_dtype is not None):
            states = self.model(source, F.pad(target[:, :-1], (1, 0), value=BOS))  # [B, T, D]
            return smoothed_cross_entropy(
                states.flatten(0, 1).index_select(0, tokens),
                self.model.output_weight,
                target.flatten()[tokens],
                self.smoothing if self.training else 0.0,
            )


def compile_layers(objective: Objective, where: torch.device, *, sharded: bool) -> None:
    """Compile the model's layers with torch.compile. If that does not work here, they stay as they are; logs why.

    Layers are compiled one by one with dynamic shapes: layers of one class share a graph, for batches of all shapes. A
    forward and a backward pass are run at once, so that a compiler that fails does so before the first step; not with
    `sharded` layers, which one rank cannot run alone.
    """
    layers = objective.model.layers()
    try:
        torch.compile(torch.sin)(torch.ones(2, device=where))
        for layer in layers:
            layer.compile(dynamic=True)
        if not sharded:
            run_passes(objective, 2, 3, 5)
    except Exception as error:  # of many types: no C++ compiler, no Triton, a platform that is not supported
        for layer in layers:
            layer._compiled_call_impl = None  # set by `compile`
        reason = next(filter(None, str(error).split("\n")), type(error).__name__)
        log.warning("training.compile: torch.compile does not work here, going on without it (%s)", reason)
    else:  # if the compiler fails for a later graph, such as one of validation, that graph runs uncompiled
        torch._dynamo.config.suppress_errors = True


def run_passes(objective: Objective, pairs: int, *lengths: int) -> None:
    """Forward and backward over pairs of these source and target lengths; no weight changes, no gradient is left."""
    where = next(objective.parameters()).device
    source, target = (torch.full((pairs, length), BOS, device=where) for length in lengths)
    objective.train()
    loss, _ = objective(source, target, torch.arange(target.numel(), device=where))
    loss.backward()
    objective.zero_grad(set_to_none=True)
