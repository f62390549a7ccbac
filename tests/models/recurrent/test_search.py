"""Search with recurrent models: against all possible outputs, and in ensembles with a Transformer."""

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.recurrent_models import make, name_of
from helpers.tables import assert_same, changed, penalty
from torch import Tensor

from nmt.config.schema import DecodingConfig, RecurrentConfig, TransformerConfig
from nmt.data.subwords.vocabulary import BOS, EOS, PAD
from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.ensemble import Ensemble
from nmt.decoding.search.decoder_model import Hypothesis, SearchOptions
from nmt.decoding.search.search import search
from nmt.models.build import build
from nmt.models.translation_model import TranslationModel

CPU = torch.device("cpu")
V = 7  # three words besides the special tokens
OPTIONS = SearchOptions(DecodingConfig(length_penalty=0.6))
VARIANTS: list[dict[str, Any]] = [
    {"attention": "additive"},
    {"attention": "general", "attention_span": "local-m", "cell": "gru", "direction": "forward"},
    {"attention": "concat", "attention_span": "local-p", "attention_choice": "hard", "input_feeding": False},
    {"attention": "latent", "direction": "backward"},
    {"attention": "none", "cell": "gru"},
]


def model_of(config: RecurrentConfig | TransformerConfig) -> TranslationModel:
    """One whose outputs differ in probability."""
    torch.manual_seed(2)
    model = build(config, V, V, PAD).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.6)
    return model.eval()


def recurrent(changes: dict[str, Any]) -> TranslationModel:
    return model_of(replace(make().config, **changes))


TRANSFORMER = TransformerConfig(d_model=8, feed_forward=16, layers=1, heads=2, dropout=0.0)


def probabilities(model: TranslationModel, source: Tensor, prefix: list[int]) -> Tensor:
    """Of the next token after a prefix, without steps."""
    states = model(source, torch.tensor([[BOS, *prefix]]))
    return model.logits(states)[0, -1].softmax(dim=-1)


@torch.no_grad()
def all_outputs(models: list[TranslationModel], source: Tensor, longest: int) -> list[Hypothesis]:
    """Every output with its score by the mean of the models' probabilities, best first."""
    found = []
    for length in range(longest + 1):
        for tokens in itertools.product(range(EOS + 1, V), repeat=length):
            log_p = []
            for place, token in enumerate([*tokens, EOS]):
                each = [probabilities(model, source, list(tokens[:place])) for model in models]
                log_p.append(float(torch.stack(each).mean(dim=0)[token].log()))
            score = sum(log_p) / penalty(length + 1, OPTIONS.decoding.length_penalty)
            found.append(Hypothesis(list(tokens), score, sum(log_p), log_p))
    return sorted(found, key=lambda hypothesis: -hypothesis.score)


def assert_exhaustive(models: list[TranslationModel], longest: int) -> None:
    """Of two sentences in one batch, with limits of their own."""
    sources = [[4, 6, 5, 4, EOS], [5, EOS]]
    batch = torch.tensor([[4, 6, 5, 4, EOS], [5, EOS, PAD, PAD, PAD]])
    limits = [longest, longest - 1]
    expected = [all_outputs(models, torch.tensor([s]), n) for s, n in zip(sources, limits, strict=True)]
    size = len(expected[0])
    searched = models[0] if len(models) == 1 else Ensemble(models)
    with torch.inference_mode():
        found = search(searched, batch, torch.tensor(limits), changed(OPTIONS, beam_size=size, n_best=size))
    for mine, ranked in zip(found, expected, strict=True):
        assert_same(mine, ranked, rounding=1e-5)


@pytest.mark.parametrize("changes", VARIANTS[1:3], ids=name_of)
def test_a_wide_enough_beam_is_exhaustive(changes: dict[str, Any]) -> None:
    assert_exhaustive([recurrent(changes)], 3)


@pytest.mark.parametrize("changes", VARIANTS[1:3], ids=name_of)
def test_an_ensemble_with_a_transformer_scores_what_it_finds(changes: dict[str, Any]) -> None:
    engine = PyTorchEngine([recurrent(changes).float(), model_of(TRANSFORMER).float()], CPU)
    sources = [[4, 5, 6, 6], [6], [5, 4]]
    options = changed(OPTIONS, beam_size=3, n_best=3)
    found = engine.search([SearchInput(source, 6) for source in sources], options, 1000)
    for source, hypotheses in zip(sources, found, strict=True):
        for one, scores in zip(
            hypotheses, engine.score([(source, one.tokens) for one in hypotheses], 1000), strict=True
        ):
            assert one.token_scores == pytest.approx(scores, abs=1e-5)
    for weights in itertools.chain(*engine.align([(source, [4, 5]) for source in sources], 1000)):
        assert sum(weights) == pytest.approx(1, abs=1e-5)
