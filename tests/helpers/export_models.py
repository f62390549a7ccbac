"""Small models whose outputs end, to export and to compare."""

import functools
import random
import tempfile
from pathlib import Path

import numpy as np
import torch
from helpers.model_files import tokenizer
from helpers.runs import config_text
from torch import nn

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config import reader
from nmt.config.schema import Config
from nmt.data.subwords.shortlist import Shortlist
from nmt.data.subwords.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translator
from nmt.interop.exporter import Exporter, ExportOptions

LINES = [
    "one two three",
    "four",
    "",
    "ten nine nine one six two",
    "zebra & co.",
    "seven eight seven",
    "two",
    "five one",
]

SEPARATE = ("vocabulary.shared=false", "model.tie=target")
MARIAN = (
    "model.activation=quick_gelu", "model.output_bias=true", "model.norm_epsilon=0.01", "model.decoder_start=zero",
)  # fmt: skip
VARIANTS = [
    (),
    ("model.activation=gelu", "model.encoder_layers=3", "model.decoder_layers=1", "decoding.length_penalty=0"),
    ("model.activation=swish", "model.tie=target", "model.encoder_layers=1", "model.key_size=8", "model.value_size=8"),
    (*SEPARATE, "model.key_size=5", "model.value_size=16", "decoding.length_penalty=2", "decoding.beam_size=4"),
    ("vocabulary.shared=false", "model.tie=none", "model.bias=false", "model.key_size=13", "model.value_size=5"),
]  # both formats hold them


def make_settings(*overrides: str) -> Config:
    nowhere = Path(tempfile.gettempdir()) / "nowhere"
    few = ("decoding.max_extra_tokens=12", "decoding.max_source_tokens=40", "decoding.beam_size=3")
    return reader.parse(Config, config_text(nowhere, nowhere), "test config", [*few, *overrides])


def written(exporter: Exporter, folder: Path, made: Checkpoint, quantization: str | None = None) -> Path:
    """A folder that an exporter has written."""
    folder.mkdir(exist_ok=True)
    exporter.write(folder, made, ExportOptions(quantization or exporter.quantizations[0], LINES))
    return folder


def make_vocabulary(of: Config) -> Vocabulary:
    if of.vocabulary.shared:
        return Vocabulary(tokenizer(), tokenizer())
    return Vocabulary(tokenizer(301), tokenizer(297))  # odd, and not the same


def engine_of(made: Checkpoint) -> PyTorchEngine:
    return PyTorchEngine([made.build()], torch.device("cpu"))


@functools.cache
def make_model(*overrides: str) -> Checkpoint:
    """Random weights with which some outputs end by themselves, and not at once: most random ones babble on."""
    for seed in range(100):
        given = make_settings(*overrides)
        made = random_model(seed, given, make_vocabulary(given))
        found = Translator(engine_of(made), made.vocabulary, made.config.decoding).hypotheses(LINES)
        sources = made.vocabulary.source.encode(LINES)
        own = [2 < len(best.pieces) <= len(ids) + 9 for [best], ids in zip(found, sources, strict=True)]
        if sum(own) >= 2:
            return made
    raise AssertionError("no seed gives a model whose outputs end")


@torch.no_grad()
def random_model(seed: int, given: Config, vocabulary: Vocabulary) -> Checkpoint:
    """Random weights, large enough that outputs vary; EOS stands out now and then, and what never comes never does.

    For the latter the last norm's bias points somewhere, and the output layer's rows the other way.
    """
    torch.manual_seed(seed)
    model = model_file.new_model(given.model, vocabulary)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            parameter *= 2
        else:
            parameter += 0.1 * torch.randn(parameter.shape)  # no bias is zero, no norm's gain one
    last = model.decoder_norm if given.model.norm == "pre" else model.decoder[-1].feed_forward_residual.norm  # type: ignore[union-attr]
    assert isinstance(last, nn.LayerNorm)
    last.bias.normal_(std=0.8)
    model.output.weight[EOS] *= 3
    model.output.weight[[PAD, UNK, BOS]] = -15 * last.bias / last.bias.square().sum()
    return Checkpoint(given, vocabulary, model_file.weights_of(model), {})


def random_shortlist(vocabulary: Vocabulary, width: int) -> Shortlist:
    """A shortlist with `width` random target subwords of each source subword; EOS has five and the special ones."""
    chance, size = random.Random(4), len(vocabulary.target)
    rows = [sorted(chance.sample(range(size), width)) for _ in range(len(vocabulary.source))]
    rows[EOS] = [PAD, UNK, BOS, EOS, *sorted(chance.sample(range(EOS + 1, size), 5))]
    offsets = np.cumsum([0, *map(len, rows)], dtype=np.int32)
    return Shortlist(offsets, np.array([target for row in rows for target in row], np.int32))
