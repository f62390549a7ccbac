"""Training from a program: `nmt.train`, with a hook for the metrics."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from helpers.runs import config_text, rows_of, rows_without_clock

import nmt
from nmt.config import schema
from nmt.errors import NmtError


def test_the_hook_gets_the_rows_of_the_metrics(corpus: Path, tmp_path: Path) -> None:
    """Whatever it does with them; of settings in a mapping, as of a file, in the main thread or not."""
    config = yaml.safe_load(config_text(corpus, tmp_path / "run"))
    config["data"]["train"] = tuple(config["data"]["train"])
    config["data"]["store_dir"] = corpus / "store"
    rows: list[dict[str, Any]] = []

    def keep_and_spoil(row: dict[str, Any]) -> None:
        rows.append(dict(row))
        row.clear()

    trained: list[Path] = []
    thread = threading.Thread(target=lambda: trained.append(nmt.train(config, on_metrics=keep_and_spoil)))
    thread.start()
    thread.join()
    assert trained == [tmp_path / "run"] and len(nmt.load(trained[0]).translate(["one two"])) == 1
    assert rows == rows_of(tmp_path / "run" / "metrics.jsonl") and len(rows) == 7
    (tmp_path / "file.yaml").write_text(config_text(corpus, tmp_path / "other"))
    nmt.train(tmp_path / "file.yaml", overrides=["training.validation_samples=0"])
    assert rows_without_clock(tmp_path / "other") == rows_without_clock(tmp_path / "run")


@pytest.fixture(scope="module")
def plain_run(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without a hook."""
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("plain") / "run"
    nmt.train(schema.parse(config_text(corpus, folder), "plain"))
    return folder


def test_a_hook_that_raises_stops_training_and_loses_nothing(corpus: Path, plain_run: Path, tmp_path: Path) -> None:
    """In a row of training, in a validation, and at the end of the run."""
    config, told = schema.parse(config_text(corpus, tmp_path / "run"), "run"), []

    def stop(row: dict[str, Any]) -> None:
        told.append(row["step"])
        if row["step"] == 4:
            raise OverflowError("enough")

    with pytest.raises(OverflowError, match="enough"):
        nmt.train(config, on_metrics=stop)
    assert told.count(4) == 1 and told[-1] == 4
    nmt.train(config)
    assert rows_without_clock(tmp_path / "run") == rows_without_clock(plain_run)
    events = [row["event"] for row in rows_of(tmp_path / "run" / "sessions.jsonl")]
    assert events == ["started", "stopped", "started", "finished"]


def test_settings_in_a_mapping_are_checked_as_those_of_a_file(corpus: Path, tmp_path: Path) -> None:
    config = yaml.safe_load(config_text(corpus, tmp_path / "run"))
    config["training"]["warmup"] = 3
    with pytest.raises(NmtError, match=r"config: training\.warmup: unknown setting; did you mean training\.warmup_st"):
        nmt.train(config)
    with pytest.raises(NmtError, match=r"data\.train: expected list of mappings; found 3"):
        nmt.train({**config, "data": {**config["data"], "train": 3}})
