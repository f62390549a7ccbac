"""Beam search in steps of fixed shapes, as in CUDA graphs: it finds what the plain search finds."""

import dataclasses
import weakref
from contextlib import nullcontext
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest
import torch
from helpers.late_reads import read_late
from helpers.reads import OtherTensors, Reads
from helpers.tables import OPTIONS, FixedTable, Table, assert_equal, changed
from helpers.translators import CPU, LINES, new_model, new_translator

from nmt.decoding.search.search import search
from nmt.decoding.search.step_graphs import StepGraphs, size_for, tensors_in, with_tensors


@pytest.mark.parametrize(("beam_size", "n_best"), [(1, 1), (3, 1), (4, 4)])
def test_hypotheses_are_the_same(beam_size: int, n_best: int) -> None:
    """One memory is used for batches of many sizes, whose sentences end at many lengths."""
    graphs = StepGraphs(CPU)
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        sentences = int(torch.randint(1, 70, (1,), generator=generator))
        limits = torch.randint(0, 20, (sentences,), generator=generator)
        options = changed(OPTIONS, beam_size=beam_size, n_best=n_best, length_penalty=0.3 * seed)
        table = Table(seed, 20, spread=3.0)
        fixed = FixedTable(table)
        arguments = torch.arange(sentences)[:, None], limits, options
        assert_equal(search(fixed, *arguments, graphs=graphs), search(table, *arguments), rounding=1e-5)
        assert all(size_for(size) == size for size in fixed.steps)
        assert sentences < 20 or len(set(fixed.steps)) > 2, "finished sentences did not leave"


def test_sizes() -> None:
    assert [size_for(n) for n in (0, 1, 2, 3, 8, 129, 257, 1000, 1025)] == [0, 1, 2, 4, 8, 256, 320, 1024, 1280]
    assert all(n <= size_for(n) == size_for(size_for(n)) <= (2 * n if n < 256 else 1.25 * n + 1) for n in range(5000))


class Replay:
    """Stands in for a CUDA graph: it repeats a step with the tensors that the step had when it was recorded."""

    def __init__(self, graphs: StepGraphs, step: Any, state: Any):
        self.graphs, self.step, self.state, self.count = graphs, step, state, 0
        copied = with_tensors(state, iter([x.clone() for x in tensors_in(state)]))
        self.results = step(copied)[1]

    def replay(self) -> None:
        self.count += 1
        for old, new in zip(self.results, self.graphs._in_place(self.step, self.state), strict=True):
            old.copy_(new)


def record(graphs: StepGraphs, step: Any, state: Any) -> tuple[Replay, Any]:
    replay = Replay(graphs, step, state)
    return replay, replay.results


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("positions", ["interleaved", "learned", "rotary"])
def test_translations_are_the_same(beam_size: int, positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = new_model(dataclasses.replace(new_model().config, positions=positions, max_positions=40))
    settings = {"beam_size": beam_size, "max_extra_tokens": 30}
    lines = [line for line in LINES * 3 if len(new_translator(model).vocabulary.source.encode([line])[0]) < 38]
    expected = new_translator(model, **settings).hypotheses(lines)
    read_late(monkeypatch)
    translator = new_translator(model, **settings)
    graphs = translator.engine._graphs = StepGraphs(CPU)
    graphs._records = True
    monkeypatch.setattr(StepGraphs, "_record", record)
    for found in (translator.hypotheses(lines), translator.hypotheses(lines)):
        assert [one.pieces for [one] in found] == [one.pieces for [one] in expected]
        for [mine], [other] in zip(found, expected, strict=True):
            assert mine.token_scores == pytest.approx(other.token_scores, abs=1e-4)
    replays = [recorded[0].count for recorded in graphs._graphs.values() if recorded]
    assert len(replays) > 3 and sum(replays) > 20


def test_translation_goes_on_without_graphs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("a kernel cannot be compiled")

    monkeypatch.setattr(StepGraphs, "run", fails)
    translator, expected = new_translator(), new_translator().translate(LINES)
    translator.engine._graphs = StepGraphs(CPU)
    assert translator.translate(LINES) == translator.translate(LINES) == expected
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "a kernel cannot be compiled" in warning


class Graph:
    """Stands in for torch.cuda.CUDAGraph: a pool cannot be used again after its last graph."""

    alive: ClassVar = weakref.WeakSet[Any]()
    recorded = 0

    def capture_begin(self, pool: object, capture_error_mode: str) -> None:
        assert not Graph.recorded or Graph.alive, "use_count > 0 INTERNAL ASSERT FAILED"
        Graph.alive.add(self)
        Graph.recorded += 1

    def capture_end(self) -> None:
        pass

    def replay(self) -> None:
        pass


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> StepGraphs:
    """Graphs that are recorded with stand-ins for PyTorch's functions."""
    for name in ("current_stream", "Stream", "graph_pool_handle", "empty_cache", "set_stream", "default_generators"):
        monkeypatch.setattr(torch.cuda, name, MagicMock())
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(Graph, "recorded", 0)
    graphs = StepGraphs(CPU)
    graphs._records = True
    return graphs


def test_graphs_are_recorded_after_the_memory_has_grown(graphs: StepGraphs) -> None:
    for size in (10, 10_000):
        for _ in range(2):
            graphs.run(lambda state: (state, ()), (torch.zeros(size),))
    assert Graph.recorded == 2 and graphs._records


def test_steps_that_cannot_be_recorded_run_without_graphs(graphs: StepGraphs, caplog: pytest.LogCaptureFixture) -> None:
    calls = 0

    def step(state: tuple[torch.Tensor]) -> tuple[tuple[torch.Tensor], tuple[()]]:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise RuntimeError("an operation that cannot be recorded")
        return (state[0] + 1,), ()

    state = (torch.zeros(4),)
    for _ in range(4):
        state, _ = graphs.run(step, state)
    assert state[0].tolist() == [4.0] * 4 and Graph.recorded == 1
    (warning,) = [record.getMessage() for record in caplog.records]
    assert "an operation that cannot be recorded" in warning


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_step_reads_no_number(beam_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither inside a step, which a CUDA graph could not do, nor between two steps."""
    read_late(monkeypatch)
    options = changed(OPTIONS, beam_size=beam_size)
    reads_before_step = list[int]()
    run = StepGraphs.run

    def counted_run(*given: Any) -> Any:
        reads_before_step.append(len(counted.reads))
        return run(*given)

    monkeypatch.setattr(StepGraphs, "run", counted_run)
    source, limits = torch.randint(4, 300, (8, 6)), torch.full((8,), 20)
    with torch.inference_mode(), Reads() as counted:
        search(new_model(), source, limits, options, graphs=StepGraphs(CPU))
    assert len(reads_before_step) > 10 and len(set(reads_before_step)) == 1


@pytest.mark.parametrize("positions", ["interleaved", "learned", "rotary"])
def test_a_step_reads_its_state_and_the_weights_only(positions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read_late(monkeypatch)
    model = new_model(dataclasses.replace(new_model().config, positions=positions, max_positions=40))
    in_place, found = StepGraphs._in_place, list[list[str]]()

    def watched(graphs: StepGraphs, step: Any, state: Any) -> Any:
        with OtherTensors(*tensors_in(state), *model.parameters()) as others:
            results = in_place(graphs, step, state)
        found.append(others.found)
        return results

    monkeypatch.setattr(StepGraphs, "_in_place", watched)
    with torch.inference_mode():
        search(model, torch.randint(4, 300, (8, 6)), torch.full((8,), 5), OPTIONS, graphs=StepGraphs(CPU))
    assert len(found) > 2 and not any(found)
