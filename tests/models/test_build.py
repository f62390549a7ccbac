"""Models from settings: what is built without memory has the same weights."""

import pytest
import torch

from nmt.config.schema import TransformerConfig
from nmt.models import build

SMALL = {"d_model": 16, "feed_forward": 24, "layers": 2, "heads": 2}


@pytest.mark.parametrize(
    "changes",
    [{}, {"tie": "target", "key_size": 6}, {"positions": "learned"}],
    ids=str,
)
def test_a_model_on_meta_has_the_same_weights_and_draws_no_random_numbers(changes: dict[str, object]) -> None:
    config = TransformerConfig(**SMALL | changes)  # type: ignore[arg-type]
    generator = torch.get_rng_state()
    meta = build.build_on_meta(config, 30, 20 if config.tie != "all" else 30, 0)
    assert torch.equal(torch.get_rng_state(), generator)
    made = build.build(config, 30, 20 if config.tie != "all" else 30, 0)
    shapes = [{name: weight.shape for name, weight in model.named_parameters()} for model in (meta, made)]
    assert shapes[0] == shapes[1]
    assert meta.parameter_counts() == made.parameter_counts()
    assert all(weight.is_meta for weight in meta.parameters())


def test_a_model_on_meta_takes_no_memory() -> None:
    huge = TransformerConfig(d_model=1_000_000, feed_forward=1_000_000, heads=1, positions="learned")
    assert build.build_on_meta(huge, 10**7, 10**7, 0).parameter_counts()["total"] > 10**12
