"""LSTM and GRU, for complete sequences by PyTorch's fused implementation and for single steps.

Shapes: T positions, N rows, I inputs, H states; G gates: 4 of an LSTM, 3 of a GRU.

LSTM (Hochreiter and Schmidhuber 1997; with forget gates, Gers et al. 2000), [i; f; g; o] = W x_t + U h_{t-1} + b:

    c_t = σ(f) ∘ c_{t-1} + σ(i) ∘ tanh(g),    h_t = σ(o) ∘ tanh(c_t)

GRU (Cho et al. 2014), r, z and n parts of W x_t + b and of U h_{t-1} + b':

    r = σ(W_r x + U_r h),    z = σ(W_z x + U_z h),    n = tanh(W_n x + r ∘ (U_n h + b'_n)),
    h_t = (1 - z) ∘ n + z ∘ h_{t-1}
"""

from typing import Any

import torch
from torch import Tensor, nn

from nmt.models.linear import linear

State = tuple[Tensor, ...]  # h, and of an LSTM c: [N, H] each


class Cells(nn.Module):
    """One layer of LSTM or GRU cells that read in one direction."""

    def __init__(self, kind: str, inputs: int, hidden: int):
        super().__init__()
        gates = 4 if kind == "lstm" else 3
        self.kind, self.hidden = kind, hidden
        self.input, self.recurrent = (nn.Parameter(torch.empty(gates * hidden, width)) for width in (inputs, hidden))
        self.input_bias, self.recurrent_bias = (nn.Parameter(torch.empty(gates * hidden)) for _ in range(2))

    def forward(self, x: Tensor, state: State | None = None) -> Tensor:
        """x [T, N, I] and the state before it (None: zeros) → h of all positions [T, N, H]."""
        if x.device.type == "cpu":
            # The LSTM that autocast chooses on CPUs is missing for float16, and for bfloat16 without AVX-512.
            with torch.autocast("cpu", enabled=False):
                return self._fused(x.to(self.input.dtype), state)
        return self._fused(x, state)

    def _fused(self, x: Tensor, state: State | None) -> Tensor:
        """As `forward`."""
        if state is None:
            state = (x.new_zeros(x.shape[1], self.hidden),) * self.states
        weights: list[Tensor] = [self.input, self.recurrent, self.input_bias, self.recurrent_bias]
        before = tuple(each[None].to(x.dtype).contiguous() for each in state)
        options = True, 1, 0.0, self.training, False, False  # biases, layers, dropout, training, two directions, batch
        if self.kind == "lstm":
            return torch.lstm(x, before, weights, *options)[0]
        return torch.gru(x, before[0], weights, *options)[0]

    @property
    def states(self) -> int:
        """The number of tensors of a state."""
        return 2 if self.kind == "lstm" else 1

    def step(self, x: Tensor, state: State) -> State:
        """x [N, I] and the state before it → the state after it."""
        return self.update(linear(x, self.input, self.input_bias), state)

    def update(self, of_input: Tensor, state: State) -> State:
        """`step` where W x + b [N, G·H] is given."""
        of_state = linear(state[0], self.recurrent, self.recurrent_bias)
        if self.kind == "lstm":
            return _LSTM.apply(of_input, of_state, state[1])  # type: ignore[no-untyped-call]
        return (_GRU.apply(of_input, of_state, state[0]),)  # type: ignore[no-untyped-call]


class _LSTM(torch.autograd.Function):
    """W x and U h [N, 4·H], c [N, H] → the new h and c. One node for the backward pass, where PyTorch has fifteen."""

    @staticmethod
    def forward(ctx: Any, of_input: Tensor, of_state: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = of_input + of_state
        size = c.shape[1]
        new = gates[:, 2 * size : 3 * size].tanh()
        gates.sigmoid_()
        gates[:, 2 * size : 3 * size] = new
        i, f, g, o = torch.split(gates, size, dim=1)
        after = torch.addcmul(f * c, i, g)
        squashed = after.tanh()
        ctx.save_for_backward(gates, c, squashed)
        return o * squashed, after

    @staticmethod
    def backward(ctx: Any, d_h: Tensor, d_after: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        gates, c, squashed = ctx.saved_tensors
        i, f, g, o = torch.split(gates, c.shape[1], dim=1)
        d_c = torch.addcmul(d_after, d_h * o, 1 - squashed * squashed)
        d_gates = torch.cat([d_c * g, d_c * c, d_c * i, d_h * squashed], dim=1)
        # dσ = σ (1 - σ); for g, dtanh = 1 - tanh².
        slope = torch.addcmul(gates, gates, gates, value=-1)
        slope[:, 2 * c.shape[1] : 3 * c.shape[1]] = 1 - g * g
        d_gates.mul_(slope)
        return d_gates, d_gates, d_c * f


class _GRU(torch.autograd.Function):
    """W x and U h [N, 3·H], h [N, H] → the new h."""

    @staticmethod
    def forward(ctx: Any, of_input: Tensor, of_state: Tensor, h: Tensor) -> Tensor:
        size = h.shape[1]
        r, z = torch.split(torch.sigmoid(of_input[:, : 2 * size] + of_state[:, : 2 * size]), size, dim=1)
        inner = of_state[:, 2 * size :]
        n = torch.tanh(torch.addcmul(of_input[:, 2 * size :], r, inner))
        ctx.save_for_backward(r, z, n, inner, h)
        return torch.lerp(n, h, z)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        r, z, n, inner, h = ctx.saved_tensors
        d_n = gradient * (1 - z) * (1 - n * n)
        d_r = d_n * inner * r * (1 - r)
        d_z = gradient * (h - n) * z * (1 - z)
        return torch.cat([d_r, d_z, d_n], dim=1), torch.cat([d_r, d_z, d_n * r], dim=1), gradient * z
