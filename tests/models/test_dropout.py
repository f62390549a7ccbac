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


@pytest.mark.parametrize("probability", [0.1, 1 / 3])
def test_survivors_are_scaled_by_the_inverse_of_the_probability_that_kept_them(probability: float) -> None:
    x = torch.randn(50_000, dtype=torch.float64)
    y = seeded(lambda: dropout(x, probability, True))
    survivors = y != 0
    assert survivors.any()
    torch.testing.assert_close(y[survivors], x[survivors] / rounded_keep(probability), rtol=1e-15, atol=0)


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
