"""The weights of every head, against the fused attention that the model itself runs, which keeps none."""

from typing import Any

import pytest
import torch
from helpers.transformers import VARIANTS, decoder_input, make, sentences
from torch import Tensor

from nmt.models.transformer.attention import MultiHeadAttention

SOURCES, TARGETS = [6, 3], [5, 4]


@pytest.mark.parametrize("changes", VARIANTS[:5], ids=str)
def test_weights_times_values_are_what_fused_attention_gives(
    changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In each layer of a run of the model; sentences differ in length, so there is padding."""
    model = make(**changes).eval()
    source, target = sentences(SOURCES), decoder_input(TARGETS)
    with torch.no_grad():
        found = model.attention_weights(source, target)
    calls: list[tuple[MultiHeadAttention, Tensor, Tensor]] = []
    fused = MultiHeadAttention.attend

    def attend(
        self: MultiHeadAttention,
        query: Tensor,
        keys_values: tuple[Tensor, Tensor],
        mask: Any = None,
        causal: bool = False,
    ) -> Tensor:
        result = fused(self, query, keys_values, mask, causal)
        calls.append((self, keys_values[1], result))
        return result

    monkeypatch.setattr(MultiHeadAttention, "attend", attend)
    with torch.no_grad():
        model(source, target)
    of_decoder = [weights for pair in zip(found.decoder, found.cross, strict=True) for weights in pair]
    assert len(found.encoder) == len(model.encoder) and len(found.cross) == len(model.decoder)
    for weights, (attention, values, result) in zip([*found.encoder, *of_decoder], calls, strict=True):
        joined = (weights @ values).transpose(1, 2).flatten(2)
        torch.testing.assert_close(attention.output(joined), result, rtol=1e-10, atol=1e-10)
