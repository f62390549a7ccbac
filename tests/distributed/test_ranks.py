"""Ranks: what they do together, and that a step, a run and a validation are the same however many share them."""

import os
import signal
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.distributed as dist
from helpers.rank_processes import RankProcesses
from helpers.runs import config_text, rows_without_clock
from helpers.train_steps import before_step

from nmt.checkpoints import model_file
from nmt.commands.train import training_data, with_initial_model
from nmt.config import reader
from nmt.config.schema import Config
from nmt.data.batches.packing import PackedBatch
from nmt.data.batches.padding import Batch
from nmt.data.subwords.vocabulary import BOS
from nmt.decoding.confidence import CALIBRATION
from nmt.distributed.ranks import Ranks, store_of_this_start
from nmt.errors import NmtError
from nmt.training import precision, sharding
from nmt.training.trainer import Trainer
from nmt.training.validation import Validation, validate

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
    config, start = ranks.broadcast(with_initial_model(config) if ranks.first else (config, None))
    return Trainer(config, training_data(config, ranks, start), CPU, ranks)


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


def chosen_precision(ranks: Ranks, config: Config, fastest: list[str]) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "fastest_precision", lambda _: fastest[ranks.rank])
        return precision.with_chosen_precision(config, CPU, ranks).training.precision


def test_ranks_train_in_the_format_that_suits_all_their_devices(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path
) -> None:
    config = config_of(corpus, tmp_path / "run")
    assert two_ranks(chosen_precision, config, ["bfloat16", "bfloat16"]) == ["bfloat16"] * 2
    for mixed in (["bfloat16", "float32"], ["float32", "bfloat16"]):
        assert two_ranks(chosen_precision, config, mixed) == ["float32"] * 2


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
        found = dict[str, torch.Tensor]()
        for name, weight in one_step.model.named_parameters():
            if weight.grad is not None:
                found[name] = sharding.gather(weight.grad)
        return step.sentences, [sentences_in(batch) for batch in step.micro_batches], arrays(found)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("model.dropout=0", ("packed=true", "consistency=simcut", "token_cutoff=0.2")),
        (RECURRENT, ("packed=false", "consistency=simcut", "token_cutoff=0.2")),
    ],
)
def test_the_gradient_is_that_of_one_batch_however_it_is_split(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path, model: str, settings: tuple[str, ...]
) -> None:
    some = (model, *(f"training.{setting}" for setting in settings))
    plain = config_of(corpus, tmp_path / "run", *some)
    split = config_of(corpus, tmp_path / "run", *some, "training.micro_batch_tokens=100")
    sentences, batches, whole = gradient(ALONE, plain, 0)
    assert batches == [sentences] and all(np.abs(array).max() > 0 for array in whole.values())
    _, alone, of_one = gradient(ALONE, split, 0)
    (_, first, of_first), (_, second, of_second) = two_ranks(gradient, split, 0)
    assert len(alone) > 3 and len(first) == len(second) > 1
    assert sum(first) + sum(second) == sum(alone) == sentences
    for parts in (of_one, of_first, of_second):
        assert_close(whole, parts, 1e-12)


@pytest.mark.parametrize("settings", [("freeze=[embeddings]",), ("sharded=true", "clip_norm=0.01")])
def test_a_gradient_summed_in_bfloat16_is_that_of_one_rank_but_for_rounding(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path, settings: tuple[str, ...]
) -> None:
    plain = ("model.dropout=0", "model.tie=none", *(f"training.{one}" for one in settings))
    split = (*plain, "training.micro_batch_tokens=100", "training.gradient_precision=bfloat16")
    _, _, whole = gradient(ALONE, config_of(corpus, tmp_path / "run", *plain), 0)
    (_, batches, of_first), (_, _, of_second) = two_ranks(gradient, config_of(corpus, tmp_path / "run", *split), 0)
    assert len(batches) > 1 and of_first.keys() == of_second.keys() == whole.keys()
    for name, array in whole.items():
        assert np.array_equal(of_first[name], of_second[name]), name
        error = np.linalg.norm(of_first[name] - array) / np.linalg.norm(array)
        assert 2**-12 < error < 2**-6, name  # about 2^-9: numbers are rounded before and after they are added


# --------------------------------------------------------------------------- a run

TWENTY = ("training.max_steps=20", "training.validation_bleu=false", "training.log_every=1")


def run_of(ranks: Ranks, config: Config) -> tuple[int, int, Arrays]:
    """A run in float64: its steps, its target tokens and its weights."""
    with float64():
        ended = trainer(config, ranks)
        ended.run()
        whole = ended.train_step.unsharded_model()
        return ended.progress.step, ended.progress.target_tokens, arrays(model_file.weights_of(whole))


def test_two_ranks_give_the_weights_of_one(two_ranks: RankProcesses, corpus: Path, tmp_path: Path) -> None:
    exact = ("model.dropout=0", "training.packed=true")
    steps, tokens, weights = run_of(ALONE, config_of(corpus, tmp_path / "one", *TWENTY, *exact))
    sharded = (*exact, "training.sharded=true")
    for their_steps, their_tokens, their_weights in two_ranks(
        run_of, config_of(corpus, tmp_path / "two", *TWENTY, *sharded)
    ):
        assert (their_steps, their_tokens) == (steps, tokens) == (20, tokens)
        assert_close(weights, their_weights, 1e-9)
    for row, other in zip(rows_without_clock(tmp_path / "one"), rows_without_clock(tmp_path / "two"), strict=True):
        assert row.keys() == other.keys()
        for key in row.keys() - {"padding"}:  # micro-batches hold less of it
            assert row[key] == pytest.approx(other[key], rel=1e-9), (row["step"], key)


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


# --------------------------------------------------------------------------- validation


def validation_of(ranks: Ranks, config: Config, model: Path) -> tuple[dict[str, float], Validation]:
    validating = trainer(config, ranks)
    model_file.load_weights(validating.model, model_file.load(model).weights)
    found = validate(validating.train_step, validating.validation, validating.data.translate_validation)
    return found.scores, found


def test_two_ranks_validate_as_one_does(
    two_ranks: RankProcesses, corpus: Path, tmp_path: Path, trained_run: Path
) -> None:
    held_out = f"data.validation={{source: {corpus}/train.en, target: {corpus}/train.de}}"
    settings = ("training.validation_sentences=201", "training.validation_samples=300")
    config = config_of(corpus, tmp_path / "run", *settings, held_out, "data.validation_in_training=warn")
    scores, alone = validation_of(ALONE, config, trained_run / model_file.BEST)
    assert len(alone.translated[0].samples) == 201 == alone.calibration[CALIBRATION]["sentences"]
    assert scores["chrf"] > 0
    for their_scores, theirs in two_ranks(validation_of, config, trained_run / model_file.BEST):
        assert theirs.translated[0].samples == alone.translated[0].samples
        assert theirs.calibration[CALIBRATION]["weights"] == pytest.approx(
            alone.calibration[CALIBRATION]["weights"], rel=1e-3
        )
        assert (their_scores["bleu"], their_scores["chrf"]) == (scores["bleu"], scores["chrf"])
        assert their_scores["validation_loss"] == pytest.approx(scores["validation_loss"], rel=1e-6)
