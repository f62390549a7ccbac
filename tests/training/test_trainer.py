"""The loop: resumed = uninterrupted, micro-batches = one batch, and nothing lost when it goes wrong."""

import os
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.runs import config_text, rows_of, rows_without_clock
from helpers.train_steps import before_step

from nmt.checkpoints import model_file
from nmt.commands.train import train, training_data
from nmt.config import reader, schema
from nmt.config.schema import Config
from nmt.data.batches.packing import PackedBatch
from nmt.data.batches.padding import Batch
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files import tensors as tensor_file
from nmt.training import state, train_step
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
SECONDS = 180  # of a test: most train a run, some several
pytestmark = pytest.mark.usefixtures("time_limit")


def trainer(config: Config) -> Trainer:
    return Trainer(config, training_data(config), torch.device("cpu"))


@pytest.fixture(scope="module")
def whole_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 20 steps that nothing interrupted; not to be changed."""
    run = tmp_path_factory.mktemp("whole") / "run"
    torch.set_num_threads(1)
    trainer(reader.parse(Config, config_text(corpus, run), "test config")).run()
    return run


def newest_state(run: Path) -> dict[str, torch.Tensor]:
    tensors, _ = tensor_file.read(max((run / "state").glob("*.safetensors")))
    return {name: tensor.clone() for name, tensor in tensors.items()}  # no longer the file's memory


def assert_same_run(one: Path, other: Path) -> None:
    first, second = newest_state(one), newest_state(other)
    assert first.keys() == second.keys()
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
    assert rows_without_clock(one) == rows_without_clock(other)
    assert (one / "samples.jsonl").read_bytes() == (other / "samples.jsonl").read_bytes() != b""
    assert [path.name for path in model_file.checkpoints(one)] == [path.name for path in model_file.checkpoints(other)]
    for path in model_file.checkpoints(one):
        weights = model_file.load(other / "checkpoints" / path.name).weights
        assert all(torch.equal(weight, weights[name]) for name, weight in model_file.load(path).weights.items())


def test_a_mix_of_corpora_tells_the_share_and_the_loss_of_each(
    make_config: MakeConfig, corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    files = f"source: {corpus}/train.en, target: {corpus}/train.de"
    other = f"source: {corpus}/validation.en, target: {corpus}/validation.de"
    corpora = f"data.train=[{{{files}, weight: 9}}, {{{other}, weight: 1}}]"
    some = (corpora, "training.log_every=10", "data.validation_in_training=warn")
    ended = trainer(make_config(*some))
    ended.run()
    *_, line = [record.getMessage() for record in caplog.records if "training so far" in record.msg]
    rows = [row for row in rows_of(tmp_path / "run" / "metrics.jsonl") if "corpora" in row]
    assert len(rows) == 2
    for row in rows:
        large, small = row["corpora"]
        assert large["share"] + small["share"] == pytest.approx(1) and 0.8 < large["share"] < 0.98
        assert min(large["nll"], small["nll"]) <= row["nll"] <= max(large["nll"], small["nll"])
    total = ended.progress.pair_counts
    (share, passes, nll), (other_share, other_passes, other_nll) = re.findall(
        r"([0-9.]+)%, ([0-9.]+) passes, nll ([0-9.]+)", line
    )
    assert (share, other_share) == tuple(f"{100 * given / sum(total):.1f}" for given in total)
    assert (passes, other_passes) == (f"{total[0] / 300:.2f}", f"{total[1] / 20:.2f}")
    assert (nll, other_nll) == tuple(f"{one['nll']:.3f}" for one in rows[-1]["corpora"])
    assert [one["passes"] for one in rows[-1]["corpora"]] == [round(total[0] / 300, 4), round(total[1] / 20, 4)]


def stop_at(trainer: Trainer, step: int, number: signal.Signals) -> None:
    """Send this process a signal in the middle of a step."""
    before_step(trainer, step, lambda: os.kill(os.getpid(), number))


VARIED = (
    "training.optimizer=muon", "vocabulary.bpe_dropout=0.2", "vocabulary.bpe_dropout_samples=2", "training.packed=true",
    "training.precision=bfloat16", "model.attention_dropout=0.1",
)  # fmt: skip


@pytest.mark.parametrize(("number", "changes"), [(signal.SIGINT, ()), (signal.SIGTERM, VARIED)])
def test_interrupted_and_resumed_run_equals_an_uninterrupted_one(
    make_config: MakeConfig, tmp_path: Path, whole_run: Path, number: signal.Signals, changes: tuple[str, ...]
) -> None:
    if changes:
        whole_run = tmp_path / "whole"
        trainer(make_config(f"run_dir={whole_run}", *changes)).run()
    parts = make_config(f"run_dir={tmp_path / 'parts'}", *changes)
    for step in (3, 10, 14):  # between saves, at a validation, within a later epoch
        interrupted = trainer(parts)
        stop_at(interrupted, step, number)
        assert interrupted.run().agreed == number
        assert interrupted.progress.step == step
    assert not trainer(parts).run().agreed
    assert_same_run(whole_run, tmp_path / "parts")
    rows = rows_of(tmp_path / "parts" / "sessions.jsonl")
    assert [row["step"] for row in rows] == [0, 3, 3, 10, 10, 14, 14, 20]
    assert [row["event"] for row in rows] == ["started", "stopped"] * 3 + ["started", "finished"]
    assert [row["reason"] for row in rows if row["event"] != "started"] == [number.name] * 3 + [
        "training.max_steps: 20 reached"
    ]


def test_checkpoints_of_a_course_that_was_given_up_neither_count_nor_are_lost(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the checkpoint of a step was written and before its state, and resumed with other settings."""
    some = ("training.keep_last=1", "training.keep_best=0", "training.validation_bleu=false")
    write = state.write

    def write_or_die(run: Path, saved: state.Snapshot) -> None:
        if saved.step == 10:
            raise NmtError("killed")
        write(run, saved)

    monkeypatch.setattr(state, "write", write_or_die)
    with pytest.raises(NmtError, match="killed"):
        trainer(make_config(*some, "training.checkpoint_every=5", "training.validate_every=5")).run()
    run = tmp_path / "run"
    assert model_file.load_provenance(run / model_file.BEST)["step"] == 10  # and the state is of step 5
    trainer(
        make_config(*some, "training.checkpoint_every=3", "training.validate_every=9", "training.max_steps=9",
                    "training.warmup_steps=2", "training.learning_rate=0.0001")
    ).run()  # fmt: skip
    assert [path.name for path in model_file.checkpoints(run)] == ["step-00000009.safetensors"]
    assert [path.name for path in model_file.checkpoints(run / "before-1")] == ["step-00000010.safetensors"]
    assert model_file.load_provenance(run / model_file.BEST)["step"] in (5, 9)


def test_a_finished_run_does_nothing_and_a_longer_one_goes_on(
    make_config: MakeConfig, tmp_path: Path, whole_run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "nmt")
    trainer(make_config("training.max_steps=10")).run()
    trainer(make_config("training.max_steps=10")).run()
    assert "nothing to do" in caplog.messages[-1] and "past training.max_steps" not in caplog.text
    trainer(make_config("training.max_steps=4")).run()
    assert f"{tmp_path / 'run'} is at step 10, past training.max_steps: 4: raise it to train more" in caplog.text
    trainer(make_config()).run()
    assert_same_run(whole_run, tmp_path / "run")


def test_what_cannot_change_is_refused_and_settings_before_anything_is_built(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    here = f"data.store_dir={tmp_path / 'store'}"
    train(make_config(here, "training.max_steps=5", "training.validation_bleu=false"), "cpu")
    before = sorted((tmp_path / "store").rglob("*"))
    said = "data.max_length: 256 in the saved run, 8 now): restore data.max_length=256, or set a new run_dir"
    with pytest.raises(NmtError, match=re.escape(said)):
        train(make_config(here, "data.max_length=8"), "cpu")
    assert sorted((tmp_path / "store").rglob("*")) == before
    with pytest.raises(NmtError, match=r"other training data .*restore training\.micro_batch_tokens=null"):
        trainer(make_config(here, "training.micro_batch_tokens=12")).run()
    with pytest.raises(NmtError, match=r"a run with padded batches, .* packed ones .*: set training\.packed=null, or"):
        trainer(make_config(here, "training.packed=true")).run()


@pytest.mark.parametrize("packed", [False, True])
def test_a_run_keeps_its_kind_of_batches_on_another_device(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, packed: bool
) -> None:
    """The default, `null`, is another kind on another device."""
    some = ("training.max_steps=2", "training.validation_bleu=false")
    trainer(make_config(*some, f"training.packed={packed}")).run()
    monkeypatch.setattr(
        train_step, "packs", lambda _, setting, *__, **___: (not packed) if setting is None else setting
    )
    resumed = trainer(make_config(*some, "training.max_steps=4"))
    resumed.run()
    assert resumed.progress.step == 4 and resumed.batches.example().__class__ is (PackedBatch if packed else Batch)


@pytest.mark.parametrize(("micro", "packed"), [(40, "false"), (128, "true")])
def test_the_gradient_of_micro_batches_is_that_of_one_batch(
    make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch, micro: int, packed: str
) -> None:
    def gradients(*overrides: str) -> dict[str, torch.Tensor]:
        one_step = trainer(make_config("model.dropout=0", *overrides))
        monkeypatch.setattr(one_step.train_step.optimizer, "zero_grad", lambda set_to_none: None)
        step = next(one_step.batches.epoch(0))
        assert (len(step.micro_batches) > 1) == (len(overrides) > 1)
        one_step.train_step.run(step, 1, 0.01)
        return {name: weight.grad for name, weight in one_step.model.named_parameters() if weight.grad is not None}

    whole = gradients(f"training.packed={packed}")
    parts = gradients(f"training.packed={packed}", f"training.micro_batch_tokens={micro}")
    assert whole.keys() == parts.keys()
    for name, gradient in whole.items():
        torch.testing.assert_close(parts[name], gradient, rtol=1e-4, atol=1e-6)


def test_a_loss_that_is_no_number_stops_and_leaves_the_last_checkpoint(make_config: MakeConfig, tmp_path: Path) -> None:
    trainer(make_config("training.max_steps=5")).run()
    saved = model_file.checkpoint_path(tmp_path / "run", 5)
    before = saved.read_bytes()
    exploding = trainer(make_config("training.learning_rate=1e30", "training.schedule=constant"))
    with pytest.raises(
        NmtError, match=r"no longer a number at step .*step-00000005.*learning_rate.*resumes from the last save"
    ):
        exploding.run()
    assert saved.read_bytes() == before
    assert [path.name for path in (tmp_path / "run" / "state").glob("step-*")] == ["step-00000005.safetensors"]


def test_weights_that_the_last_update_broke_are_not_saved(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = trainer(make_config("training.max_steps=5"))
    step = broken.train_step.optimizer.step

    def step_and_break() -> None:
        step()
        if broken.progress.step == 5:
            broken.model.target_embedding.weight.data[0, 0] = torch.nan

    monkeypatch.setattr(broken.train_step.optimizer, "step", step_and_break)
    with pytest.raises(NmtError, match="no longer a number at step 5; no checkpoint") as raised:
        broken.run()
    assert "last save" not in str(raised.value)
    assert list((tmp_path / "run").glob("**/step-*")) == []


def test_best_starts_anew_where_scores_do_not_compare(make_config: MakeConfig, corpus: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(corpus, tmp_path / "changing")
    here = f"data.validation={{source: {folder}/validation.en, target: {folder}/validation.de}}"
    by_bleu = (here, "training.best_metric=bleu", "training.keep_last=3", "training.keep_best=1")
    trainer(make_config(*by_bleu, "training.max_steps=10")).run()
    unchanged = trainer(make_config(*by_bleu, "training.max_steps=10"))
    assert state.restore(tmp_path / "run", unchanged.identity, unchanged.train_step, Ranks()).best is not None
    for name in ("validation.en", "validation.de"):
        (folder / name).write_text((folder / name).read_text().partition("\n")[2], encoding="utf-8")
    second = trainer(make_config(*by_bleu, "training.learning_rate=1e-30"))
    second.run()
    assert second.progress.best.step == 20
    assert [path.name for path in model_file.best(tmp_path / "run", 5)] == ["step-00000020.safetensors"]


def test_patience_stops_training(make_config: MakeConfig, tmp_path: Path) -> None:
    config = make_config(  # nothing is learned at this rate, so no validation beats the first
        "training.learning_rate=1e-30",
        "training.validate_every=3",
        "training.patience=2",
        "training.max_steps=1000",
        "training.validation_bleu=false",
    )
    ended = trainer(config)
    ended.run()
    assert ended.progress.step == 9  # validations at 3, 6, 9: the first is the best
    again = trainer(config)
    again.run()
    assert again.progress.step == 9


def test_max_epochs_stops_at_the_end_of_an_epoch_to_which_its_last_step_belongs(
    make_config: MakeConfig, tmp_path: Path
) -> None:
    ended = trainer(
        make_config("training.max_epochs=2", "training.log_every=1", "training.max_steps=1000", "data.validation=null")
    )
    ended.run()
    assert (ended.progress.position.epoch, ended.progress.position.step_in_epoch) == (2, 0)
    steps = ended.batches.steps_in_epoch(0)
    assert ended.progress.step == 2 * steps
    logged = rows_of(tmp_path / "run" / "metrics.jsonl")
    assert [row["epoch"] for row in logged] == [1] * steps + [2] * (len(logged) - steps)


def test_rows_of_metrics_hold_what_was_trained_on(make_config: MakeConfig, whole_run: Path) -> None:
    config = make_config(f"run_dir={whole_run}")
    ended = trainer(config)
    ended.run()
    rows = rows_without_clock(whole_run)
    logged = [row for row in rows if "loss" in row]
    assert [row["step"] for row in logged] == [4, 8, 12, 16, 20]
    assert {"epoch", "nll", "learning_rate", "target_tokens", "padding"} <= logged[0].keys()
    assert logged[-1]["target_tokens"] == ended.progress.target_tokens
    steps = ended.batches.epoch(0)
    assert logged[0]["target_tokens"] == sum(next(steps).target_tokens for _ in range(4))
    assert logged[-1]["loss"] < logged[0]["loss"]
    validated = [row for row in rows if "validation_loss" in row]
    assert [row["step"] for row in validated] == [10, 20]
    assert {"bleu", "chrf"} <= validated[0].keys()
    assert schema.load(whole_run / "config.yaml") == config


@pytest.mark.parametrize(("steps", "reason"), [(1, ""), (2, "training.max_seconds reached")])
def test_a_run_that_is_done_was_not_stopped(make_config: MakeConfig, tmp_path: Path, steps: int, reason: str) -> None:
    """Asked to stop in its last step, it has nothing to go on with."""
    config = make_config(f"training.max_steps={steps}", "training.validation_bleu=false")
    ended = Trainer(config, training_data(config), torch.device("cpu"), deadline=0.0).run()
    assert ended.reason == reason
    assert rows_of(tmp_path / "run" / "sessions.jsonl")[-1]["event"] == ("stopped" if reason else "finished")


def test_pairs_longer_than_a_batch_are_counted_and_said(
    make_config: MakeConfig, caplog: pytest.LogCaptureFixture
) -> None:
    short = trainer(make_config("training.batch_tokens=16", "training.max_steps=2", "training.validation_bleu=false"))
    lengths = zip(short.data.prepared.train.source.lengths, short.data.prepared.train.target.lengths, strict=True)
    skipped = sum(1 for pair in lengths if max(pair) > 16)
    assert skipped > 0
    with caplog.at_level("INFO", logger="nmt"):
        short.run()
    assert f"{skipped:,} pairs longer than 16 tokens skipped (data.over_budget)" in caplog.text
    warned = "data.over_budget" in " ".join(one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    assert warned == (skipped > 0.05 * len(short.data.prepared.train))
    with pytest.raises(NmtError, match=r"training\.batch_tokens: 16.*data\.over_budget"):
        trainer(make_config("training.batch_tokens=16", "data.over_budget=error", "run_dir=other"))


def test_no_validation_pair_is_left_out_of_the_loss(make_config: MakeConfig) -> None:
    whole, tight = (
        trainer(make_config(f"training.batch_tokens={size}", "training.max_steps=1", "training.validation_bleu=false"))
        for size in (512, 12)
    )
    assert whole.validation and tight.validation
    assert max(max(whole.data.prepared.train.source.lengths), max(whole.data.prepared.train.target.lengths)) > 12
    for [(_, batches)] in (whole.validation, tight.validation):
        assert sum(step.sentences for step in batches.epoch(0)) == 20
