"""Outputs that are given: how probable a model finds them, and what of the source it looks at for each token.

Shapes: B sentences, S source and T target positions, EOS counted in both.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.ensemble import mean_probability
from nmt.models.transformer.model import Transformer


@torch.inference_mode()
def token_scores(models: Sequence[Transformer], source: Tensor, target: Tensor, bos: int) -> Tensor:
    """log P of each target token given those before it: source [B, S], target [B, T] → [B, T].

    Of several models, of the mean of their probabilities.
    """
    before = _before(target, bos)
    log_p = [
        torch.log_softmax(model.logits(model(source, before)).float(), dim=-1).gather(2, target[:, :, None])[:, :, 0]
        for model in models
    ]
    return mean_probability(log_p)


@torch.inference_mode()
def alignment(models: Sequence[Transformer], source: Tensor, target: Tensor, bos: int) -> Tensor:
    """How much each target token looks at each source token: [B, T, S], 1 in sum over S.

    The mean over heads (and models) of the cross-attention in the last decoder layer but one, which follows word
    alignments better than the last does (Garg et al. 2019, section 4.1); in the only one, of one.
    """
    before = _before(target, bos)
    weights = [model.cross_attention(source, before, max(0, len(model.decoder) - 2)).mean(dim=1) for model in models]
    return torch.stack(weights).mean(dim=0).float()


@torch.inference_mode()
def states(model: Transformer, source: Tensor) -> Tensor:
    """The encoder's output in float32, [B, S, D]."""
    return model.encode(source).states.float()


def _before(target: Tensor, bos: int) -> Tensor:
    """What the decoder is given: BOS, then all tokens but the last."""
    return torch.cat([target.new_full((len(target), 1), bos), target[:, :-1]], dim=1)
