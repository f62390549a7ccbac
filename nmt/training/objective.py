"""What training minimises: a micro-batch in, its losses out, as one module."""

import logging

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from nmt import config
from nmt.data.vocabulary import BOS
from nmt.model.transformer import Transformer
from nmt.training.loss import smoothed_cross_entropy

log = logging.getLogger("nmt")


class Objective(nn.Module):
    """The model and its loss. One module, so that DDP sees every use of every weight."""

    def __init__(self, model: Transformer, training: config.Training):
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


def compile_layers(model: Transformer, where: torch.device) -> bool:
    """Have torch.compile make kernels of the model's layers; whether it can here, else says why not.

    Layer by layer and with sizes that vary: all encoder layers share one graph and all decoder layers another,
    whatever the shapes of an epoch's batches.
    """
    try:
        torch.compile(torch.sin)(torch.ones(2, device=where))
    except Exception as error:  # of many kinds: no C++ compiler, no Triton, a platform that is not supported
        reason = str(error).strip().partition("\n")[0]
        log.warning("training.compile: torch.compile does not work here, going on without it (%s)", reason)
        return False
    for layer in (*model.encoder, *model.decoder):
        layer.compile(dynamic=True)
    return True
