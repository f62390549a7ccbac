"""Mixed precision by autocast, as training.precision: float16 and training.sharded use it, on CPUs."""

import pytest
import torch

from nmt.config.schema import RecurrentConfig
from nmt.data.vocabulary import BOS, EOS, PAD
from nmt.models.recurrent.model import RecurrentModel

SOURCE = torch.tensor([[5, 6, 7, EOS], [8, EOS, PAD, PAD]])
TARGET = torch.tensor([[BOS, 9, 10], [BOS, 11, PAD]])


@pytest.mark.parametrize(
    ("cell", "input_feeding", "dtype"), [("lstm", True, torch.bfloat16), ("gru", False, torch.float16)], ids=str
)
def test_states_and_gradients_are_nearly_those_of_float32(cell: str, input_feeding: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    config = RecurrentConfig(cell=cell, embedding_size=8, hidden_size=8, input_feeding=input_feeding, dropout=0.0)  # type: ignore[arg-type]
    model, found = RecurrentModel(config, 12, 12, PAD), []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", dtype, enabled=enabled):
            states = model(SOURCE, TARGET)
        assert isinstance(states, torch.Tensor)
        states.float().square().sum().backward()
        gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
        found.append((states.float().detach(), torch.cat(gradients).clone()))
    for plain, mixed in zip(*found, strict=True):
        assert float((mixed - plain).norm() / plain.norm()) < 0.02


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_in_long_sources_predicted_centres_are_near_a_position(dtype: torch.dtype) -> None:
    """Above 256 bfloat16 has even numbers only: a rounded centre can be further than the window from all positions."""
    torch.manual_seed(1)
    config = RecurrentConfig(embedding_size=8, hidden_size=8, attention_span="local-p", attention_window=1, dropout=0.0)
    model = RecurrentModel(config, 12, 12, PAD).eval()
    attention = model.decoder.attention
    assert attention is not None
    attention.place_energy.data *= 1000  # the centres are at the source's end
    model.to(dtype)
    for length in range(257, 265):
        weights = model.alignment(torch.randint(4, 12, (1, length)), TARGET[:1])
        assert weights.isfinite().all()
