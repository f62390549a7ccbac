"""Hard attention: the gradient is right on average over all that may be drawn, which is few enough to be listed.

On two target positions and three source positions there are nine choices. Two ranks, or micro-batches, draw other
positions than one batch would, so that their gradients are equal for equal draws only: that is tested here, for the
objective; how gradients are added up does not depend on the model (tests/distributed/test_ranks.py).
"""

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.recurrent_models import make, name_of
from helpers.transformers import BOS, decoder_input, sentences
from torch import Tensor

from nmt.config.schema import TrainingConfig
from nmt.data.batching import Batch
from nmt.models.interface import Sampled
from nmt.training import objective as module
from nmt.training.objective import Objective

S, T = 3, 2
Draw = Callable[[Sequence[Sequence[int]]], None]
VARIANTS: list[dict[str, Any]] = [
    {"attention": attention, "attention_span": span, "input_feeding": fed}
    for (attention, span), fed in itertools.product(
        [("additive", "global"), ("general", "local-p"), ("latent", "global")], (True, False)
    )
]


@pytest.fixture
def draw(monkeypatch: pytest.MonkeyPatch) -> Draw:
    """A function that decides which positions are drawn next: those of each sentence, by target position."""

    def decide(positions: Sequence[Sequence[int]]) -> None:
        wanted = torch.tensor(positions)  # [B, T]
        by_call: Iterator[Tensor] = iter(wanted.t())

        def multinomial(p: Tensor, count: int) -> Tensor:
            assert count == 1 and not p.requires_grad
            chosen = wanted.flatten() if len(p) == wanted.numel() else next(by_call)
            assert (p.gather(1, chosen[:, None]) > 0).all()
            return chosen[:, None]

        monkeypatch.setattr(torch, "multinomial", multinomial)

    return decide


def objective_of(changes: dict[str, Any]) -> Objective:
    """Of the plain loss; the baseline's estimates are far from the losses, as at first."""
    model = make(**changes, attention_choice="hard", hidden_size=4)
    return Objective(model, TrainingConfig(label_smoothing=0.0)).train()


def one_pair() -> Batch:
    return Batch.of(sentences([S]), sentences([T], seed=5))


def gradients(loss: Tensor, of_model: Objective) -> dict[str, Tensor]:
    """All but those of the baseline, which learns something else."""
    weights = {name: weight for name, weight in of_model.model.named_parameters() if "baseline" not in name}
    found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    return {name: torch.zeros_like(w) if g is None else g for (name, w), g in zip(weights.items(), found, strict=True)}


def sampled(of_model: Objective, batch: Batch) -> tuple[Sampled, Tensor]:
    """What the model returns, and -log p of each target token [B, T]."""
    found = of_model.model(batch.source, F.pad(batch.target[:, :-1], (1, 0), value=BOS))
    assert isinstance(found, Sampled)
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
        torch.testing.assert_close(loss.detach(), of_target)
        torch.testing.assert_close(of_target, nll.sum().detach())
        for name, gradient in gradients(loss, of_model).items():
            mean[name] = mean.get(name, 0) + p.detach() * gradient
    assert float(total_p) == pytest.approx(1, abs=1e-12)
    exact = gradients(expected_loss, of_model)
    assert max(gradient.abs().max() for name, gradient in exact.items() if "attention" in name) > 1e-5
    for name, gradient in exact.items():
        torch.testing.assert_close(mean[name], gradient, rtol=1e-9, atol=1e-12, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("fed", [True, False], ids=["fed", "not fed"])
def test_the_baseline_learns_the_loss_of_what_the_drawing_changes(fed: bool, draw: Draw) -> None:
    """Half the squared error: of this position's loss, and with input feeding of all later ones too."""
    of_model = objective_of({"input_feeding": fed})
    baseline = of_model.model.decoder.baseline  # type: ignore[union-attr]
    source, target = sentences([S, 2]), sentences([4, 1], seed=5)  # the second target's other positions are padding
    batch, places = Batch.of(source, target), [[0, 1, 2, 1], [1, 0, 1, 0]]
    draw(places)
    found, nll = sampled(of_model, batch)
    nll = nll.detach() * (target != 0)
    reward = torch.stack([nll[:, t:].sum(dim=1) if fed else nll[:, t] for t in range(4)], dim=1)
    error = ((found.baseline - reward) ** 2 / 2 * (target != 0)).sum()
    expected = torch.autograd.grad(error, list(baseline.parameters()))  # type: ignore[union-attr]
    draw(places)
    loss, _ = of_model(batch)
    got = torch.autograd.grad(loss, list(baseline.parameters()))  # type: ignore[union-attr]
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_entropy_is_raised_at_tokens(draw: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    of_model = objective_of({"input_feeding": False})
    batch, places = Batch.of(sentences([S, 2]), sentences([3, 1], seed=5)), [[0, 1, 2], [1, 0, 0]]
    found = []
    for weight in (0.0, 1.0):
        monkeypatch.setattr(module, "_ENTROPY_WEIGHT", weight)
        draw(places)
        found.append(gradients(of_model(batch)[0], of_model))
    draw(places)
    entropy = (sampled(of_model, batch)[0].entropy * (batch.target != 0)).sum()
    for name, gradient in gradients(entropy, of_model).items():
        torch.testing.assert_close(found[0][name] - found[1][name], gradient)


@pytest.mark.parametrize("fed", [True, False], ids=["fed", "not fed"])
def test_after_equal_draws_a_batch_in_parts_has_the_gradient_of_the_whole(fed: bool, draw: Draw) -> None:
    of_model = objective_of({"input_feeding": fed})
    source, target = sentences([S, 5, 2]), sentences([T, 1, 4], seed=5)
    places = [[0, 2, 0, 0], [4, 0, 0, 0], [1, 0, 1, 0]]
    draw(places)
    whole = gradients(of_model(Batch.of(source, target))[0], of_model)
    total: dict[str, Tensor] = {}
    for part, length, of_target in (([0, 2], 3, 4), ([1], 5, 1)):
        draw([places[i][:of_target] for i in part])
        loss, _ = of_model(Batch.of(source[part, :length], target[part, :of_target]))
        for name, gradient in gradients(loss, of_model).items():
            total[name] = total.get(name, 0) + gradient
    for name, gradient in whole.items():
        torch.testing.assert_close(total[name], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("fed", [True, False], ids=["fed", "not fed"])
def test_positions_are_drawn_as_often_as_they_are_probable(fed: bool) -> None:
    of_model, source = objective_of({"input_feeding": fed}), sentences([S]).expand(4000, -1)
    with torch.no_grad():
        of_model.model.decoder.attention.energy.mul_(100)  # type: ignore[union-attr, operator]
    torch.manual_seed(0)
    found = of_model.model(source, decoder_input([1]).expand(4000, -1))
    for log_p, count in zip(*found.log_p[:, 0].detach().unique(return_counts=True), strict=True):
        deviation = (4000 * log_p.exp() * (1 - log_p.exp())) ** 0.5
        assert abs(count - 4000 * log_p.exp()) < 4 * deviation
    assert len(found.log_p.unique()) == S and found.log_p.max() > math.log(0.5)


@torch.no_grad()
@pytest.mark.parametrize("changes", VARIANTS, ids=name_of)
def test_outside_training_the_most_probable_position_is_taken(changes: dict[str, Any], draw: Draw) -> None:
    of_model, source, target = objective_of(changes), sentences([6]), decoder_input([4])
    model = of_model.model.eval()
    chosen = model.alignment(source, target).argmax(dim=2)
    states = model(source, target)
    assert isinstance(states, Tensor) and torch.equal(states, model(source, target))
    draw(chosen.tolist())
    torch.testing.assert_close(model.train()(source, target).states, states)
    other = (chosen + 1) % 6 if changes["attention_span"] == "global" else chosen
    if changes["attention_span"] == "global":
        draw(other.tolist())
        assert not torch.allclose(model(source, target).states, states)
