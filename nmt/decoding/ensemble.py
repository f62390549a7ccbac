"""Ensembles: the mean of several models' probabilities."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.models.interface import Memory, State, TranslationModel


class Ensemble:
    """Models with one target vocabulary, searched as one: at each step P(y) is the mean of theirs."""

    def __init__(self, models: Sequence[TranslationModel]):
        self.models = models

    def encode(self, source: Tensor) -> list[Memory]:
        return [model.encode(source) for model in self.models]

    def start(self, memory: list[Memory]) -> list[State]:
        return [model.start(one) for model, one in zip(self.models, memory, strict=True)]

    def step(self, state: list[State], tokens: Tensor) -> tuple[Tensor, list[State]]:
        """[B, K] → the models' outputs side by side, [B, K, sum of D], and the next states."""
        hidden, states = zip(
            *(model.step(one, tokens) for model, one in zip(self.models, state, strict=True)), strict=True
        )
        return torch.cat(hidden, dim=-1), list(states)

    def scores(self, hidden: Tensor) -> Tensor:
        """log of the mean probabilities, [B, K, V]."""
        each = torch.split(hidden, [model.config.d_model for model in self.models], dim=-1)
        scores = (model.scores(one) for model, one in zip(self.models, each, strict=True))
        return mean_probability([torch.log_softmax(one, dim=-1) for one in scores])

    def reorder(self, state: list[State], rows: Tensor) -> list[State]:
        return [model.reorder(one, rows) for model, one in zip(self.models, state, strict=True)]


def mean_probability(log_p: Sequence[Tensor]) -> Tensor:
    """log of the mean of exp(log_p) over tensors of one shape."""
    return log_p[0] if len(log_p) == 1 else torch.stack(list(log_p)).logsumexp(dim=0) - math.log(len(log_p))
