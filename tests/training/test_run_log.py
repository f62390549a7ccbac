"""The log of a run: a row is written at once; metrics and samples are cut back when a run resumes, sessions never."""

import json
import math
import platform
import resource
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.runs import rows_of

import nmt
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.training.run_log import RunLog, _scalars, environment


def opened(run: Path | None, metrics_bytes: int = 0, samples_bytes: int = 0) -> RunLog:
    return RunLog(run, metrics_bytes, samples_bytes, tensorboard=None)


def rows(run: Path) -> list[dict[str, float]]:
    return rows_of(run / "metrics.jsonl")


def test_a_resumed_run_forgets_samples_but_no_session(tmp_path: Path) -> None:
    with opened(tmp_path) as log:
        log.session("started", 0, torch="2")
        log.samples(10, [("a", "b", "c"), ("שלום", "</script>", "\u2028")])
        sizes = log.sizes
        log.metrics({"step": 11})
        log.samples(20, [("a", "b", "lost")])
    assert len(rows_of(tmp_path / "samples.jsonl")) == 3
    with opened(tmp_path, *sizes) as log:
        log.session("started", 10, torch="2")
        log.samples(20, [("a", "b", "d")])
        log.session("stopped", 20, reason="SIGTERM")
    assert rows(tmp_path) == []
    assert rows_of(tmp_path / "samples.jsonl") == [
        {"step": 10, "source": "a", "reference": "b", "translation": "c"},
        {"step": 10, "source": "שלום", "reference": "</script>", "translation": "\u2028"},
        {"step": 20, "source": "a", "reference": "b", "translation": "d"},
    ]
    sessions = rows_of(tmp_path / "sessions.jsonl")
    assert [(row["event"], row["step"]) for row in sessions] == [("started", 0), ("started", 10), ("stopped", 20)]
    assert all(row["time"].endswith("+00:00") for row in sessions)


def test_what_is_no_number_is_not_written(tmp_path: Path) -> None:
    """`NaN` is not JSON, and other programs read this file."""
    with opened(tmp_path) as log, pytest.raises(ValueError, match="JSON"):
        log.metrics({"step": 1, "loss": math.nan})
    assert rows(tmp_path) == []


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    with pytest.raises(NmtError, match=r"metrics\.jsonl: cannot be written: No such file"):
        opened(tmp_path / "missing")
    with opened(tmp_path) as log:
        log.metrics({"step": 1})
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.sizes[0] + 5, hard))
        try:
            with pytest.raises(NmtError, match=r"metrics\.jsonl: cannot be written: File too large"):
                log.metrics({"step": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "metrics.jsonl").read_text().startswith('{"step": 1}\n')


def test_numbers_in_lists_have_names_of_their_own_in_tensorboard() -> None:
    row = {"step": 3, "bleu": 1.5, "corpora": [{"share": 0.5, "nll": None}, {"share": 0.25}]}
    row["validation"] = [{"name": "en-de", "bleu": 2.5}]
    assert dict(_scalars(row)) == {
        "bleu": 1.5, "corpora/0/share": 0.5, "corpora/1/share": 0.25, "validation/en-de/bleu": 2.5,
    }  # fmt: skip


def test_tensorboard_hides_what_is_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[tuple[str, int]] = []

    class SummaryWriter:
        def __init__(self, folder: str, purge_step: int) -> None:
            made.append((folder, purge_step))

        def close(self) -> None:
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=SummaryWriter))
    with RunLog(tmp_path, 0, 0, tensorboard=20):
        pass
    assert made == [(str(tmp_path / "tensorboard"), 21)]


def test_the_environment_names_models_and_versions_and_no_host() -> None:
    facts = environment(torch.device("cpu"), Ranks())
    torch_without_build = torch.__version__.partition("+")[0]  # which pip does not know everywhere
    assert (facts["nmt"], facts["torch"].partition("+")[0]) == (nmt.__version__, torch_without_build)
    assert facts["python"] == platform.python_version()
    assert facts["cores"] >= 1 and facts["ranks"] == 1 and facts["processor"]
    assert json.loads(json.dumps(facts)) == facts
    assert platform.node() not in facts.values()
