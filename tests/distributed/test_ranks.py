"""Ranks: what they do together, and that a step, a run and a validation are the same however many share them."""

import datetime
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.distributed as dist
from helpers.model_files import make_checkpoint
from helpers.rank_processes import RankProcesses
from helpers.runs import config_text, rows_without_clock
from helpers.train_steps import before_step

from nmt.checkpoints import model_file
from nmt.commands.train import begun, training_data
from nmt.config import reader
from nmt.config.schema import Config
from nmt.data.batches.batching import Batches, Budget, Order
from nmt.data.batches.packing import PackedBatch
from nmt.data.batches.padding import Batch
from nmt.data.subwords.vocabulary import BOS
from nmt.distributed import ranks as distributed
from nmt.distributed.ranks import Ranks, store_of_this_start
from nmt.errors import NmtError
from nmt.training.trainer import Trainer
from nmt.training.validation import validate

RECURRENT = "model={architecture: recurrent, embedding_size: 8, hidden_size: 16, dropout: 0}"
Arrays = dict[str, npt.NDArray[Any]]
ALONE = Ranks()
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RankProcesses]:
    processes = RankProcesses(2, tmp_path_factory.mktemp("ranks"))
    yield processes
    processes.end()


def config_of(corpus: Path, run: Path, *overrides: str) -> Config:
    return reader.parse(Config, config_text(corpus, run), "test config", overrides)


def trainer(config: Config, ranks: Ranks) -> Trainer:
    config, start = ranks.broadcast(begun(config) if ranks.first else (config, None))
    return Trainer(config, training_data(config, ranks, start), CPU, ranks)


@pytest.mark.parametrize("name", ["cpu", "cuda:0"])
def test_an_error_aborts_what_waits_for_a_rank_that_has_died(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU; gloo does not wait. What PyTorch would do is only noted."""
    done: list[object] = []
    device = torch.device(name)
    backend = SimpleNamespace(abort=lambda: done.append(device), _set_default_timeout=lambda time: done.append(time))
    group = SimpleNamespace(_get_backend=lambda where: backend if where == device else pytest.fail("another device"))
    monkeypatch.setattr(distributed, "from_environment", lambda _: (Ranks(0, 2, 0, 2), device))
    monkeypatch.setattr(distributed, "rendezvous", lambda *_, **__: iter([(None, 0, 2)]))
    monkeypatch.setattr(distributed, "store_of_this_start", lambda *_: None)
    monkeypatch.setattr(distributed, "_CAUSE_SECONDS", 0.0)
    monkeypatch.setattr(dist, "init_process_group", lambda backend, **_: done.append(backend))
    monkeypatch.setattr(dist, "destroy_process_group", lambda: done.append("destroyed"))
    monkeypatch.setattr(dist.distributed_c10d, "_get_default_group", lambda: group)
    with pytest.raises(RuntimeError, match="broke"), distributed.process_group(name):
        raise RuntimeError("a connection broke")
    waits = datetime.timedelta(seconds=100)
    assert done == (["gloo", "destroyed"] if name == "cpu" else ["cpu:gloo,cuda:nccl", waits, device, "destroyed"])


def test_pytorch_lets_the_time_of_one_backend_be_set() -> None:
    """With gloo, in the place of NCCL, which is not everywhere: the wait for a rank that never comes ends."""
    store = dist.HashStore()
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        distributed.limit_waiting(CPU)
        backend = dist.distributed_c10d._get_default_group()._get_backend(CPU)
        assert backend.options._timeout == datetime.timedelta(seconds=100)
    finally:
        dist.destroy_process_group()


@contextmanager
def float64() -> Iterator[None]:
    """Rounding far below what Adam could magnify to something that looks like a mistake: it divides the gradient
    by its own size, so a gradient of zero but for rounding, such as that of keys' biases, moves weights."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def arrays(tensors: Mapping[str, torch.Tensor]) -> Arrays:
    """Copies that go through a pipe."""
    return {name: tensor.detach().numpy().copy() for name, tensor in tensors.items()}


def assert_close(ours: Arrays, theirs: Arrays, tolerance: float) -> None:
    assert ours.keys() == theirs.keys()
    for name, array in ours.items():
        assert array.dtype == np.float64
        np.testing.assert_allclose(array, theirs[name], rtol=0, atol=tolerance, err_msg=name)


# --------------------------------------------------------------------------- Ranks


def test_alone_everything_answers_at_once() -> None:
    given = torch.tensor([1.0, 2.0])
    total = ALONE.all_reduce_sum(given)
    assert torch.equal(total, given) and total.data_ptr() != given.data_ptr()
    assert ALONE.first
    assert ALONE.broadcast("mine") == "mine"
    assert ALONE.all_gather("mine") == ["mine"]
    assert torch.equal(ALONE.broadcast_tensors({"a": given})["a"], given)
    ALONE.agree({"the settings": "any"})
    asked = iter([3])
    most = ALONE.all_reduce_max_async(lambda: next(asked))
    assert next(asked, None) == 3, "asked before its time"
    with pytest.raises(StopIteration):
        most()
    with ALONE.local_first():
        pass


def everything(ranks: Ranks) -> dict[str, Any]:
    """What each collective gives to this rank, which gives what only it has."""
    mine = torch.tensor([1.0 + ranks.rank, 10.0], dtype=torch.float64, requires_grad=True)
    tensors = {"b": torch.arange(6).reshape(2, 3), "a": torch.tensor(0.5, dtype=torch.float16)}
    most = ranks.all_reduce_max_async(lambda: [7, 9][ranks.rank])
    return {
        "first": ranks.first,
        "total": ranks.all_reduce_sum(mine).tolist(),  # while the largest is being found
        "mine after it": mine.tolist(),
        "most": most(),
        "from first": ranks.broadcast({"rank": ranks.rank}),
        "all_gather": ranks.all_gather(f"rank {ranks.rank}"),
        "tensors": {
            name: (str(tensor.dtype), tensor.tolist())
            for name, tensor in ranks.broadcast_tensors(tensors if ranks.first else {}).items()
        },
    }


def test_two_ranks_add_up_collect_and_hand_out(two_ranks: RankProcesses) -> None:
    for rank, found in enumerate(two_ranks(everything)):
        assert found == {
            "first": rank == 0,
            "total": [3.0, 20.0],
            "mine after it": [1.0 + rank, 10.0],
            "most": 9,
            "from first": {"rank": 0},
            "all_gather": ["rank 0", "rank 1"],
            "tensors": {"b": ("torch.int64", [[0, 1, 2], [3, 4, 5]]), "a": ("torch.float16", 0.5)},
        }


def what_agreeing_says(ranks: Ranks, values: list[dict[str, str]]) -> str:
    try:
        ranks.agree(values[ranks.rank])
    except NmtError as error:
        return str(error)
    return ""


def test_ranks_that_differ_all_hear_what_differs_and_where(two_ranks: RankProcesses) -> None:
    same = {"the version of nmt": "1", "the vocabulary": "v"}
    assert two_ranks(what_agreeing_says, [same, same]) == ["", ""]
    one, other = two_ranks(what_agreeing_says, [same, {**same, "the vocabulary": "w"}])
    assert one == other
    for words in ("the vocabulary", "rank 0 has v", "rank 1 has w"):
        assert words in one
    assert "version" not in one.partition(":")[0]


def go_through(ranks: Ranks, folder: Path) -> None:
    """Both at the door before the first is through; each writes down when it is inside."""

    def note(what: str) -> None:
        with (folder / "order").open("a") as file:
            file.write(f"{what} {ranks.rank}\n")

    if not ranks.first:
        (folder / "at the door").touch()
    with ranks.local_first():
        note("in")
        if ranks.first:
            wait_for(folder / "at the door")
            end = time.monotonic() + 0.3
            while time.monotonic() < end and "in 1" not in (folder / "order").read_text():
                time.sleep(0.01)
        note("out")


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.01)


def test_the_first_rank_of_a_machine_leads(two_ranks: RankProcesses, tmp_path: Path) -> None:
    two_ranks(go_through, tmp_path)
    assert (tmp_path / "order").read_text().split("\n")[:-1] == ["in 0", "out 0", "in 1", "out 1"]


def test_ranks_of_one_start_meet_where_those_before_left_their_addresses() -> None:
    """Threads are the ranks: of two, then of three, and of two again; the last comes when the others wait."""
    store = dist.HashStore()
    for size in (2, 3, 2):
        with ThreadPoolExecutor(size) as threads:
            coming = []
            for rank in range(size):
                coming.append(threads.submit(store_of_this_start, store, rank, size))
                time.sleep(0.1)
                assert rank == size - 1 or not any(one.done() for one in coming), "met a rank of the start before"
            met = [one.result(timeout=60) for one in coming]
        assert not any(theirs.check(["address"]) for theirs in met), "found what the start before had left"
        met[0].set("address", "here")
        assert all(theirs.get("address") == b"here" for theirs in met)


def test_a_rank_that_does_not_come_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it has never been there or was, at a start before."""
    monkeypatch.setattr(distributed, "_START_TIMEOUT", datetime.timedelta(seconds=0.2))
    store = dist.HashStore()
    store.set_timeout(datetime.timedelta(seconds=0.2))
    for rank in (0, 1, 0):
        with pytest.raises(NmtError, match="not all of the 2 ranks started within"):
            store_of_this_start(store, rank, 2)


# --------------------------------------------------------------------------- the gradient


def sentences_in(batch: Batch | PackedBatch) -> int:
    return len(batch.source) if isinstance(batch, Batch) else int((batch.side(1)[0] == BOS).sum())


def gradient(ranks: Ranks, config: Config, index: int) -> tuple[int, list[int], Arrays]:
    """Of step `index`: the sentences of all ranks, those of this rank's micro-batches, and the gradient found."""
    with float64():
        one_step = trainer(config, ranks)
        assert one_step.batches.skipped == 0  # or this would be another step
        one_step.train_step.prepare(one_step.batches.example())
        one_step.train_step.optimizer.zero_grad = lambda set_to_none=True: None  # type: ignore[method-assign]
        step = next(one_step.batches.epoch(0, index))
        one_step.train_step.run(step, 1, 0.01)
        found = {name: weight.grad for name, weight in one_step.model.named_parameters() if weight.grad is not None}
        return step.sentences, [sentences_in(batch) for batch in step.micro_batches], arrays(found)


@pytest.mark.parametrize(
    ("model", "packed", "method", "micro"),
    [
        ("model.dropout=0", "true", (), 100),
        ("model.dropout=0", "false", ("training.consistency=rdrop", "training.token_cutoff=0.2"), None),
        (RECURRENT, "false", ("training.consistency=simcut", "training.token_cutoff=0.2"), 100),
    ],
)
def test_the_gradient_is_that_of_one_batch_however_it_is_split(
    two_ranks: RankProcesses,
    corpus: Path,
    tmp_path: Path,
    model: str,
    packed: str,
    method: tuple[str, ...],
    micro: int | None,
) -> None:
    plain = config_of(corpus, tmp_path / "run", model, *method)
    split = config_of(corpus, tmp_path / "run", model, *method, f"training.packed={packed}",
                      f"training.micro_batch_tokens={micro or 'null'}")  # fmt: skip
    sentences, batches, whole = gradient(ALONE, plain, 0)
    assert batches == [sentences] and all(np.abs(array).max() > 0 for array in whole.values())
    _, alone, of_one = gradient(ALONE, split, 0)
    (_, first, of_first), (_, second, of_second) = two_ranks(gradient, split, 0)
    assert len(alone) > 3 if micro else len(alone) == 1
    assert len(first) == len(second) > 1 if micro else len(first) == len(second) == 1
    assert sum(first) + sum(second) == sum(alone) == sentences
    for parts in (of_one, of_first, of_second):
        assert_close(whole, parts, 1e-12)


def steps_with_nothing_for_a_rank(config: Config, micro_batches: int) -> list[int]:
    """Steps that two ranks take in this number of micro-batches, and that leave the second rank an empty one."""
    alone = trainer(config, ALONE)
    budget = Budget(config.training.batch_tokens, alone.micro_batch_tokens)
    batches = Batches(alone.data.prepared.train, budget, Order(config.seed, config.data.pool_pairs), Ranks(1, 2))
    sizes = [[len(batch.source) for batch in step.micro_batches] for step in batches.epoch(0)]
    return [i for i, parts in enumerate(sizes) if 0 in parts and len(parts) == micro_batches]


def test_a_rank_without_sentences_adds_nothing_to_the_gradient(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path
) -> None:
    some = (corpus, tmp_path / "run", "model.dropout=0", "training.batch_tokens=90")
    config, plain = config_of(*some, "training.micro_batch_tokens=30"), config_of(*some)
    index, *_ = steps_with_nothing_for_a_rank(config, micro_batches=2)
    sentences, batches, whole = gradient(ALONE, plain, index)
    (_, first, of_first), (_, second, of_second) = two_ranks(gradient, config, index)
    assert second[-1] == 0 and len(second) == 2 and batches == [sentences]
    assert sum(first) + sum(second) == sentences
    assert_close(whole, of_first, 1e-12)
    assert_close(whole, of_second, 1e-12)


# --------------------------------------------------------------------------- a run

TWENTY = ("training.max_steps=20", "training.validation_bleu=false", "training.log_every=1")


def run_of(ranks: Ranks, config: Config) -> tuple[int, int, Arrays]:
    """A run in float64: its steps, its target tokens and its weights."""
    with float64():
        ended = trainer(config, ranks)
        ended.run()
        whole = ended.train_step.unsharded_model()
        return ended.progress.step, ended.progress.target_tokens, arrays(model_file.weights_of(whole))


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("model.dropout=0", ("packed=true", "sharded=true")),
        pytest.param("model.dropout=0", ("micro_batch_tokens=100",), marks=pytest.mark.thorough),
        pytest.param(RECURRENT, ("sharded=true",), marks=pytest.mark.thorough),
    ],
)
def test_two_ranks_give_the_weights_of_one(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path, model: str, settings: tuple[str, ...]
) -> None:
    folder = tmp_path / "one"
    steps, tokens, weights = run_of(ALONE, config_of(corpus, folder, model, *TWENTY))
    overrides = [model, *(f"training.{setting}" for setting in settings)]
    answers = two_ranks(run_of, config_of(corpus, tmp_path / "run", *TWENTY, *overrides))
    for their_steps, their_tokens, their_weights in answers:
        assert (their_steps, their_tokens) == (steps, tokens) == (20, tokens)
        assert_close(weights, their_weights, 1e-9)
    ours, theirs = rows_without_clock(folder), rows_without_clock(tmp_path / "run")
    assert [row["step"] for row in ours] == [row["step"] for row in theirs]
    for row, other in zip(ours, theirs, strict=True):
        assert row.keys() == other.keys()
        for key in row.keys() - {"padding"}:  # micro-batches hold less of it
            assert row[key] == pytest.approx(other[key], rel=1e-9), (row["step"], key)


def test_a_run_that_starts_from_a_model_with_frozen_layers_is_that_of_one_rank(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path
) -> None:
    few = (*TWENTY, "training.max_steps=6", "model.dropout=0", "model.layers=2")
    model_file.save(tmp_path / "model", make_checkpoint(config_of(corpus, tmp_path, *few)))
    some = (*few, "vocabulary.relearn=true", "vocabulary.size=290", f"training.start_from={tmp_path / 'model'}",
            "training.freeze=[encoder.0, decoder.1.self_attention, embeddings]")  # fmt: skip
    _, _, weights = run_of(ALONE, config_of(corpus, tmp_path / "one", *some))
    first = model_file.load(model_file.checkpoint_path(tmp_path / "one", 0)).weights
    stay = {name for name, weight in first.items() if np.array_equal(weight.numpy(), weights[name])}
    assert stay == {name for name in first if "encoder.0" in name or "decoder.1.self_attention." in name
                    or "embedding" in name}  # fmt: skip
    for _, _, theirs in two_ranks(run_of, config_of(corpus, tmp_path / "two", *some, "training.sharded=true")):
        assert_close(weights, theirs, 1e-9)
        assert all(np.array_equal(first[name].numpy(), theirs[name]) for name in stay)
    ours, theirs_ = rows_without_clock(tmp_path / "one"), rows_without_clock(tmp_path / "two")
    assert ours[0]["step"] == theirs_[0]["step"] == 0
    assert ours[0]["validation_loss"] == pytest.approx(theirs_[0]["validation_loss"], rel=1e-12)


def stopped_run(ranks: Ranks, config: Config) -> tuple[int, int]:
    """The second rank alone is sent SIGTERM, in its third step: what all agreed on, and where this one stopped."""
    stopped = trainer(config, ranks)
    if ranks.rank == 1:
        before_step(stopped, 3, lambda: os.kill(os.getpid(), signal.SIGTERM))
    return stopped.run().agreed, stopped.progress.step


def test_a_signal_to_one_rank_stops_all_at_one_step(two_ranks: RankProcesses, corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, tmp_path / "run", "training.max_steps=1000", "training.validation_bleu=false")
    (agreed, step), other = two_ranks(stopped_run, config)
    assert other == (agreed, step) == (signal.SIGTERM, step)
    assert step in (3, 4)  # what a rank was asked during a step is agreed on in the next
    assert max((tmp_path / "run" / "state").glob("step-*")).name == f"step-{step:08d}.safetensors"


def run_out_of_time(ranks: Ranks, config: Config) -> tuple[str, int]:
    """The second rank alone is out of time, from the start."""
    deadline = 0.0 if ranks.rank == 1 else float("inf")
    stopped = Trainer(config, training_data(config, ranks), CPU, ranks, deadline=deadline)
    return stopped.run().reason, stopped.progress.step


def test_a_rank_whose_time_is_up_stops_all(two_ranks: RankProcesses, corpus: Path, tmp_path: Path) -> None:
    config = config_of(corpus, tmp_path / "run", "training.max_steps=1000", "training.validation_bleu=false")
    assert two_ranks(run_out_of_time, config) == [("training.max_seconds reached", 1)] * 2
    assert [path.name for path in (tmp_path / "run" / "state").glob("step-*")] == ["step-00000001.safetensors"]


def what_starting_says(ranks: Ranks, folders: list[Path], run: Path, *overrides: str) -> str:
    """Of a run on files that are called the same on every rank, each in a folder of its own."""
    before = Path.cwd()
    os.chdir(folders[ranks.rank])
    try:
        trainer(config_of(Path(), run, *overrides), ranks).run()
    except NmtError as error:
        return str(error)
    finally:
        os.chdir(before)
    return ""


@pytest.mark.parametrize("what", ["the vocabulary", "the training data"])
def test_ranks_that_were_given_something_else_do_not_start(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path, what: str
) -> None:
    other = shutil.copytree(corpus, tmp_path / "other")
    run, overrides = tmp_path / "run", []
    text, times = (other / "train.de").read_text(), 1 if what == "the training data" else -1
    (other / "train.de").write_text(text.replace("eins", "uno", times))
    if what == "the training data":
        trainer(config_of(corpus, run), ALONE)  # learns a vocabulary for both
        overrides = [f"vocabulary.source_model={next(corpus.glob('store/vocabulary-*/*.model'))}"]
    said = two_ranks(what_starting_says, [corpus, other], run, *overrides)
    assert said[0] == said[1]
    assert f"the ranks do not agree on {what}: rank 0 has " in said[0] and ", rank 1 has " in said[0]
    assert not list((run / "state").glob("step-*")) and not (run / "config.yaml").exists()


# --------------------------------------------------------------------------- validation


def validation_of(ranks: Ranks, config: Config, model: Path) -> tuple[dict[str, float], list[tuple[str, str, str]]]:
    validating = trainer(config, ranks)
    model_file.load_weights(validating.model, model_file.load(model).weights)
    found = validate(validating.train_step, validating.validation, validating.data.translate_validation)
    return found.scores, [sample for of_set in found.translated for sample in of_set.samples]


@pytest.mark.parametrize(("sentences", "sets"), [(19, 1), (1, 2)])
def test_two_ranks_validate_as_one_does(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path, trained_run: Path, sentences: int, sets: int
) -> None:
    several = [f"training.validation_sentences={sentences}", "training.validation_samples=20"]
    if sets == 2:
        files = "{{source: {0}/{1}.en, target: {0}/{1}.de, name: {1}}}"
        both = ", ".join(files.format(corpus, name) for name in ("validation", "train"))
        several += [f"data.validation=[{both}]", "data.validation_in_training=warn"]
    config = config_of(corpus, tmp_path / "run", *several)
    scores, samples = validation_of(ALONE, config, trained_run / model_file.BEST)
    assert len(samples) == sentences * sets and scores["chrf"] > 0
    for their_scores, their_samples in two_ranks(validation_of, config, trained_run / model_file.BEST):
        assert their_samples == samples
        assert (their_scores["bleu"], their_scores["chrf"]) == (scores["bleu"], scores["chrf"])
        assert their_scores["validation_loss"] == pytest.approx(scores["validation_loss"], rel=1e-6)
