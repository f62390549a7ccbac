"""Hard attention: the gradient is right on average over all that may be drawn, which is few enough to be listed.

On two target positions and three source positions there are nine choices.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.recurrent_models import make, name_of
from helpers.transformers import BOS, sentences
from torch import Tensor

from nmt.config.schema import TrainingConfig
from nmt.data.batches.padding import Batch
from nmt.models.translation_model import SampledStates
from nmt.training import objective as module
from nmt.training.objective import Objective

S, T = 3, 2
Draw = Callable[[Sequence[Sequence[int]]], None]
VARIANTS: list[dict[str, Any]] = [
    {"attention": "additive", "attention_span": "global", "input_feeding": True},
    {"attention": "general", "attention_span": "local-p", "input_feeding": False},
    {"attention": "latent", "attention_span": "global", "input_feeding": True},
]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """A function that decides which positions are drawn next: those of each sentence, by target position."""

    def decide(positions: Sequence[Sequence[int]]) -> None:
        wanted = torch.tensor(positions)[:, :, None]  # [B, T, 1]

        def exponential(noise: Tensor) -> Tensor:
            return noise.fill_(1).scatter_(2, wanted, 1e-30)

        monkeypatch.setattr(torch.Tensor, "exponential_", exponential)

    return decide


def objective_of(changes: dict[str, Any]) -> Objective:
    """Of the plain loss."""
    model = make(**changes, attention_choice="hard", hidden_size=4)
    return Objective(model, TrainingConfig(label_smoothing=0.0)).train()


def one_pair() -> Batch:
    return Batch.from_padded(sentences([S]), sentences([T], seed=5))


def gradients(loss: Tensor, of_model: Objective) -> dict[str, Tensor]:
    weights = dict(of_model.model.named_parameters())
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return {name: torch.zeros_like(w) if g is None else g for (name, w), g in zip(weights.items(), found, strict=True)}


def sampled(of_model: Objective, batch: Batch) -> tuple[SampledStates, Tensor]:
    """What the model returns, and -log p of each target token [B, T]."""
    found = of_model.model(batch.source, F.pad(batch.target[:, :-1], (1, 0), value=BOS))
    assert isinstance(found, SampledStates)
    log_p = of_model.model.logits(found.states).log_softmax(dim=-1)
    return found, -log_p.gather(2, batch.target[:, :, None])[:, :, 0]


@pytest.mark.parametrize("changes", VARIANTS, ids=name_of)
def test_the_gradient_is_that_of_the_expected_loss(
    changes: dict[str, Any], draw: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Σ_z p(z) times the gradient after drawing z = the gradient of Σ_z p(z) (-log p(target | z))."""
    monkeypatch.setattr(module, "_ENTROPY_WEIGHT", 0.0)
    of_model, batch = objective_of(changes), one_pair()
    expected_loss = total_p = torch.zeros((), dtype=torch.float64)
    mean: dict[str, Tensor] = {}
    for places in itertools.product(range(S), repeat=T):
        draw([places])
        found, nll = sampled(of_model, batch)
        p = found.log_p.sum().exp()
        expected_loss, total_p = expected_loss + p * nll.sum(), total_p + p.detach()
        draw([places])
        loss, of_target = of_model(batch)
        torch.testing.assert_close(loss.detach(), of_target.sum())
        torch.testing.assert_close(of_target.sum(), nll.sum().detach())
        for name, gradient in gradients(loss, of_model).items():
            mean[name] = mean.get(name, 0) + p.detach() * gradient
    assert float(total_p) == pytest.approx(1, abs=1e-12)
    exact = gradients(expected_loss, of_model)
    assert max(gradient.abs().max() for name, gradient in exact.items() if "attention" in name) > 1e-8
    for name, gradient in exact.items():
        torch.testing.assert_close(mean[name], gradient, rtol=1e-9, atol=1e-12, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("fed", [True, False], ids=["fed", "not fed"])
def test_the_baseline_is_the_loss_of_soft_attention(fed: bool, draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this position, and with input feeding of all later ones too: what the drawing changes."""
    monkeypatch.setattr(module, "_ENTROPY_WEIGHT", 0.0)
    of_model = objective_of({"input_feeding": fed})
    source, target = sentences([S, 2]), sentences([4, 1], seed=5)  # the second target's other positions are padding
    batch, places = Batch.from_padded(source, target), [[0, 1, 2, 1], [1, 0, 1, 0]]
    draw(places)
    found, nll = sampled(of_model, batch)
    soft = make(input_feeding=fed, hidden_size=4)
    soft.load_state_dict(of_model.model.state_dict())
    states = soft(batch.source, F.pad(batch.target[:, :-1], (1, 0), value=BOS))
    torch.testing.assert_close(found.mean_states, states)
    difference = (nll + soft.logits(states).log_softmax(-1).gather(2, batch.target[:, :, None])[:, :, 0]).detach()
    difference = difference * (target != 0)
    reward = torch.stack([difference[:, t:].sum(dim=1) if fed else difference[:, t] for t in range(4)], dim=1)
    expected = gradients((nll * (target != 0)).sum() + (reward * found.log_p * (target != 0)).sum(), of_model)
    draw(places)
    for name, gradient in gradients(of_model(batch)[0], of_model).items():
        torch.testing.assert_close(gradient, expected[name], msg=lambda text, n=name: f"{n}: {text}")


def test_the_entropy_is_raised_at_tokens(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    of_model = objective_of({"input_feeding": False})
    batch, places = Batch.from_padded(sentences([S, 2]), sentences([3, 1], seed=5)), [[0, 1, 2], [1, 0, 0]]
    found = []
    for weight in (0.0, 1.0):
        monkeypatch.setattr(module, "_ENTROPY_WEIGHT", weight)
        draw(places)
        found.append(gradients(of_model(batch)[0], of_model))
    draw(places)
    entropy = (sampled(of_model, batch)[0].entropy * (batch.target != 0)).sum()
    for name, gradient in gradients(entropy, of_model).items():
        torch.testing.assert_close(found[0][name] - found[1][name], gradient)
