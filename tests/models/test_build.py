"""Models from settings: what is built without memory has the same weights, quickly, whatever the settings."""

import time

import pytest
import torch

from nmt.config.schema import TransformerConfig
from nmt.errors import NmtError
from nmt.models import build

SMALL = {"d_model": 16, "feed_forward": 24, "layers": 2, "heads": 2}


@pytest.mark.parametrize(
    "changes",
    [{}, {"tie": "none"}, {"tie": "target", "key_size": 6}, {"positions": "learned"}, {"norm": "pre"}],
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


@pytest.mark.parametrize(
    "sizes",
    [
        {"layers": 1000, "d_model": 32_000},
        {"d_model": 1_000_000, "feed_forward": 1_000_000, "heads": 1, "positions": "learned"},
    ],
    ids=str,
)
def test_a_model_on_meta_is_built_quickly(sizes: dict[str, int]) -> None:
    build.build_on_meta(TransformerConfig(), 8, 8, 0)  # whatever is imported once
    start = time.process_time()
    assert build.build_on_meta(TransformerConfig(**sizes), 10**7, 10**7, 0).parameter_counts()["total"] > 10**12  # type: ignore[arg-type]
    assert time.process_time() - start < 20


def test_matrices_that_no_integer_can_count_are_an_error() -> None:
    with pytest.raises(NmtError, match=r"no machine can hold: lower the widths in the model settings"):
        build.build_on_meta(
            TransformerConfig(d_model=1_000_000, heads=1_000_000, key_size=1_000_000, value_size=1_000_000), 8, 8, 0
        )


def test_the_same_seed_makes_the_same_model() -> None:
    made = []
    for _ in range(2):
        torch.manual_seed(3)
        made.append(build.build(TransformerConfig(**SMALL), 30, 30, 0))  # type: ignore[arg-type]
    assert all(map(torch.equal, *(model.parameters() for model in made)))
