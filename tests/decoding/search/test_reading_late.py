"""On a GPU a search reads its results one step late: it finds the same. No step waits."""

import dataclasses
from typing import Any

import pytest
import torch
from helpers.late_reads import read_late
from helpers.reads import Reads
from helpers.tables import OPTIONS, Table, changed
from helpers.translators import LINES, new_model, new_translator

from nmt.decoding.search.search import search
from nmt.models.transformer import cache


class Counting(Table):
    """A table without positions after the longest output."""

    longest = 0

    def step(self, state, tokens):  # type: ignore[no-untyped-def]
        assert state.tokens.shape[2] <= self.longest, "a step past the longest output"
        return super().step(state, tokens)


@pytest.mark.parametrize(("beam_size", "method"), [(1, "beam"), (4, "beam"), (2, "sample")])
def test_outputs_are_the_same(beam_size: int, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = torch.arange(40)[:, None]
    for seed in range(5):
        limits = torch.randint(0, 9, (40,), generator=torch.Generator().manual_seed(seed))
        options = changed(OPTIONS, beam_size=beam_size, n_best=beam_size, method=method)
        arguments = (source, limits, options, (), list(range(40)))
        at_once, late = Counting(seed, 9), Counting(seed, 9)
        at_once.longest = late.longest = int(limits.max())
        expected = search(at_once, *arguments)
        with monkeypatch.context() as patch:
            read_late(patch)
            assert search(late, *arguments) == expected
        assert len(at_once.steps) <= len(late.steps) <= len(at_once.steps) + 1
        assert late.steps[1:-1] != at_once.steps[1:-1], "sentences left as early as on the CPU"


@pytest.mark.parametrize(("beam_size", "positions"), [(1, "interleaved"), (4, "learned")])
def test_translations_are_the_same(beam_size: int, positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also at the last learned position; and slots are used again, with a count that is one step old."""
    model = new_model()
    model = new_model(dataclasses.replace(model.config, positions=positions, max_positions=24))
    settings = {"beam_size": beam_size, "max_extra_tokens": 40}
    lines = [line for line in LINES if len(new_translator(model).vocabulary.source.encode([line])[0]) < 23]
    expected = new_translator(model, **settings).hypotheses(lines)
    grown: list[int] = []
    with monkeypatch.context() as patch:
        read_late(patch)
        grow = cache.KeysBySlot.grow
        patch.setattr(cache.KeysBySlot, "grow", lambda pool, more: grown.append(more) or grow(pool, more))
        found = new_translator(model, **settings).hypotheses(lines)
    assert [one.pieces for [one] in found] == [one.pieces for [one] in expected]
    for [mine], [other] in zip(found, expected, strict=True):
        assert mine.token_scores == pytest.approx(other.token_scores, abs=1e-4)
    assert sum(grown) < 16 * 2 * 64


@pytest.mark.parametrize("beam_size", [1, 4])
def test_no_step_reads_a_number(beam_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    read_late(monkeypatch)
    model, reads_before_step = new_model(), list[int]()
    step = model.step

    def counted_step(*given: Any) -> Any:
        reads_before_step.append(len(counted.reads))
        return step(*given)

    monkeypatch.setattr(model, "step", counted_step)
    options = changed(OPTIONS, beam_size=beam_size, scores=False)
    with torch.inference_mode(), Reads() as counted:
        search(model, torch.randint(4, 300, (8, 6)), torch.full((8,), 20), options)
    assert len(reads_before_step) > 10 and len(set(reads_before_step)) == 1
