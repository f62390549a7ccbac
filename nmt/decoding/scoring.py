"""Scores and alignments of outputs that are given, not searched for.

Shapes: B sentences, S source and T target positions, EOS counted in both.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.ensemble import mean_probability
from nmt.models.interface import TranslationModel


@torch.inference_mode()
def token_scores(models: Sequence[TranslationModel], source: Tensor, target: Tensor, bos: int) -> Tensor:
    """log P of each target token given those before it: source [B, S], target [B, T] → [B, T].

    With several models: of the mean of their probabilities.
    """
    before = _before(target, bos)
    log_p = [
        torch.log_softmax(model.logits(model(source, before)).float(), dim=-1).gather(2, target[:, :, None])[:, :, 0]
        for model in models
    ]
    return mean_probability(log_p)


@torch.inference_mode()
def alignment(models: Sequence[TranslationModel], source: Tensor, target: Tensor, bos: int) -> Tensor:
    """How much each target token attends to each source token, the mean over models: [B, T, S], each row sums to 1."""
    before = _before(target, bos)
    return torch.stack([model.alignment(source, before) for model in models]).mean(dim=0).float()


@torch.inference_mode()
def states(model: TranslationModel, source: Tensor) -> Tensor:
    """The encoder's output in float32, [B, S, D]."""
    return model.encode(source).states.float()


def _before(target: Tensor, bos: int) -> Tensor:
    """The decoder's input: BOS, then all tokens but the last."""
    return torch.cat([target.new_full((len(target), 1), bos), target[:, :-1]], dim=1)
