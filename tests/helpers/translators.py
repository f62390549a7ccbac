"""Translators with small random models."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from nmt.config import schema
from nmt.data.subwords import vocabulary as vocabularies
from nmt.data.subwords.vocabulary import PAD, Vocabulary
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.translator import Translation, Translator
from nmt.models.transformer.model import Transformer

CPU = torch.device("cpu")


WORDS = ["one", "two", "three", "four", "five", "six", "apples", "pears", "in", "the", "old", "red", "barn"]


SIZES = schema.TransformerConfig(d_model=16, feed_forward=32, layers=2, heads=2, dropout=0.3, max_positions=40)


DECODING = schema.DecodingConfig(beam_size=3, max_extra_tokens=6)


SETTINGS = replace(
    schema.parse(
        "run_dir: r\ndata: {source_language: en, target_language: de, train: [{source: a, target: b}]}\n", "test"
    ),
    model=SIZES,
    decoding=DECODING,
)


def learn() -> Vocabulary:
    sentences = [" ".join(pair) for pair in itertools.permutations(WORDS, 2)]
    tokenizer = vocabularies.learn(sentences, schema.VocabularyConfig(size=320))
    return Vocabulary(tokenizer, tokenizer)


VOCABULARY = learn()


LINES = [" ".join(WORDS[i : i + 1 + 7 * i % 11]) for i in range(13)]


def new_model(sizes: schema.TransformerConfig = SIZES, kind: type[Transformer] = Transformer) -> Transformer:
    """Random weights, larger than those that training starts from, so that the outputs vary."""
    torch.manual_seed(4)
    model = kind(sizes, len(VOCABULARY.source), len(VOCABULARY.target), PAD)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter *= 2
    return model.eval()


MODEL = new_model()


def new_translator(model: Transformer = MODEL, **decoding: object) -> Translator:
    return Translator(PyTorchEngine([model], CPU), VOCABULARY, replace(DECODING, **decoding))  # type: ignore[arg-type]


def assert_close(found: Sequence[Translation], expected: Sequence[Translation]) -> None:
    """Equal but for rounding, which depends on the shapes of the batch."""
    assert [translation.text for translation in found] == [translation.text for translation in expected]
    for mine, other in zip(found, expected, strict=True):
        assert mine.pieces == other.pieces
        assert mine.token_scores == pytest.approx(other.token_scores, abs=1e-4)
        assert mine.score == pytest.approx(other.score, abs=1e-4)
