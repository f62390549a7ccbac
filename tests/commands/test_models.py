"""Which file a run folder stands for is told, once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.model_files import make_checkpoint

from nmt.checkpoints import model_file
from nmt.commands.models import log_chosen_files
from nmt.config.schema import Config
from nmt.errors import NmtError


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
        log_chosen_files(*models)
    return caplog.messages


def test_a_run_folder_stands_for_its_newest_or_best_file(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    first, newest = model_file.checkpoints(run)[-2:]
    assert logged(caplog, run) == [f"model: {newest}"]
    newest.unlink()
    assert logged(caplog, run, run) == [f"model: {first}, step 1,200"]
    first.rename(run / model_file.BEST)
    assert logged(caplog, run) == [f"model: {run}/best.safetensors, step 1,200"]


def test_a_damaged_file_is_named(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    (run / model_file.BEST).write_text("damaged")
    assert logged(caplog, run) == [f"model: {run}/best.safetensors"]


def test_a_file_is_not_told_again(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert logged(caplog, *model_file.checkpoints(run)[-2:], run / "none") == []


def test_a_folder_without_a_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NmtError, match="no checkpoint here"):
        log_chosen_files(tmp_path)
