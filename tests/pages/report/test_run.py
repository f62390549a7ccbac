"""What a report gathers from runs' folders: from real ones, unfinished ones, and damaged ones."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.runs import config_text, rows_of

from nmt.checkpoints import model_file
from nmt.commands.train import training_data
from nmt.config import reader, schema, writer
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.pages.report import page
from nmt.pages.report.run import Run, Session, gather
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


def test_its_sessions_and_samples(trained: Path, corpus: Path) -> None:
    found = report(trained)
    first, second = found.sessions
    assert (first.step, first.last_step, first.outcome) == (0, 1, "stopped: training.max_seconds reached")
    assert (second.step, second.last_step, second.outcome) == (1, 20, "finished: training.max_steps: 20 reached")
    assert first.facts["torch"] == torch.__version__ and first.facts["parameters"]["total"] > 0
    sides = [(corpus / f"validation.{side}").read_text(encoding="utf-8").split("\n")[:2] for side in ("en", "de")]
    assert list(found.samples) == list(zip(*sides, strict=True))
    assert [[step for step, _ in translations] for translations in found.samples.values()] == [[10, 20]] * 2


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


def test_a_run_whose_metrics_are_gone(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """How far it came is known from its models, of which the best may be older than the newest."""
    for name in ("metrics.jsonl", "sessions.jsonl"):
        (run / name).unlink()
    missing = f"{run / 'metrics.jsonl'}: missing, although models were saved: there are no learning curves"
    found = report(run)
    assert (found.totals, found.notes) == ({"step": 20}, [missing])
    assert missing in caplog.text
    summary = {row["label"]: row["cells"] for row in page.to_data([found])["summary"]}
    assert (summary["state"], summary["steps"]) == (["finished: training.max_steps reached"], ["20 of 20"])


def test_a_session_without_an_end(run: Path) -> None:
    """In training, or killed; and a start after that."""
    started, *_ = (run / "sessions.jsonl").read_text(encoding="utf-8").split("\n")
    (run / "sessions.jsonl").write_text(f"{started}\n{started}\n", encoding="utf-8")
    assert [(session.ended, session.last_step) for session in report(run).sessions] == [(None, None)] * 2


def test_damaged_lines_are_left_out_and_said(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    metrics = run / "metrics.jsonl"
    whole = report(run)
    lines = metrics.read_bytes().split(b"\n")
    damaged = [lines[0], b'{"step": 5, "lo', b"\xff\xfe", b'{"loss": 5}', b"[1]", *lines[1:-1], b'{"step": 99, "los']
    metrics.write_bytes(b"\n".join(damaged))
    found = report(run)
    assert (found.training, found.validation) == (whole.training, whole.validation)  # the last is still being written
    said = f"{metrics}: 4 lines are damaged, the first is line 2: not shown"
    assert found.notes == [said]
    assert said in caplog.text
    metrics.write_bytes(b"\n".join([*lines[:2], b"", *lines[2:]]))
    assert report(run).notes == [f"{metrics}: line 3 is damaged: not shown"]


def test_rows_with_other_values_are_left_out_and_said(run: Path) -> None:
    started: dict[str, Any] = {"event": "started", "step": 0, "time": "t", "cores": 2}
    damaged = [
        started | wrong for wrong in ({"parameters": 5}, {"skipped_pairs": "many"}, {"start_from": {"file": "f"}})
    ]
    sample = {"step": 5, "source": "s", "reference": "r", "translation": "t"}
    files = {"sessions.jsonl": [started, *damaged], "samples.jsonl": [sample, {"step": 5}, sample | {"step": 6}]}
    for name, rows in files.items():
        (run / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    best = model_file.load(run / model_file.BEST)
    for wrong in ({"step": "many"}, {"bleu": "high"}, {"signatures": 1}):
        model_file.save(run / model_file.BEST, replace(best, provenance={**best.provenance, **wrong}))
        found = report(run)
        assert found.best == {} and sorted(found.notes)[0].startswith(
            f"{run / model_file.BEST}: its provenance is damaged ("
        )
    assert found.sessions == [Session("t", 0, {"cores": 2})]
    assert found.samples == {("s", "r"): [(5, "t"), (6, "t")]}
    _, samples, sessions = sorted(found.notes)
    ending = "rows have values that `nmt train` does not write: not shown"
    assert samples == f"{run / 'samples.jsonl'}: 1 {ending}" and sessions == f"{run / 'sessions.jsonl'}: 3 {ending}"
    assert page.to_data([found])["environment"][-1] == {"label": "cores", "cells": ["2"], "differs": False}


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


def test_a_record_of_the_data_that_cannot_be_shown(run: Path) -> None:
    first, *_ = rows_of(run / "sessions.jsonl")
    no_sides = [{"source": {}, "target": {}}]
    for wrong in ({"labels": [5]}, {"languages": "x"}, {"counts": no_sides}):
        (run / "sessions.jsonl").write_text(json.dumps(first | {"data": first["data"] | wrong}) + "\n")
        found = report(run)
        assert found.data is None and len(found.sessions) == 1
        (said,) = found.notes
        assert said.startswith(f"{run}: the data report cannot be read (")
        assert page.page([found])


SIGNED = "s; texts compared raw"


def test_evaluations_of_both_forms(run: Path) -> None:
    common = {"system": "it", "interval": None, "compared": "raw"}
    plain = [common | {"name": "BLEU", "value": 35.5, "signature": "s"}]
    plain.append(common | {"name": "chrF", "value": 60, "signature": "t"})
    (run / "evaluation-2016.json").write_text(json.dumps(plain))
    interval = {"mean": 35.4, "half_width": 1.25, "samples": 1000, "seed": "1"}
    detailed = [
        {**plain[0], "system": "this", "interval": interval},
        {**plain[0], "system": "another", "interval": None},
    ]
    (run / "evaluation-2017.json").write_text(json.dumps({"scores": detailed, "lengths": []}))
    first, second, third = report(run).evaluations
    assert (first.name, first.scores) == (
        "evaluation-2016",
        [("BLEU", 35.5, None, SIGNED), ("chrF", 60.0, None, "t; texts compared raw")],
    )
    assert (second.name, second.scores) == ("evaluation-2017", [("BLEU", 35.5, 1.25, SIGNED)])
    assert (third.name, third.scores) == ("evaluation-2017", [("BLEU", 35.5, None, SIGNED)])
    assert (first.system, second.system, third.system) == ("it", "this", "another")


def test_names_tell_runs_apart(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "elsewhere" / "run"))
    assert [one.name for one in gather([run])] == ["run"]
    assert [one.name for one in gather([run, other])] == [f"{tmp_path.name}/run", "elsewhere/run"]


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
