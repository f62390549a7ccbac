"""Small model files for the tests to write, read and average."""

import functools
from typing import Any

import torch
from helpers.runs import WORDS

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config import schema
from nmt.config.schema import Config
from nmt.data.subwords import vocabulary
from nmt.data.subwords.vocabulary import Tokenizer, Vocabulary


@functools.cache
def tokenizer(size: int = 300) -> Tokenizer:
    """A vocabulary of `size` subwords, most of them bytes."""
    return vocabulary.learn([" ".join([*WORDS, *WORDS.values()])] * 20, schema.VocabularyConfig(size=size))


def shared_vocabulary() -> Vocabulary:
    return Vocabulary(tokenizer(), tokenizer())


def make_checkpoint(settings: Config, seed: int = 0, of: Vocabulary | None = None, **provenance: Any) -> Checkpoint:
    """An untrained model with normally distributed weights."""
    torch.manual_seed(seed)
    of = of or shared_vocabulary()
    model = model_file.new_model(settings.model, of)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return Checkpoint(settings, of, model_file.weights_of(model), provenance)
