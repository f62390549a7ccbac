"""A whole step as a CUDA graph, with a stand-in for the graph: it records the operations of a step on a CPU, and later
repeats each of them with the same memory and the same numbers."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from helpers.reads import Reads
from helpers.train_steps import make_train_step
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from nmt.config.schema import Config
from nmt.data.batches.batching import Step
from nmt.data.batches.packing import PackedBatch, pack
from nmt.data.batches.token_cutoff import CutTokens
from nmt.data.subwords.vocabulary import EOS
from nmt.training import cuda_graph
from nmt.training.cuda_graph import RecordedStep
from nmt.training.train_step import TrainStep

MakeConfig = Callable[..., Config]
LENGTH, LONGEST, CORPORA = 64, 8, 2


class Graph(TorchDispatchMode):
    """In place of torch.cuda.CUDAGraph."""

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.replays = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = function(*args, **(kwargs or {}))
        self.operations.append((function, args, kwargs or {}, out))
        return out

    def replay(self) -> None:
        self.replays += 1
        if self.replays == 1:  # done while recording
            return
        with torch.no_grad():
            for function, args, kwargs, out in self.operations:
                for there, new in zip(tensors(out), tensors(function(*args, **kwargs)), strict=True):
                    if there.untyped_storage().data_ptr() != new.untyped_storage().data_ptr():
                        there.copy_(new)


def tensors(out: Any) -> list[Tensor]:
    return [x for x in (out if isinstance(out, tuple | list) else [out]) if isinstance(x, Tensor)]


class Stream:
    def wait_stream(self, _: "Stream") -> None:
        pass


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    made: list[Graph] = []

    def new() -> Graph:
        made.append(Graph())
        return made[-1]

    @contextmanager
    def recording(graph: Graph, **_: object) -> Iterator[None]:
        with Reads() as counted, graph:
            yield
        assert counted.reads == [] and counted.others > 100  # a recording cannot read a number

    monkeypatch.setattr(torch.cuda, "CUDAGraph", new)
    monkeypatch.setattr(torch.cuda, "graph", recording)
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: Stream())
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    return made


def make_step(number: int, *, cuts: bool = False, length: int = LENGTH) -> Step:
    """A packed micro-batch. The number of its tokens differs between steps."""
    random = np.random.default_rng(number)
    sizes = random.integers(1, LONGEST, (2, random.integers(3, 8)))
    source, target = ([np.append(random.integers(4, 300, size), EOS) for size in side] for side in sizes)
    corpora = random.integers(CORPORA, size=len(source))
    cut = [random.random((1, sum(map(len, side)))) < 0.2 for side in (source, target)]
    batch = pack(source, target, length, LONGEST, corpora, CutTokens(*cut) if cuts else None)
    counts = [sum(map(len, side)) for side in (source, target)]
    return Step([batch], len(source), *counts, 2 * length)


def made(config: Config, *, recorded: bool) -> TrainStep:
    of = make_train_step(config)
    of.objective.corpora, of.losses = CORPORA, torch.zeros(1 + CORPORA, dtype=torch.float64)
    if recorded:
        (example,) = make_step(0, cuts=bool(config.training.cutoff)).micro_batches
        assert isinstance(example, PackedBatch)
        of.recorded = RecordedStep(of._learn_batch, example, of.model, of.optimizer)
    return of


def values(of: TrainStep) -> dict[str, Tensor]:
    """All that a step changes."""
    found = {f"model.{name}": weight.detach() for name, weight in of.model.named_parameters()}
    if of.average is not None:
        found |= {f"average.{name}": weight.detach() for name, weight in of.average.named_parameters()}
    for name, weight in of.model.named_parameters():
        found |= {f"{key}.{name}": tensor for key, tensor in of.optimizer.state[weight].items()}
    return found


@pytest.mark.parametrize(
    ("overrides", "tolerance"),
    [
        (("training.weight_decay=0.1", "training.ema_decay=0.9"), 1e-5),
        (("training.optimizer=muon", "training.weight_decay=0.1", "training.clip_norm=0.5"), 1e-5),
        (("training.optimizer=muon", "training.token_cutoff=0.2", "model.output_bias=true"), 1e-5),
        (("training.freeze=[encoder]", "training.precision=bfloat16"), 0.02),
    ],
    ids=["adam", "clipped", "cut", "frozen"],
)
def test_replayed_steps_are_plain_ones(
    make_config: MakeConfig, graphs: list[Graph], overrides: tuple[str, ...], tolerance: float
) -> None:
    """Steps of different numbers of tokens, with different rates and masks of dropout. One step has another shape."""
    dropout = "model.dropout=0.1", "model.attention_dropout=0.1"
    # Adam's epsilon: some biases have no gradient but rounding errors.
    config = make_config("training.packed=true", "training.adam_epsilon=1e-4", *dropout, *overrides)
    plain, recorded = made(config, recorded=False), made(config, recorded=True)
    for number in range(1, 16):
        step = make_step(number, cuts=bool(config.training.cutoff), length=128 if number == 8 else LENGTH)
        for of in (plain, recorded):
            assert of.run(step, number, 0.001 * number, norm=True)
        assert plain.gradient_norm is not None and recorded.gradient_norm is not None
        torch.testing.assert_close(recorded.gradient_norm, plain.gradient_norm, rtol=tolerance, atol=0)
    assert [graph.replays for graph in graphs] == [15 - 3 - 1]
    torch.testing.assert_close(recorded.losses, plain.losses, rtol=tolerance / 10, atol=0)
    got, expected = values(recorded), values(plain)
    assert got.keys() == expected.keys()
    errors = {name: float((got[name] - x).norm() / x.norm().clamp(min=1e-4)) for name, x in expected.items()}
    assert max(errors.values()) < tolerance, max(errors.items(), key=lambda item: item[1])


def test_where_recording_fails_steps_go_on(
    make_config: MakeConfig, graphs: list[Graph], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """With the stream and the random numbers of the training, and with graphs of the passes."""

    @contextmanager
    def fails(*_: object, **__: object) -> Iterator[None]:
        try:
            yield
        finally:
            raise RuntimeError("the recording is invalid")

    class Random:
        def clone_state(self) -> str:
            return "not recording"

        def graphsafe_set_state(self, state: str) -> None:
            done.append(state)

    done: list[object] = []
    monkeypatch.setattr(torch.cuda, "graph", fails)
    monkeypatch.setattr(torch.cuda, "set_stream", lambda stream: done.append(type(stream)))
    monkeypatch.setattr(torch.cuda, "default_generators", {None: Random()})
    monkeypatch.setattr(cuda_graph, "record", lambda *_: done.append("passes"))
    config = make_config("training.packed=true", "training.optimizer=muon")
    plain, recorded = made(config, recorded=False), made(config, recorded=True)
    assert recorded.recorded is not None
    learn, calls = recorded.recorded._learn, 0

    def learn_unless_recording(*arguments: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise RuntimeError("an operation that cannot be recorded")
        return learn(*arguments)

    recorded.recorded._learn = learn_unless_recording
    for number in range(1, 8):
        for of in (plain, recorded):
            assert of.run(make_step(number), number, 0.01)
    assert calls == 5 and recorded.recorded is None and done == [Stream, "not recording", "passes"]
    torch.testing.assert_close(recorded.losses, plain.losses, rtol=1e-6, atol=0)
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "recording its passes instead (an operation that cannot be recorded)" in warning
