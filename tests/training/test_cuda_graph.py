"""Passes as CUDA graphs, with a stand-in for them that does without a GPU what a graph does there: it reads its inputs,
and writes its results, always in the same memory."""

import weakref
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.train_steps import make_train_step
from torch import Tensor

from nmt.config.schema import Config, TrainingConfig, TransformerConfig
from nmt.data.batches.packing import PackedBatch, pack
from nmt.data.subwords.vocabulary import EOS, PAD
from nmt.models import build
from nmt.training import cuda_graph, train_step
from nmt.training.objective import Objective

V = 23
SIZES = TransformerConfig(d_model=16, feed_forward=24, layers=1, heads=2, dropout=0.1)


def graphed(
    states: Callable[..., Tensor], inputs: tuple[Tensor, ...], allow_unused_input: bool
) -> Callable[..., Tensor]:
    """In place of torch.cuda.make_graphed_callables."""
    trained = [x for x in inputs if x.requires_grad]
    gradients = [torch.full_like(x, torch.nan) for x in trained]
    recorded = states(*inputs)
    torch.autograd.grad(recorded.sum(), trained, allow_unused=allow_unused_input)

    class Graphed(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *given: Tensor) -> Tensor:
            inputs[0].copy_(given[0])
            assert recorded.grad_fn is None  # otherwise gradients are summed on the stream of the recording
            assert all(x.data_ptr() == there.data_ptr() for x, there in zip(given[1:], inputs[1:], strict=True))
            with torch.enable_grad():
                ctx.output = states(*inputs)
            return ctx.output.detach()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
            found = torch.autograd.grad(ctx.output, trained, gradient, allow_unused=allow_unused_input)
            for there, new in zip(gradients, found, strict=True):
                if new is not None:
                    there.copy_(new)
            of_trained = iter(g if new is None else g.detach() for g, new in zip(gradients, found, strict=True))
            return tuple(next(of_trained) if x.requires_grad else None for x in inputs)

    return Graphed.apply


@pytest.fixture(autouse=True)
def no_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _: None)


def batches(length: int = 24) -> list[PackedBatch]:
    random = np.random.default_rng(1)
    rows = [
        [np.append(random.integers(4, V, size), EOS) for size in sizes] for sizes in ((3, 5), (6, 2), (4, 4), (1, 7))
    ]
    return [pack(source, target, length, 8) for source, target in (rows[:2], rows[2:])]


def made(**settings: Any) -> Objective:
    torch.manual_seed(0)
    return Objective(build.build(replace(SIZES, **settings), V, V, PAD), TrainingConfig(consistency="rdrop"))


def gradients(objective: Objective, of: list[PackedBatch]) -> dict[str, Tensor]:
    """Summed over the micro-batches, with the same dropout each time."""
    objective.train().zero_grad()
    torch.manual_seed(7)
    for batch in of:
        objective(batch)[0].backward()
    return {name: weight.grad.clone() for name, weight in objective.named_parameters() if weight.grad is not None}


def test_recorded_passes_have_the_gradients_of_plain_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphed)
    plain, recorded = made(tie="none"), made(tie="none")
    for objective in (plain, recorded):
        objective.model.output_weight.requires_grad_(False)  # frozen
    assert cuda_graph.record(recorded, batches()[1])
    for of in (batches(), batches(32)):  # the second is of another shape
        expected, got = gradients(plain, of), gradients(recorded, of)
        assert got.keys() == expected.keys()
        assert all(torch.equal(got[name], expected[name]) for name in expected)
    torch.testing.assert_close(recorded.eval()(batches()[0]), plain.eval()(batches()[0]))  # without dropout


@pytest.mark.parametrize("fault", [False, True])
def test_where_passes_cannot_be_recorded_training_goes_on_without(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: bool
) -> None:
    """The warning gives the first error. After a device fault nothing can go on."""

    def fails(*_: object, **__: object) -> None:
        try:
            raise RuntimeError("an illegal memory access" if fault else "an operation that cannot be recorded")
        finally:
            raise RuntimeError("the recording is invalid")

    done: list[object] = []
    random = SimpleNamespace(clone_state=lambda: "not recording", graphsafe_set_state=done.append)
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", fails)
    monkeypatch.setattr(torch.cuda, "set_stream", done.append)
    monkeypatch.setattr(torch.cuda, "default_generators", {None: random})
    objective = made()
    with pytest.raises(RuntimeError, match="invalid") if fault else nullcontext():
        assert not cuda_graph.record(objective, batches()[1])
    assert objective.recorded is None and done == ([] if fault else [None, "not recording"])
    assert ("continuing without it (an operation that cannot be recorded)" in caplog.text) == (not fault)


def test_a_table_that_is_replaced_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph reads it at its address. A longer sentence in validation replaces it."""
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", graphed)
    objective = made()
    assert cuda_graph.record(objective, batches()[1])
    (table,) = map(weakref.ref, objective.model.buffers())
    objective.model.source_positions(0, 2000)  # type: ignore[operator]
    assert table() is not None and len(next(objective.model.buffers())) == 4000


@pytest.mark.parametrize(
    ("setting", "length", "sharded", "expected"),
    [
        ("compile=null", 8192, False, ["step"]),
        ("compile=null", 8320, False, ["passes"]),
        ("compile=null", 1 << 23, False, ["compiled", "passes"]),
        ("compile=null", 1280, True, ["compiled"]),
        ("compile=false", 1 << 23, False, ["passes"]),
        ("compile=true", 1280, False, ["compiled", "step"]),
        ("batch_tokens=1281", 1280, False, ["passes"]),
        ("precision=float16", 1280, False, ["passes"]),
        ("consistency=rdrop", 1280, False, ["passes"]),
        ("activation_checkpointing=true", 1280, False, ["compiled"]),
    ],
)
def test_large_passes_are_compiled_and_small_steps_are_recorded_as_a_whole(
    make_config: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
    setting: str,
    length: int,
    sharded: bool,
    expected: list[str],
) -> None:
    done = []
    monkeypatch.setattr(train_step, "compile_layers", lambda *_, **__: done.append("compiled"))
    monkeypatch.setattr(cuda_graph, "record", lambda *_: done.append("passes"))
    monkeypatch.setattr(cuda_graph, "RecordedStep", lambda *_: done.append("step"))
    monkeypatch.setattr(PackedBatch, "to", lambda batch, _: batch)
    of = make_train_step(make_config("training.packed=true", f"training.{setting}"))
    of.device, of.sharded = torch.device("cuda"), sharded
    of.prepare(PackedBatch(torch.empty((12, length), device="meta"), 5, 5))
    assert done == expected


def test_a_step_of_several_ranks_is_not_one_graph(
    make_config: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its gradients are summed over the ranks outside of graphs."""
    done = []
    monkeypatch.setattr(cuda_graph, "record", lambda *_: done.append("passes"))
    monkeypatch.setattr(cuda_graph, "RecordedStep", lambda *_: done.append("step"))
    monkeypatch.setattr(train_step, "data_parallel", lambda *_: done.append("ranks"))
    monkeypatch.setattr(PackedBatch, "to", lambda batch, _: batch)
    of = make_train_step(make_config("training.packed=true"))
    of.device, of.ranks = torch.device("cuda"), SimpleNamespace(size=2, local_size=2, barrier=lambda: None)  # type: ignore
    of.prepare(PackedBatch(torch.empty((12, 1280), device="meta"), 5, 5))
    assert done == ["passes", "ranks"] and of.recorded is None
