"""What a run writes down: samples cut back with the metrics, sessions never, and what it runs on without its name."""

import json
import platform
from pathlib import Path

import pytest
import torch
from helpers.runs import rows_of

import nmt
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files.json_lines import JsonLines
from nmt.training.environment import environment, processor
from nmt.training.records import Records
from nmt.training.state import Progress


def test_a_resumed_run_forgets_samples_but_no_session(tmp_path: Path) -> None:
    progress = Progress()
    with Records(tmp_path, progress, tensorboard=False) as records:
        records.start(0, {"torch": "2"})
        records.sample(10, [("a", "b", "c"), ("שלום", "</script>", "\u2028")])
        records.note_sizes(progress)
        records.metrics.write({"step": 11})
        records.sample(20, [("a", "b", "lost")])
    assert len(rows_of(tmp_path / "samples.jsonl")) == 3
    with Records(tmp_path, progress, tensorboard=False) as records:
        records.start(10, {"torch": "2"})
        records.sample(20, [("a", "b", "d")])
        records.end(20, "SIGTERM", finished=False)
    assert rows_of(tmp_path / "metrics.jsonl") == []
    assert rows_of(tmp_path / "samples.jsonl") == [
        {"step": 10, "source": "a", "reference": "b", "translation": "c"},
        {"step": 10, "source": "שלום", "reference": "</script>", "translation": "\u2028"},
        {"step": 20, "source": "a", "reference": "b", "translation": "d"},
    ]
    sessions = rows_of(tmp_path / "sessions.jsonl")
    assert [(row["event"], row["step"]) for row in sessions] == [("started", 0), ("started", 10), ("stopped", 20)]
    assert all(row["time"].endswith("+00:00") for row in sessions)


def test_a_rank_that_does_not_write_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    progress = Progress(metrics_bytes=5)
    with Records(None, progress, tensorboard=False) as records:
        records.start(0, {})
        records.sample(1, [("a", "b", "c")])
        records.note_sizes(progress)
    assert (progress.metrics_bytes, progress.samples_bytes, list(tmp_path.iterdir())) == (0, 0, [])


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "samples.jsonl").mkdir()
    with pytest.raises(NmtError, match=r"samples\.jsonl: cannot be written: Is a directory: choose another run_dir"):
        Records(tmp_path, Progress(), tensorboard=False)
    with JsonLines(tmp_path / "whole.jsonl") as lines:
        lines.write({"a": "ä"})
    with JsonLines(tmp_path / "whole.jsonl") as lines:  # without a size it is gone on with
        lines.write({"a": 2})
    assert rows_of(tmp_path / "whole.jsonl") == [{"a": "ä"}, {"a": 2}]


def test_the_environment_names_models_and_versions_and_no_host() -> None:
    facts = environment(torch.device("cpu"), Ranks())
    assert (facts["nmt"], facts["torch"]) == (nmt.__version__, torch.__version__)
    assert facts["python"] == platform.python_version()
    assert facts["cores"] >= 1 and facts["ranks"] == 1 and facts["processor"]
    assert json.loads(json.dumps(facts)) == facts
    assert platform.node() not in facts.values()


def test_processors(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nmodel name\t: A Processor: 2 GHz\nmodel name\t: A Processor: 2 GHz\n")
    assert processor(cpuinfo) == "A Processor: 2 GHz"
    assert processor(tmp_path / "none") == (platform.processor() or platform.machine())
