"""Muon changes each matrix as its equations say, and Adam changes all else."""

import copy
from collections.abc import Callable

import pytest
import torch
from helpers.train_steps import make_train_step, random_step
from torch import Tensor, nn

from nmt.config import schema
from nmt.config.schema import Config
from nmt.models.recurrent.model import RecurrentModel
from nmt.models.transformer.model import Transformer
from nmt.training.muon import Muon, orthogonal

MakeConfig = Callable[..., Config]
MUON = "training.optimizer=muon"
TRANSFORMER = schema.TransformerConfig(d_model=8, feed_forward=12, layers=1, heads=2, key_size=3, value_size=5)


def model(config: schema.ModelConfig) -> Transformer | RecurrentModel:
    torch.manual_seed(0)
    return (Transformer if isinstance(config, schema.TransformerConfig) else RecurrentModel)(config, 20, 20, 0)


# --------------------------------------------------------------------------- the matrices


def by_singular_values(matrix: Tensor) -> Tensor:
    """`orthogonal` by its definition: each singular value goes through the polynomial five times."""
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    values = values / values.norm()
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left @ torch.diag(values) @ right


@pytest.mark.parametrize("shape", [(5, 5), (3, 8), (8, 3), (1, 4)])
def test_the_singular_values_follow_the_polynomial_and_the_vectors_stay(shape: tuple[int, int]) -> None:
    torch.manual_seed(1)
    matrices = torch.randn(4, *shape, dtype=torch.float64) * torch.tensor([1e-6, 1, 30, 1e4]).view(4, 1, 1)
    for matrix, found in zip(matrices, orthogonal(matrices), strict=True):
        torch.testing.assert_close(found, by_singular_values(matrix), rtol=1e-9, atol=1e-9)


RECURRENT_CONFIGS = [
    schema.RecurrentConfig(cell=cell, embedding_size=6, hidden_size=8, attention="additive")  # type: ignore[arg-type]
    for cell in ("lstm", "gru")
]


@pytest.mark.parametrize("config", [TRANSFORMER, *RECURRENT_CONFIGS], ids=["transformer", "lstm", "gru"])
def test_they_are_all_in_the_layers_and_cut_into_whole_matrices(config: schema.ModelConfig) -> None:
    of = model(config)
    names = {weight: name for name, weight in of.named_parameters()}
    found = {names[weight]: rows for weight, rows in of.matrices().items()}  # type: ignore[index]
    expected = {name for weight, name in names.items() if weight.dim() == 2}
    outside = {name for name in expected if name.startswith(("source_", "target_", "output"))}
    assert found.keys() == expected - outside and outside
    weights = dict(of.named_parameters())
    assert all(sum(rows) == len(weights[name]) for name, rows in found.items())
    stacked = sorted(rows for rows in found.values() if len(rows) > 1)
    if config is TRANSFORMER:
        assert stacked == [[6, 6, 10]] * 3
    else:
        lstm = config.cell == "lstm"  # type: ignore[union-attr]
        assert {tuple(rows) for rows in stacked} >= {(8,) * (4 if lstm else 3)}
        assert found["decoder.first.weight"] == [8] * (4 if lstm else 2)  # h_0, and c_0, of two layers


# --------------------------------------------------------------------------- the step


def expected_steps(start: Tensor, gradients: list[Tensor], rows: list[int], rate: float, decay: float) -> Tensor:
    """The equations of nmt.training.muon, one stacked matrix after the other."""
    parts = []
    for weight, *steps in zip(start.split(rows), *(each.split(rows) for each in gradients), strict=True):
        momentum = torch.zeros_like(weight)
        for gradient in steps:
            momentum = 0.95 * momentum + 0.05 * gradient
            direction = 0.05 * gradient + 0.95 * momentum
            weight = (1 - rate * decay) * weight
            weight = weight - rate * 0.2 * max(weight.shape) ** 0.5 * by_singular_values(direction)
        parts.append(weight)
    return torch.cat(parts)


@pytest.mark.parametrize("decay", [0.0, 0.3])
@pytest.mark.parametrize("config", [TRANSFORMER, RECURRENT_CONFIGS[0]], ids=["transformer", "recurrent"])
def test_steps_are_those_of_the_equations(config: schema.ModelConfig, decay: float) -> None:
    of = model(config).double()
    matrices, rate = of.matrices(), 0.02
    others = [weight for weight in of.parameters() if weight not in matrices]
    twins = [nn.Parameter(weight.detach().clone()) for weight in others]
    muon = Muon(matrices, torch.optim.AdamW(others, lr=0.0, weight_decay=0.0), decay, torch.float64)
    adam = torch.optim.AdamW(twins, lr=rate, weight_decay=0.0)
    for group in muon.param_groups:
        group["lr"] = rate
    start = {weight: weight.detach().clone() for weight in matrices}
    gradients: dict[Tensor, list[Tensor]] = {weight: [] for weight in matrices}
    for _ in range(3):
        for weight in of.parameters():
            weight.grad = torch.randn_like(weight)
        for weight, twin in zip(others, twins, strict=True):
            twin.grad = weight.grad.clone()  # type: ignore[union-attr]
        for weight, each in gradients.items():
            each.append(weight.grad.clone())  # type: ignore[union-attr]
        muon.step()
        adam.step()
    for weight, twin in zip(others, twins, strict=True):
        assert torch.equal(weight, twin)
    for weight, rows in matrices.items():
        expected = expected_steps(start[weight], gradients[weight], rows, rate, decay)
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-9, atol=1e-9)


def test_the_step_of_a_run_uses_it_for_the_layers_and_leaves_frozen_weights(make_config: MakeConfig) -> None:
    of = make_train_step(make_config(MUON, "training.freeze=[encoder]"))
    assert isinstance(of.optimizer, Muon)
    before = copy.deepcopy(dict(of.model.named_parameters()))
    of.run(random_step(1), 1, 0.01)
    changed = {name for name, weight in of.model.named_parameters() if not torch.equal(weight, before[name])}
    assert changed == {name for name in before if not name.startswith("encoder.")}
    kinds = {name: set(of.optimizer.state[weight]) for name, weight in of.model.named_parameters()}
    assert kinds["decoder.0.self_attention.projection.weight"] == {"momentum"}
    assert kinds["target_embedding.weight"] == {"step", "exp_avg", "exp_avg_sq"}
    assert not kinds["encoder.0.self_attention.projection.weight"]
