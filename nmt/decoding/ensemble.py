"""An ensemble of models with the same target vocabulary: the mean of their probabilities.

Shapes: B sentences, S source and T target positions, EOS counted in both; K hypotheses, V subwords.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.data.subwords.vocabulary import BOS
from nmt.models.translation_model import Memory, State, TranslationModel

_SCORED_AT_ONCE = 16_000  # target tokens: each needs V scores


class Ensemble:
    """A DecoderModel whose P(y) at each step is the mean of the models' probabilities."""

    def __init__(self, models: Sequence[TranslationModel]):
        self.models = models

    def encode(self, source: Tensor) -> list[Memory]:
        return [model.encode(source) for model in self.models]

    def start(self, memory: list[Memory]) -> list[State]:
        return [model.start(encoded) for model, encoded in zip(self.models, memory, strict=True)]

    def step(self, state: list[State], tokens: Tensor) -> tuple[Tensor, list[State]]:
        """[B, K] → the models' outputs side by side, [B, K, sum of D], and the next states."""
        hidden, states = list[Tensor](), list[State]()
        for model, before in zip(self.models, state, strict=True):
            output, after = model.step(before, tokens)
            hidden.append(output)
            states.append(after)
        return torch.cat(hidden, dim=-1), states

    def scores(self, hidden: Tensor) -> Tensor:
        """log of the mean probabilities, [B, K, V]."""
        split = torch.split(hidden, [model.config.width for model in self.models], dim=-1)
        scores = (model.scores(states) for model, states in zip(self.models, split, strict=True))
        return mean_probability([torch.log_softmax(logits, dim=-1) for logits in scores])

    def reorder(self, state: list[State], rows: Tensor) -> list[State]:
        return [model.reorder(before, rows) for model, before in zip(self.models, state, strict=True)]


def mean_probability(log_p: Sequence[Tensor]) -> Tensor:
    """log of the mean of exp(log_p) over tensors of one shape."""
    return log_p[0] if len(log_p) == 1 else torch.stack(list(log_p)).logsumexp(dim=0) - math.log(len(log_p))


@torch.inference_mode()
def token_scores(models: Sequence[TranslationModel], source: Tensor, target: Tensor) -> Tensor:
    """log P of each target token given those before it: source [B, S], target [B, T] → [B, T]."""
    before = _before(target)
    return mean_probability([_log_p(model, model(source, before), target) for model in models])


def _log_p(model: TranslationModel, states: Tensor, target: Tensor) -> Tensor:
    """log P of the target's tokens: decoder states [B, T, D], target [B, T] → [B, T].

    Computed in parts, because the scores of all tokens of a GPU's batch may not fit into memory.
    """
    sentences = max(1, _SCORED_AT_ONCE // target.shape[1])
    parts = zip(torch.split(states, sentences), torch.split(target, sentences), strict=True)
    log_p = [torch.log_softmax(model.scores(x), dim=-1).gather(2, y[:, :, None])[:, :, 0] for x, y in parts]
    return torch.cat(log_p)


@torch.inference_mode()
def alignment(models: Sequence[TranslationModel], source: Tensor, target: Tensor) -> Tensor:
    """The attention of each target token to each source token, the mean over models: [B, T, S]; each row sums to 1."""
    before = _before(target)
    return torch.stack([model.alignment(source, before) for model in models]).mean(dim=0).float()


def _before(target: Tensor) -> Tensor:
    """The decoder's input: BOS, then all tokens but the last."""
    return torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
