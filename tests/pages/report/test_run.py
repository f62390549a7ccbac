"""What a report gathers from runs' folders: from real ones, unfinished ones, and damaged ones."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.runs import config_text, rows_of

from nmt.checkpoints import model_file
from nmt.commands.train import training_data
from nmt.config import reader, schema, writer
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.pages.report.run import Run, gather
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]


@pytest.fixture(scope="module")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was stopped by its time limit after its first step, and went on to its end."""
    run = tmp_path_factory.mktemp("reported") / "run"
    config = reader.parse(Config, config_text(corpus, run), "test config", ["training.validation_samples=2"])
    for deadline in (0.0, float("inf")):
        Trainer(config, training_data(config), torch.device("cpu"), deadline=deadline).run()
    return run


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


def report(folder: Path) -> Run:
    (one,) = gather([folder])
    return one


def test_a_finished_run(trained: Path) -> None:
    found, metrics = report(trained), rows_of(trained / "metrics.jsonl")
    assert (found.name, found.notes) == ("run", [])
    assert found.config == schema.load(trained / "config.yaml")
    logged = [row for row in metrics if "loss" in row]
    assert found.training.step == [row["step"] for row in logged] == [4, 8, 12, 16, 20]
    measured = {
        "loss", "nll", "learning_rate", "gradient_norm", "target_tokens_per_second", "tflops", "padding", "data_wait",
    }  # fmt: skip
    assert found.training.values.keys() == measured
    for name in measured:
        assert found.training.values[name] == [pytest.approx(row[name], rel=1e-5) for row in logged]
    assert found.validation.values["bleu"] == [pytest.approx(row["bleu"], rel=1e-5) for row in metrics if "bleu" in row]
    assert found.totals == {key: logged[-1][key] for key in ("step", "epoch", "target_tokens", "seconds")}
    best = model_file.load_provenance(trained / model_file.BEST)
    assert found.best | {"signatures": best["signatures"]} == best
    form = "; texts compared in NFC with single spaces, without invisible characters"
    assert found.best["signatures"] == {name: text + form for name, text in best["signatures"].items()}
    assert set(best["signatures"]) == {"bleu", "chrf"}


def test_the_report_on_the_data_is_recorded(run: Path) -> None:
    recorded = report(run).data
    assert recorded is not None and recorded.counts[0].read == 300
    (run / "sessions.jsonl").unlink()
    assert report(run).data is None


def test_a_run_that_has_only_begun(make_config: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(writer.to_yaml(make_config()))
    found = report(tmp_path)
    assert (found.training.step, found.samples, found.sessions, found.best, found.totals) == ([], {}, [], {}, {})
    assert (found.data, found.evaluations, found.notes) == (None, [], [])


def test_damaged_model_files_and_evaluations_are_left_out_and_said(run: Path) -> None:
    (run / model_file.BEST).write_bytes(b"cut")
    (run / "evaluation-a.json").write_text("[]")
    (run / "evaluation-b.json").write_text('{"scores": [{"name": "BLEU"}]}')
    (run / "evaluation-c.json").write_text("[" * 100_000)
    found = report(run)
    assert (found.best, found.evaluations) == ({}, [])
    best, *evaluations = found.notes
    assert best.startswith(f"{run / model_file.BEST}: not a model file")
    printed = "not an output of `nmt evaluate --format json`: not shown"
    assert evaluations == [f"{run}/evaluation-{name}.json: {printed}" for name in "abc"]


def test_what_is_no_run_is_refused(run: Path, tmp_path: Path) -> None:
    for wrong, what in ((tmp_path / "missing", "no such folder"), (run / "best.safetensors", "a file, not a folder")):
        with pytest.raises(NmtError, match=rf"{wrong}: {what}: give a run folder"):
            gather([run, wrong])
    with pytest.raises(NmtError, match=r"checkpoints: has no config\.yaml, .*: give a run folder"):
        gather([run, run / "checkpoints"])
    with pytest.raises(NmtError, match="given twice: give each run once"):
        gather([run, run / ".." / "run"])
    (run / "config.yaml").write_text("run_dir: 1\n")
    with pytest.raises(NmtError, match=r"config\.yaml: "):
        gather([run])
