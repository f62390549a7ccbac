"""Given outputs: their scores are those that search gave them, alone, in a batch and for several models."""

import dataclasses
import math

import pytest
import torch
from helpers.translators import CPU, LINES, MODEL, VOCABULARY, assert_close, new_model, new_translator

from nmt.config import schema
from nmt.data.subwords.vocabulary import BOS, EOS
from nmt.decoding import ensemble
from nmt.decoding.engine import PyTorchEngine
from nmt.models.transformer.model import Transformer


def other_model() -> Transformer:
    model = new_model()
    torch.manual_seed(9)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


@pytest.mark.parametrize("models", [1, 2])
def test_the_score_of_a_translation_is_its_search_score(models: int) -> None:
    translator = new_translator()
    translator.engine = PyTorchEngine([MODEL, other_model()][:models], CPU)
    for line, [found] in zip(LINES, translator.hypotheses(LINES), strict=True):
        if found.log_probability < -30:
            continue
        pairs = [(VOCABULARY.source.encode([line])[0], VOCABULARY.target.encode([found.text])[0])]
        if VOCABULARY.target.pieces([*pairs[0][1], EOS]) != found.pieces:
            continue  # the same text, cut in another way
        [again] = translator.score([line], [found.text])
        assert again.token_scores == pytest.approx(found.token_scores, abs=1e-4)
        assert again.score == pytest.approx(found.score, abs=1e-4)
        assert again.text == found.text
        assert again.pieces == found.pieces


def test_scores_in_a_batch_equal_those_alone_and_the_models_own() -> None:
    translator = new_translator(batch_tokens=60)
    targets = [*LINES[3:], "", "the barn", "red"]
    together = translator.score(LINES, targets)
    for line, target, found in zip(LINES, targets, together, strict=True):
        [alone] = translator.score([line], [target])
        assert found.token_scores == pytest.approx(alone.token_scores, abs=1e-4)
        source = torch.tensor([[*VOCABULARY.source.encode([line])[0], EOS]])
        ids = [*VOCABULARY.target.encode([target])[0], EOS]
        with torch.no_grad():
            log_p = MODEL.logits(MODEL(source, torch.tensor([[BOS, *ids[:-1]]])))[0].log_softmax(dim=-1)
        own = [float(row[token]) for row, token in zip(log_p, ids, strict=True)]
        assert found.token_scores == pytest.approx(own, abs=1e-4)
        assert found.log_probability == pytest.approx(sum(own), abs=1e-3)


def test_several_models_are_the_mean_of_their_probabilities() -> None:
    models = [MODEL, other_model()]
    source, target = torch.tensor([[7, 8, 9, EOS]]), torch.tensor([[11, 12, EOS]])
    apart = [ensemble.token_scores([model], source, target) for model in models]
    expected = torch.log((apart[0].exp() + apart[1].exp()) / 2)
    torch.testing.assert_close(ensemble.token_scores(models, source, target), expected)
    assert ensemble.mean_probability([torch.tensor([math.log(0.5)])] * 3).item() == pytest.approx(math.log(0.5))


@pytest.mark.parametrize("layers", [1, 3])
def test_alignment_is_the_mean_over_layers_and_heads(layers: int) -> None:
    torch.manual_seed(2)
    sizes = schema.TransformerConfig(d_model=8, feed_forward=16, layers=layers, heads=2, dropout=0.0)
    model = Transformer(sizes, 20, 20, 0).eval()
    source, target = torch.tensor([[7, 8, 9, EOS], [5, EOS, 0, 0]]), torch.tensor([[11, 12, EOS], [6, EOS, 0]])
    weights_found = ensemble.alignment([model], source, target)
    assert weights_found.shape == (2, 3, 4)
    torch.testing.assert_close(weights_found.sum(dim=2), torch.ones(2, 3))
    assert not weights_found[1, :, 2:].any()
    weights = torch.cat(model.attention_weights(source, torch.tensor([[BOS, 11, 12], [BOS, 6, EOS]])).cross, dim=1)
    torch.testing.assert_close(weights.mean(dim=1), weights_found)


def test_what_is_too_long_for_the_model_is_not_scored_but_counted() -> None:
    sizes = dataclasses.replace(MODEL.config, positions="learned", max_positions=8)
    translator = new_translator(new_model(sizes))
    long = "one two three four " * 5
    found = translator.score(["one", long, "two", "one"], ["one", "two", long, "three"])
    assert [one is None for one in found] == [False, True, True, False]
    assert (translator.counts.lines, translator.counts.skipped) == (4, 2)
    for pair, place in ((("one", "one"), 0), (("one", "three"), 3)):
        [alone], beside = translator.score([pair[0]], [pair[1]]), found[place]
        assert alone is not None and beside is not None
        assert_close([beside], [alone])
