"""Positional encodings against the equations they come from."""

import math
from typing import Literal

import pytest
import torch

from nmt.models.transformer.positions import LearnedPositions, SinusoidalPositions, sinusoids

Layout = Literal["interleaved", "concatenated"]


def paper(position: int, d_model: int) -> list[float]:
    """Section 3.5: PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same."""
    row = []
    for i in range(d_model // 2):
        angle = position / 10000 ** (2 * i / d_model)
        row += [math.sin(angle), math.cos(angle)]
    return row


def tensor2tensor(position: int, d_model: int) -> list[float]:
    """`get_timing_signal_1d`: all sines, then all cosines; timescales geometric from 1 to 10000."""
    timescales = d_model // 2
    increment = math.log(1e4 / 1.0) / max(timescales - 1, 1)
    angles = [position * 1.0 * math.exp(i * -increment) for i in range(timescales)]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


EQUATIONS = [("interleaved", paper), ("concatenated", tensor2tensor)]


@pytest.mark.parametrize(("layout", "equation"), EQUATIONS)
@pytest.mark.parametrize("d_model", [2, 512])
def test_sinusoids_are_the_equations(layout: Layout, equation, d_model: int) -> None:
    expected = torch.tensor([equation(position, d_model) for position in range(40)], dtype=torch.float64)
    table = sinusoids(40, d_model, layout)
    assert table.dtype == torch.float32
    torch.testing.assert_close(table.double(), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("layout", "equation"), EQUATIONS)
def test_sinusoids_are_exact_far_from_the_start(layout: Layout, equation) -> None:
    """In float32 the angle of position 20,000 would be off by a thousandth."""
    last = torch.tensor(equation(20_000, 16), dtype=torch.float64)
    torch.testing.assert_close(sinusoids(20_001, 16, layout)[-1].double(), last, rtol=0, atol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_table_grows_when_a_longer_sequence_comes(layout: Layout) -> None:
    positions = SinusoidalPositions(8, layout)
    torch.testing.assert_close(positions(1, 2), sinusoids(3, 8, layout)[1:], rtol=0, atol=0)
    long = 3 * len(positions.table) + 1
    torch.testing.assert_close(positions(0, long), sinusoids(long, 8, layout), rtol=0, atol=0)
    torch.testing.assert_close(positions(long - 5, 9), sinusoids(long + 4, 8, layout)[-9:], rtol=0, atol=0)
    torch.testing.assert_close(positions(2, 3), sinusoids(5, 8, layout)[2:], rtol=0, atol=0)


def test_learned_positions_are_their_rows_and_learn() -> None:
    positions = LearnedPositions(4, max_positions=6)
    torch.nn.init.normal_(positions.weight)
    assert torch.equal(positions(2, 3), positions.weight[2:5])
    positions(2, 3).sum().backward()
    assert positions.weight.grad.sum(dim=1).tolist() == [0, 0, 4, 4, 4, 0]
