"""LSTM and GRU, for complete sequences (with PyTorch's fused implementation) and for single steps.

Shapes: T positions, N rows, I inputs, H states; G gates: 4 in an LSTM, 3 in a GRU.

LSTM (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000), [i; f; g; o] = W x_t + U h_{t-1} + b:

    c_t = σ(f) ∘ c_{t-1} + σ(i) ∘ tanh(g),    h_t = σ(o) ∘ tanh(c_t)

GRU (Cho et al. 2014), r, z and n parts of W x_t + b and of U h_{t-1} + b':

    r = σ(W_r x + U_r h),    z = σ(W_z x + U_z h),    n = tanh(W_n x + r ∘ (U_n h + b'_n)),
    h_t = (1 - z) ∘ n + z ∘ h_{t-1}
"""

from typing import Literal, assert_never

import torch
from torch import Tensor, nn

from nmt.models.linear import linear

Kind = Literal["lstm", "gru"]
_GATES: dict[Kind, int] = {"lstm": 4, "gru": 3}
State = tuple[Tensor, ...]  # h, and in an LSTM c: [N, H] each


class Cells(nn.Module):
    """One layer of LSTM or GRU cells, in one direction."""

    def __init__(self, kind: Kind, inputs: int, hidden: int):
        super().__init__()
        gates = _GATES[kind]
        self.kind: Kind = kind
        self.hidden = hidden
        self.input, self.recurrent = (nn.Parameter(torch.empty(gates * hidden, width)) for width in (inputs, hidden))
        self.input_bias, self.recurrent_bias = (nn.Parameter(torch.empty(gates * hidden)) for _ in range(2))

    def forward(self, x: Tensor, state: State | None = None) -> Tensor:
        """x [T, N, I] and the first state (None: zeros) → h of all positions [T, N, H]."""
        if x.device.type == "cpu":
            # autocast's LSTM for CPUs does not exist for float16, nor for bfloat16 without AVX-512.
            with torch.autocast("cpu", enabled=False):
                return self._fused(x.to(self.input.dtype), state)
        return self._fused(x, state)

    def _fused(self, x: Tensor, state: State | None) -> Tensor:
        """`forward` with PyTorch's fused implementation."""
        if state is None:
            state = (x.new_zeros(x.shape[1], self.hidden),) * self.states
        weights: list[Tensor] = [self.input, self.recurrent, self.input_bias, self.recurrent_bias]
        before = tuple(tensor[None].to(x.dtype).contiguous() for tensor in state)
        options = True, 1, 0.0, self.training, False, False  # biases, layers, dropout, training, two directions, batch
        match self.kind:
            case "lstm":
                return torch.lstm(x, before, weights, *options)[0]
            case "gru":
                return torch.gru(x, before[0], weights, *options)[0]
            case _:
                assert_never(self.kind)

    @property
    def states(self) -> int:
        """The number of tensors in a state."""
        return {"lstm": 2, "gru": 1}[self.kind]

    @torch.no_grad()
    def remember_at_first(self) -> None:
        """Set the biases of an LSTM's forget gates to 1."""
        match self.kind:
            case "lstm":
                self.input_bias[self.hidden : 2 * self.hidden].fill_(1.0)
            case "gru":
                pass
            case _:
                assert_never(self.kind)

    def step(self, x: Tensor, state: State) -> State:
        """x [N, I] and the previous state → the new state."""
        return self.update(linear(x, self.input, self.input_bias), state)

    def update(self, input_gates: Tensor, state: State) -> State:
        """`step` for computed input_gates, W x + b [N, G·H]."""
        state_gates = linear(state[0], self.recurrent, self.recurrent_bias)
        match self.kind:
            case "lstm":
                i, f, g, o = (input_gates + state_gates).chunk(4, dim=1)
                c = torch.sigmoid(f) * state[1] + torch.sigmoid(i) * torch.tanh(g)
                return torch.sigmoid(o) * torch.tanh(c), c
            case "gru":
                (x_r, x_z, x_n), (h_r, h_z, h_n) = input_gates.chunk(3, dim=1), state_gates.chunk(3, dim=1)
                r, z = torch.sigmoid(x_r + h_r), torch.sigmoid(x_z + h_z)
                n = torch.tanh(x_n + r * h_n)
                return (torch.lerp(n, state[0], z),)
            case _:
                assert_never(self.kind)
