"""metrics.jsonl: a row a line at once, cut back when a run resumes, an error when the disk refuses."""

import math
import resource
import sys
from pathlib import Path

import pytest
from helpers.runs import rows_of

from nmt.errors import NmtError
from nmt.training.metrics import Metrics


def rows(run: Path) -> list[dict[str, float]]:
    return rows_of(run / "metrics.jsonl")


def test_a_row_is_there_as_soon_as_it_is_written(tmp_path: Path) -> None:
    with Metrics(tmp_path, 0, tensorboard=False) as metrics:
        assert metrics.size == 0
        metrics.write({"step": 1, "loss": 0.1})
        assert rows(tmp_path) == [{"step": 1, "loss": 0.1}]
        metrics.write({"step": 2, "bleu": 12.25})
        assert rows(tmp_path) == [{"step": 1, "loss": 0.1}, {"step": 2, "bleu": 12.25}]
        assert metrics.size == (tmp_path / "metrics.jsonl").stat().st_size


def test_a_resumed_run_forgets_the_rows_after_its_state(tmp_path: Path) -> None:
    with Metrics(tmp_path, 0, tensorboard=False) as metrics:
        metrics.write({"step": 1})
        size = metrics.size
        metrics.write({"step": 2})
        metrics.write({"step": 3})
    with Metrics(tmp_path, size, tensorboard=False) as metrics:
        metrics.write({"step": 2, "again": 1})
    assert rows(tmp_path) == [{"step": 1}, {"step": 2, "again": 1}]


def test_a_file_shorter_than_the_state_says_is_gone_on_with(tmp_path: Path) -> None:
    with Metrics(tmp_path, 10_000, tensorboard=False) as metrics:
        metrics.write({"step": 5})
    assert rows(tmp_path) == [{"step": 5}]


def test_what_is_no_number_is_not_written(tmp_path: Path) -> None:
    """`NaN` is not JSON, and other programs read this file."""
    with Metrics(tmp_path, 0, tensorboard=False) as metrics, pytest.raises(ValueError, match="JSON"):
        metrics.write({"step": 1, "loss": math.nan})
    assert rows(tmp_path) == []


def test_a_disk_that_refuses(tmp_path: Path) -> None:
    with pytest.raises(NmtError, match=r"metrics\.jsonl: cannot be written: No such file"):
        Metrics(tmp_path / "missing", 0, tensorboard=False)
    with Metrics(tmp_path, 0, tensorboard=False) as metrics:
        metrics.write({"step": 1})
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (metrics.size + 5, hard))
        try:
            with pytest.raises(NmtError, match=r"metrics\.jsonl: cannot be written: File too large"):
                metrics.write({"step": 2})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "metrics.jsonl").read_text().startswith('{"step": 1}\n')


def test_tensorboard_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(NmtError, match=r"training\.tensorboard: true needs TensorBoard: pip install"):
        Metrics(tmp_path, 0, tensorboard=True)
