"""Positional encodings (section 3.5): fixed sinusoids in two layouts, or learned vectors.

Shapes: T length, D d_model, or dk for rotary positions.
"""

import math
from typing import Literal, assert_never

import torch
from torch import Tensor, nn

from nmt.device import from_host
from nmt.errors import NmtError


def sinusoids(length: int, d_model: int, layout: Literal["interleaved", "concatenated"]) -> Tensor:
    """The sinusoidal encodings of positions 0 … length-1, float32 [T, D].

    `interleaved` is the paper's layout: PE(pos, 2i) = sin(pos / 10000^(2i/D)) and
    PE(pos, 2i+1) = cos(pos / 10000^(2i/D)). `concatenated` is Tensor2Tensor's: D/2 sines, then D/2
    cosines, with wavelengths from 2π to exactly 10000·2π.
    """
    # In float64, because the sine of a large angle in float32 is wrong in the fourth digit.
    position = torch.arange(length, dtype=torch.float64)[:, None]  # [T, 1]
    pair = torch.arange(d_model // 2, dtype=torch.float64)  # [D/2]
    exponents = {"interleaved": 2 * pair / d_model, "concatenated": pair / max(d_model // 2 - 1, 1)}
    angle = position * torch.exp(-math.log(10_000.0) * exponents[layout])  # [T, D/2]
    match layout:
        case "interleaved":
            return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()
        case "concatenated":
            return torch.cat([angle.sin(), angle.cos()], dim=-1).float()
        case _:
            assert_never(layout)


class SinusoidalPositions(nn.Module):
    """A fixed table, which is computed when it is first used, and again when it is too short. It is not a weight."""

    table: Tensor

    def __init__(self, d_model: int, layout: Literal["interleaved", "concatenated"], offset: int = 0):
        """offset: the index of the first position."""
        super().__init__()
        self.d_model, self.layout, self.offset = d_model, layout, offset
        self.register_buffer("table", torch.empty(0, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Tensor:
        """Encodings of positions start … start+length-1: [length, D]."""
        end, table = start + length, self.table
        if end > len(table):
            # `table` is also a local variable, because another thread may set a shorter one at the same time.
            length = max(512, 2 * end)
            longer = sinusoids(self.offset + length, self.d_model, self.layout)[self.offset :].to(table.dtype)
            table = self.table = from_host(longer, table.device)
        return table[start:end]


class LearnedPositions(nn.Module):
    """A learned vector for each position (row (E) of the paper's Table 3)."""

    def __init__(self, d_model: int, max_positions: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_positions, d_model))

    def forward(self, start: int, length: int) -> Tensor:
        """Vectors of positions start … start+length-1: [length, D]. Raises NmtError after the last position."""
        if start + length > len(self.weight):
            raise NmtError(
                f"a sequence of {start + length} subwords is longer than model.max_positions: "
                f"{len(self.weight)}, the number of positions of this model: shorten the text"
            )
        return self.weight[start : start + length]


def first_positions(source: nn.Module, target: nn.Module, length: int = 100) -> dict[str, Tensor]:
    """The encodings of the first positions for display: [length, D] by name, shorter if a learned table is shorter.
    Learned positions are named by side. Sinusoids are the same on both sides; both layouts are returned."""
    if isinstance(source, LearnedPositions):
        length = min(length, len(source.weight))
        return {"source": source(0, length), "target": target(0, length)}
    assert isinstance(source, SinusoidalPositions)
    return {
        "interleaved": sinusoids(length, source.d_model, "interleaved"),
        "concatenated": sinusoids(length, source.d_model, "concatenated"),
    }
