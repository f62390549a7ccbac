"""The loss: PyTorch's value and gradients, its definition's value, and nothing that depends on the split."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.training import loss as module
from nmt.training.loss import smoothed_cross_entropy, with_bias

N, D, V = 13, 8, 11


@pytest.fixture(params=[N, 4, 1], ids=["one chunk", "chunks of 4", "rows"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Rows of logits held at once: 13 of them make one chunk, four (the last one short), or thirteen."""
    monkeypatch.setattr(module, "rows_at_once", lambda *_: request.param)
    yield


def inputs(scale: float = 1.0, dtype: torch.dtype = torch.float32, n: int = N) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(n, D, dtype=dtype, requires_grad=True)
    weight = (scale * torch.randn(V, D, dtype=dtype)).requires_grad_()
    return hidden, weight, torch.randint(0, V, (n,))


def reference(hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor, Tensor]:
    """PyTorch's loss in float64, and its gradients for hidden and weight."""
    h, w = (x.detach().double().requires_grad_() for x in (hidden, weight))
    loss = F.cross_entropy(h @ w.t(), target, label_smoothing=smoothing, reduction="sum")
    return loss.detach(), *torch.autograd.grad(loss, (h, w))


def nll_of_each(hidden: Tensor, weight: Tensor, target: Tensor) -> Tensor:
    """-log p of each token, in float64."""
    return F.cross_entropy(hidden.detach().double() @ weight.detach().double().t(), target, reduction="none")


def relative(got: Tensor, expected: Tensor) -> float:
    """The error's norm against the size of what is expected."""
    return float((got.detach().double() - expected).norm() / expected.norm().clamp(min=1e-300))


@given(
    n=st.integers(1, 9),
    smoothing=st.floats(0, 0.99),
    chunk=st.integers(1, 10),
    upstream=st.floats(-3, 3),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=30)
def test_in_float64_it_is_exact_for_any_split_and_upstream_gradient(
    n: int, smoothing: float, chunk: int, upstream: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    hidden, weight = (
        torch.randn(rows, D, dtype=torch.float64, generator=generator).requires_grad_() for rows in (n, V)
    )
    target = torch.randint(0, V, (n,), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "rows_at_once", lambda *_: chunk)
        loss, _ = smoothed_cross_entropy(hidden, weight, target, smoothing)
    (upstream * loss).backward()
    expected, hidden_gradient, weight_gradient = reference(hidden, weight, target, smoothing)
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(hidden.grad, upstream * hidden_gradient, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(weight.grad, upstream * weight_gradient, rtol=1e-10, atol=1e-12)


def test_with_a_bias_it_is_pytorchs_loss_too() -> None:
    hidden, weight, target = inputs(dtype=torch.float64)
    bias = torch.linspace(-2, 3, V, dtype=torch.float64, requires_grad=True)
    loss, _ = smoothed_cross_entropy(*with_bias(hidden, weight, bias), target, 0.1)
    expected = F.cross_entropy(F.linear(hidden, weight, bias), target, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, expected)
    given = hidden, weight, bias
    for own, other in zip(torch.autograd.grad(loss, given), torch.autograd.grad(expected, given), strict=True):
        torch.testing.assert_close(own, other)


@pytest.mark.usefixtures("chunks")
@pytest.mark.parametrize("scale", [300.0, 3000.0])
def test_extreme_logits_neither_overflow_nor_lose_the_loss(scale: float) -> None:
    hidden, weight, target = inputs(scale)
    assert float((hidden @ weight.t()).detach().abs().max()) > 3 * scale  # exp of it is far beyond float32
    loss, nll = smoothed_cross_entropy(hidden, weight, target, 0.1)
    expected = reference(hidden, weight, target, 0.1)
    gradients = torch.autograd.grad(loss, (hidden, weight))
    for got, wanted in zip((loss, *gradients), expected, strict=True):
        assert relative(got, wanted) < 1e-5
    assert relative(nll, nll_of_each(hidden, weight, target)) < 1e-5


def test_without_gradients_none_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, weight, target = inputs()
    with_gradient = smoothed_cross_entropy(hidden, weight, target, 0.1)

    def no(*_: object, **__: object) -> Tensor:
        raise AssertionError("room for a gradient")

    monkeypatch.setattr(module.torch, "zeros_like", no)
    monkeypatch.setattr(module.torch, "empty_like", no)
    with torch.no_grad():
        without = smoothed_cross_entropy(hidden, weight, target, 0.1)
    with torch.inference_mode():
        inferred = smoothed_cross_entropy(hidden, weight, target, 0.1)
    assert not without[0].requires_grad
    for found in (without, inferred):
        assert all(map(torch.equal, found, with_gradient))


def test_a_hidden_state_in_bfloat16_gets_its_gradient_in_bfloat16() -> None:
    hidden, weight, target = inputs(n=50)
    half = hidden.detach().bfloat16().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = smoothed_cross_entropy(half, weight, target, 0.1)
    loss.backward()
    assert half.grad.dtype == torch.bfloat16
    assert relative(half.grad, reference(hidden, weight, target, 0.1)[1]) < 0.02


def confident(
    probability: float, n: int = 100, vocabulary: int = 500, width: int = 32
) -> tuple[Tensor, Tensor, Tensor]:
    """States and weights that give each target this probability."""
    torch.manual_seed(0)
    weight = torch.randn(vocabulary, width, dtype=torch.float64) * width**-0.5
    states, target = torch.randn(n, width, dtype=torch.float64), torch.randint(0, vocabulary, (n,))
    low, high = torch.full((n, 1), -100.0), torch.full((n, 1), 100.0)
    for _ in range(60):  # how far to go along the target's row
        middle = (low + high) / 2
        p = ((states + middle * weight[target]) @ weight.t()).softmax(dim=1).gather(1, target[:, None])
        low, high = torch.where(p < probability, middle, low), torch.where(p < probability, high, middle)
    return (states + low * weight[target]).float().requires_grad_(), weight.float().requires_grad_(), target


@pytest.mark.parametrize(
    ("dtype", "smoothing", "probability"),
    [
        (torch.float32, 0.1, 0.5), (torch.bfloat16, 0.1, 0.99), (torch.float16, 0.1, 0.999),
    ],
)  # fmt: skip
def test_gradients_are_as_exact_as_pytorchs_however_sure_the_model_is(
    dtype: torch.dtype, smoothing: float, probability: float
) -> None:
    hidden, weight, target = confident(probability)
    mixed = dtype != torch.float32
    with torch.autocast("cpu", dtype, enabled=mixed):
        loss, _ = smoothed_cross_entropy(hidden, weight, target, smoothing)
        plain = F.cross_entropy(F.linear(hidden, weight), target, label_smoothing=smoothing, reduction="sum")
    ours, theirs = (torch.autograd.grad(value, (hidden, weight)) for value in (loss, plain))
    for our, their, wanted in zip(ours, theirs, reference(hidden, weight, target, smoothing)[1:], strict=True):
        assert relative(our, wanted) < 2 * relative(their, wanted) + 1e-6


def test_in_float16_a_gradient_too_small_for_it_is_not_lost() -> None:
    """A subword that every state finds improbable: its row of the weight gradient is a sum of such probabilities."""
    torch.manual_seed(0)
    hidden, weight = torch.randn(300, D) + 4, 0.1 * torch.randn(V, D)
    weight[7] = -0.6  # e^-20 of the others' probability, 2e-9
    hidden, weight, target = hidden.requires_grad_(), weight.requires_grad_(), torch.randint(0, 7, (300,))
    with torch.autocast("cpu", torch.float16):
        loss, _ = smoothed_cross_entropy(hidden, weight, target, 0.0)
    (gradient,) = torch.autograd.grad(loss, weight)
    wanted = reference(hidden, weight, target, 0.0)[2][7]
    assert 0 < float(wanted.abs().max()) < 1e-4
    assert relative(gradient[7], wanted) < 0.3
