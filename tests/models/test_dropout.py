"""Dropout: the distribution it promises, the same mask forward and backward, the generator it draws from."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from nmt.models.dropout import dropout, residual_sum


def rounded_keep(probability: float) -> float:
    """The keep probability as a multiple of 2^-16, neither 0 nor 1."""
    return min(max(round((1 - probability) * 65536), 1), 65535) / 65536


def seeded(f: Callable[[], Tensor], seed: int = 7) -> Tensor:
    torch.manual_seed(seed)
    return f()


def test_each_element_of_a_draw_is_dropped_independently_of_the_others() -> None:
    """Four elements share one 64-bit draw: neither neighbours nor the places in it may be tied together."""
    kept = (seeded(lambda: dropout(torch.ones(200_000, 4), 0.25, True)) != 0).double()
    torch.testing.assert_close(kept.mean(dim=0), torch.full((4,), 0.75, dtype=torch.float64), rtol=0, atol=0.005)
    correlation = torch.corrcoef(torch.cat([kept, kept.roll(1, dims=0)], dim=1).T)  # [8, 8]
    assert float((correlation - torch.eye(8)).abs().max()) < 0.015


@pytest.mark.parametrize("probability", [0.1, 0.25, 0.5, 1 / 3, 0.999])
def test_survivors_are_scaled_by_the_inverse_of_the_probability_that_kept_them(probability: float) -> None:
    x = torch.randn(50_000, dtype=torch.float64)
    y = seeded(lambda: dropout(x, probability, True))
    survivors = y != 0
    assert survivors.any()
    torch.testing.assert_close(y[survivors], x[survivors] / rounded_keep(probability), rtol=1e-15, atol=0)


@pytest.mark.parametrize("probability", [1e-9, 1e-6, 1 - 1e-9])
def test_extreme_probabilities_keep_the_expectation(probability: float) -> None:
    y = seeded(lambda: dropout(torch.ones(1_000_000), probability, True))
    share = float((y != 0).double().mean())
    assert share == pytest.approx(rounded_keep(probability), abs=2e-5)
    assert set(y.unique().tolist()) <= {0.0, torch.tensor(1 / rounded_keep(probability)).item()}


SHAPES = st.lists(st.integers(0, 7), max_size=4).map(tuple)


@given(shape=SHAPES, probability=st.floats(0.05, 0.95), dtype=st.sampled_from([torch.float32, torch.float64]))
@settings(deadline=None, max_examples=20)
def test_gradient_is_the_forward_mask_times_the_scale(
    shape: tuple[int, ...], probability: float, dtype: torch.dtype
) -> None:
    x = torch.ones(shape, dtype=dtype, requires_grad=True)
    y = seeded(lambda: dropout(x, probability, True))
    gradient = torch.randn(shape, dtype=dtype)
    y.backward(gradient)
    assert y.shape == x.grad.shape == torch.Size(shape)
    torch.testing.assert_close(x.grad, gradient * y.detach())  # x is 1: y is mask · scale


@given(shape=SHAPES, probability=st.floats(0.05, 0.95))
@settings(deadline=None, max_examples=20)
def test_residual_sum_is_the_residual_plus_dropout(shape: tuple[int, ...], probability: float) -> None:
    residual, x = (torch.randn(shape, requires_grad=True) for _ in range(2))
    gradient = torch.randn(shape)
    fused = seeded(lambda: residual_sum(residual, x, probability, True))
    plain = seeded(lambda: residual + dropout(x, probability, True))
    torch.testing.assert_close(fused, plain)
    for got, expected in zip(
        torch.autograd.grad(fused, (residual, x), gradient),
        torch.autograd.grad(plain, (residual, x), gradient),
        strict=True,
    ):
        torch.testing.assert_close(got, expected)


def test_the_mask_comes_from_pytorchs_generator_and_advances_it() -> None:
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = dropout(x, 0.5, True), dropout(x, 0.5, True)
    assert not torch.equal(first, second)
    torch.manual_seed(3)
    assert torch.equal(dropout(x, 0.5, True), first)
    state = torch.get_rng_state()
    assert torch.equal(dropout(x, 0.5, True), second)
    torch.set_rng_state(state)
    assert torch.equal(residual_sum(torch.zeros(1000), x, 0.5, True), second)


@pytest.mark.parametrize(("probability", "training"), [(0.0, True), (0.5, False), (0.0, False)])
def test_without_dropout_nothing_is_changed_or_drawn(probability: float, training: bool) -> None:
    x, residual = torch.randn(5, 3), torch.randn(5, 3)
    state = torch.get_rng_state()
    assert dropout(x, probability, training) is x
    assert torch.equal(residual_sum(residual, x, probability, training), residual + x)
    assert torch.equal(torch.get_rng_state(), state)


def test_strides_do_not_matter() -> None:
    x = torch.randn(6, 5, 7)
    turned = x.permute(2, 0, 1).contiguous().permute(1, 2, 0).requires_grad_()
    straight = x.clone().requires_grad_()
    assert not turned.is_contiguous()
    for function in (lambda x: dropout(x, 0.4, True), lambda x: residual_sum(x * 2, x, 0.4, True)):
        one, other = seeded(lambda: function(turned)), seeded(lambda: function(straight))  # noqa: B023
        assert torch.equal(one, other)
        gradient = torch.randn(7, 6, 5).permute(1, 2, 0)
        assert torch.equal(
            torch.autograd.grad(one, turned, gradient)[0], torch.autograd.grad(other, straight, gradient)[0]
        )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype: torch.dtype) -> None:
    x = torch.randn(999).to(dtype).requires_grad_()  # drawn in bfloat16, PyTorch 2.8 has zeros among them
    y = seeded(lambda: dropout(x, 0.3, True))
    wide = seeded(lambda: dropout(x.detach().float(), 0.3, True))
    assert y.dtype == dtype
    torch.testing.assert_close(y, wide.to(dtype), rtol=torch.finfo(dtype).eps, atol=0)
    y.sum().backward()
    assert x.grad.dtype == dtype
    assert torch.equal(x.grad != 0, wide != 0)


def test_under_autocast_a_float32_residual_takes_a_bfloat16_sublayer() -> None:
    residual, linear = torch.randn(30, 8), torch.nn.Linear(8, 8)
    with torch.autocast("cpu", torch.bfloat16):
        y = linear(residual)
        assert y.dtype == torch.bfloat16
        total = seeded(lambda: residual_sum(residual, y, 0.5, True))
        expected = seeded(lambda: residual + dropout(y, 0.5, True))
    assert total.dtype == torch.float32
    assert torch.equal(total, expected)
    total.square().sum().backward()
    assert linear.weight.grad.dtype == torch.float32
    assert linear.weight.grad.isfinite().all()
