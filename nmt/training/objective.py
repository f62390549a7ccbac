"""What training minimises: a micro-batch in, its losses out, as one module."""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt.config import schema
from nmt.data.vocabulary import BOS
from nmt.models.transformer.model import Transformer
from nmt.training.loss import smoothed_cross_entropy

log = logging.getLogger("nmt")


class Objective(nn.Module):
    """The model and its loss. One module, so that DDP sees every use of every weight."""

    def __init__(self, model: Transformer, training: schema.TrainingConfig):
        super().__init__()
        self.model = model
        self.smoothing = training.label_smoothing
        mixed = training.precision in ("bfloat16", "float16")
        self.autocast_dtype = getattr(torch, training.precision) if mixed else None

    def forward(self, source: Tensor, target: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Source ids [B, S], target ids [B, T], the places [N] of the target's tokens among its B·T cells →
        the sums over the tokens of the smoothed loss (in training; else the plain one) and of -log p, in nats."""
        with torch.autocast(source.device.type, self.autocast_dtype, enabled=self.autocast_dtype is not None):
            states = self.model(source, F.pad(target[:, :-1], (1, 0), value=BOS))  # [B, T, D]
            return smoothed_cross_entropy(
                states.flatten(0, 1).index_select(0, tokens),
                self.model.output.weight,
                target.flatten()[tokens],
                self.smoothing if self.training else 0.0,
            )


def compile_layers(objective: Objective, where: torch.device, *, sharded: bool = False) -> bool:
    """Have torch.compile make kernels of the model's layers; whether it can here, else says why not.

    Layer by layer and with sizes that vary: all encoder layers share one graph and all decoder layers another,
    whatever the shapes of an epoch's batches. Tried at once, forward and backward, so that a compiler that fails does
    so before the first step; without the trial where layers are `sharded`, for a rank cannot run those alone.
    """
    layers = (*objective.model.encoder, *objective.model.decoder)
    try:
        torch.compile(torch.sin)(torch.ones(2, device=where))
        for layer in layers:
            layer.compile(dynamic=True)
        if not sharded:
            _try(objective, where)
    except Exception as error:  # of many kinds: no C++ compiler, no Triton, a platform that is not supported
        for layer in layers:
            layer._compiled_call_impl = None  # what `compile` has set
        reason = next(filter(None, str(error).split("\n")), type(error).__name__)
        log.warning("training.compile: torch.compile does not work here, going on without it (%s)", reason)
        return False
    # Graphs to come, such as those of validation, run as they are should the compiler fail with them.
    torch._dynamo.config.suppress_errors = True
    return True


def _try(objective: Objective, where: torch.device) -> None:
    """Forward and backward over a batch of two short pairs; weights and gradients stay as they are."""
    source, target = (torch.full((2, length), BOS, device=where) for length in (3, 5))
    objective.train()
    loss, _ = objective(source, target, torch.arange(target.numel(), device=where))
    loss.backward()
    objective.zero_grad(set_to_none=True)
