"""The size of batches: what a device can hold, and widths that a model has positions for."""

import dataclasses

import pytest
import torch
from helpers.translators import CPU, LINES, MODEL, new_model, new_translator

from nmt.config import schema
from nmt.decoding.engine import PyTorchEngine
from nmt.models import build


def engine_on_cuda(patch: pytest.MonkeyPatch, free: float, models: int = 1) -> PyTorchEngine:
    """Base models with 32,000 subwords on a GPU with `free` GiB of memory, an eighth of it kept by PyTorch."""
    patch.setattr(torch.cuda, "mem_get_info", lambda device: (int(free * 7 / 8 * 2**30), 2**40))
    patch.setattr(torch.cuda, "memory_reserved", lambda device: int(free / 4 * 2**30))
    patch.setattr(torch.cuda, "memory_allocated", lambda device: int(free / 8 * 2**30))
    each = [build.build_on_meta(schema.TransformerConfig(), 32_000, 32_000, 0).bfloat16() for _ in range(models)]
    return PyTorchEngine(each, torch.device("cuda"))


def test_auto_is_what_half_of_the_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PyTorchEngine([MODEL], CPU).auto_batch_tokens == 16_000
    small, twice, large, two = (
        engine_on_cuda(monkeypatch, free, models).auto_batch_tokens
        for free, models in ((4, 1), (8, 1), (140, 1), (8, 2))
    )
    assert 15_000 < small < 40_000
    assert twice == pytest.approx(2 * small, abs=1)
    assert large == 128_000
    assert small < two < twice, "two models need more, but not twice the scores"
    assert engine_on_cuda(monkeypatch, 0.0).auto_batch_tokens == 1


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_batch_is_not_wider_than_the_learned_positions(beam_size: int) -> None:
    """Narrow batches are filled up for speed, but not past the last position."""
    sizes = dataclasses.replace(MODEL.config, positions="learned", max_positions=12)
    translator = new_translator(new_model(sizes), beam_size=beam_size)
    assert len(translator.translate(LINES[:4])) == 4
