"""Which file a run folder stands for, and the translator of a command."""

import gc
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint

import nmt
from nmt.checkpoints import model_file
from nmt.config.schema import Config
from nmt.loading.command_models import load_translator, log_chosen_files
from nmt.loading.opened_model import open_model


@pytest.fixture
def run(make_config: Callable[..., Config], tmp_path: Path) -> Path:
    """A run folder with two checkpoints, the second of which has no step in its provenance."""
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    for step, provenance in ((1200, {"step": 1200}), (2400, {})):
        made = make_checkpoint(make_config())
        path = model_file.checkpoint_path(tmp_path / "run", step)
        model_file.save(path, type(made)(made.config, made.vocabulary, made.weights, provenance))
    return tmp_path / "run"


def logged(caplog: pytest.LogCaptureFixture, *models: Path) -> list[str]:
    caplog.clear()
    with caplog.at_level("INFO", "nmt"):
        log_chosen_files(*map(open_model, models))
    return caplog.messages


def test_a_run_folder_stands_for_its_best_file_or_its_newest(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Which one is told once, and nothing of a file that was named."""
    first, newest = model_file.checkpoints(run)
    assert logged(caplog, run) == [f"model: {newest}"]
    assert logged(caplog, first, newest) == []
    newest.unlink()
    assert logged(caplog, run, run) == [f"model: {first}, step 1,200"]
    first.rename(run / model_file.BEST)
    assert logged(caplog, run) == [f"model: {run}/best.safetensors, step 1,200"]


def test_only_commands_freeze_the_objects_that_exist(run: Path) -> None:
    """A program that uses the Python API decides about its own garbage."""
    gc.unfreeze()
    nmt.load(run, device="cpu")
    assert gc.get_freeze_count() == 0
    load_translator(open_model(run), "cpu")
    try:
        assert gc.get_freeze_count() > 10_000
    finally:
        gc.unfreeze()
