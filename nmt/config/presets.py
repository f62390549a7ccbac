"""Presets of settings for a corpus and a machine, for `nmt init --preset`. The configs in the repository's folder
configs/ for the same corpora have the same values."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

PresetName = Literal["demo", "small", "base", "big"]


class Preset(NamedTuple):
    about: str
    settings: Mapping[str, object]  # the settings that differ from the defaults, by dotted path


PRESETS: dict[PresetName, Preset] = {
    "demo": Preset(
        "1.2 million parameters for the demo's corpus; about 5 minutes on two CPU cores",
        {
            "vocabulary.size": 1500,
            "model.d_model": 128,
            "model.feed_forward": 256,
            "model.layers": 3,
            "model.heads": 4,
            "training.batch_tokens": 2048,
            "training.max_steps": 1600,
            "training.schedule": "inverse_sqrt",
            "training.learning_rate": 0.004,
            "training.warmup_steps": 300,
            "training.validate_every": 400,
            "training.validation_sentences": 200,
            "training.checkpoint_every": 100,
            "training.keep_last": 5,
            "training.keep_best": 1,
            "training.log_every": 50,
        },
    ),
    "small": Preset(
        "2.3 million parameters for about 50,000 pairs; one or two hours on two CPU cores",
        {
            "vocabulary.size": 8000,
            "model.d_model": 128,
            "model.feed_forward": 256,
            "model.layers": 4,
            "model.heads": 4,
            "model.positions": "rotary",
            "model.dropout": 0.3,
            "training.batch_tokens": 4096,
            "training.max_steps": 4800,
            "training.optimizer": "muon",
            "training.schedule": "cosine",
            "training.learning_rate": 0.005,
            "training.warmup_steps": 1000,
            "training.validate_every": 400,
            "training.checkpoint_every": 400,
            "training.keep_last": 6,
        },
    ),
    "base": Preset("the paper's base model, 65 million parameters, for a GPU and millions of pairs", {}),
    "big": Preset(
        "the paper's big model, 213 million parameters, for several GPUs and millions of pairs",
        {
            "vocabulary.size": 37000,
            "model.d_model": 1024,
            "model.feed_forward": 4096,
            "model.heads": 16,
            "model.dropout": 0.3,
            "training.micro_batch_tokens": "auto",
            "training.max_steps": 300000,
            "training.checkpoint_every": 600,
            "training.validate_every": 6000,
            "training.keep_last": 20,
            "training.keep_best": 1,
        },
    ),
}
