"""Tiny recurrent models with every two settings that go together."""

from typing import Any

import torch
from helpers.transformers import PAD, V

from nmt.config.schema import RecurrentConfig
from nmt.models.recurrent.model import RecurrentModel

FACTORS: dict[str, tuple[Any, ...]] = {
    "attention": ("additive", "dot", "general", "concat", "location", "latent", "none"),
    "attention_span": ("global", "local-m", "local-p"),
    "attention_choice": ("soft", "hard"),
    "cell": ("lstm", "gru"),
    "direction": ("both", "backward", "forward"),
    "input_feeding": (True, False),
}

# Of the models with these settings, as few as have each two values together that go together (test_model.py).
VARIANTS: list[dict[str, Any]] = [
    dict(zip(FACTORS, values, strict=True))
    for values in (
        ("additive", "global", "hard", "gru", "backward", False),
        ("additive", "local-m", "hard", "lstm", "forward", True),
        ("additive", "local-p", "soft", "gru", "both", False),
        ("dot", "global", "soft", "lstm", "forward", False),
        ("dot", "local-m", "hard", "gru", "backward", True),
        ("dot", "local-p", "hard", "gru", "both", True),
        ("general", "global", "soft", "gru", "backward", False),
        ("general", "local-m", "soft", "gru", "both", False),
        ("general", "local-p", "hard", "lstm", "forward", True),
        ("concat", "global", "hard", "gru", "both", False),
        ("concat", "local-m", "soft", "lstm", "backward", False),
        ("concat", "local-p", "hard", "gru", "forward", True),
        ("location", "global", "soft", "gru", "forward", True),
        ("location", "local-m", "hard", "gru", "both", True),
        ("location", "local-p", "hard", "lstm", "backward", False),
        ("latent", "global", "soft", "lstm", "forward", True),
        ("latent", "global", "hard", "gru", "both", False),
        ("latent", "global", "hard", "gru", "backward", False),
        ("none", "global", "soft", "lstm", "both", True),
        ("none", "global", "soft", "gru", "backward", False),
        ("none", "global", "soft", "gru", "forward", False),
    )
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
