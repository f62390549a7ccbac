"""Tiny recurrent models in every variant."""

import itertools
from typing import Any

import torch
from helpers.transformers import PAD, V

from nmt.config.schema import RecurrentConfig
from nmt.models.recurrent.model import RecurrentModel

COMPARED = ("additive", "dot", "general", "concat", "location")

# Every attention, span and choice that go together.
ATTENTION: list[dict[str, Any]] = [
    {"attention": attention, "attention_span": span, "attention_choice": choice}
    for attention, span in [*itertools.product(COMPARED, ("global", "local-m", "local-p")), ("latent", "global")]
    for choice in ("soft", "hard")
] + [{"attention": "none"}]

READERS: list[dict[str, Any]] = [
    {"cell": cell, "direction": direction}
    for cell, direction in itertools.product(("lstm", "gru"), ("both", "backward", "forward"))
]


def name_of(changes: dict[str, Any]) -> str:
    return " ".join(str(value) for value in changes.values())


def make(**changes: Any) -> RecurrentModel:
    """A tiny model in float64 whose every weight matters, without dropout."""
    sizes = {"embedding_size": 4, "hidden_size": 6, "attention_window": 2, "max_positions": 12, "dropout": 0.0}
    torch.manual_seed(0)
    config = RecurrentConfig(**(sizes | changes))
    model = RecurrentModel(config, V if config.tie == "all" else V + 4, V, PAD).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.5)
    return model.eval()
