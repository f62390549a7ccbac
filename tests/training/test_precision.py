"""training.precision: auto: what a new run gets on each device, and that a run keeps it on every other."""

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.runs import config_text

from nmt.checkpoints import model_file
from nmt.commands.train import train, training_data
from nmt.config import schema
from nmt.config.schema import Config
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.loading import model_loader
from nmt.training import precision, state
from nmt.training.precision import fastest_precision, with_chosen_precision
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")
SHORT = ("training.max_steps=2", "training.validate_every=2", "training.checkpoint_every=2", "training.log_every=1")


def simulate_gpu(monkeypatch: pytest.MonkeyPatch, capability: int) -> None:
    """For `fastest_precision` alone."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(major=capability))
    monkeypatch.setattr(torch.cuda, "_check_bf16_tensor_supported", lambda _: True)  # every GPU can emulate it


@pytest.mark.parametrize(("capability", "expected"), [(7, "float32"), (8, "bfloat16"), (9, "bfloat16")])
def test_only_a_gpu_with_hardware_for_it_gets_bfloat16(
    monkeypatch: pytest.MonkeyPatch, capability: int, expected: str
) -> None:
    simulate_gpu(monkeypatch, capability)
    assert fastest_precision(CUDA) == expected
    assert fastest_precision(CPU) == fastest_precision(torch.device("mps")) == "float32"


@pytest.mark.parametrize(("begun", "elsewhere"), [("bfloat16", "float32"), ("float32", "bfloat16")])
def test_a_run_keeps_the_format_that_it_began_with(
    begun: str,
    elsewhere: str,
    make_config: MakeConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It equals a run with this format in its settings. Its files contain the format, not `auto`."""
    caplog.set_level(logging.INFO, "nmt")
    run, explicit = tmp_path / "run", tmp_path / "explicit"
    for format_here, steps, reason in ((begun, 2, "on cpu"), (elsewhere, 4, "as when the run began")):
        monkeypatch.setattr(precision, "fastest_precision", lambda _, found=format_here: found)
        config = make_config(*SHORT, f"training.max_steps={steps}")
        assert config.training.precision == "auto"
        train(config, "cpu")
        assert f"training.precision: auto: {begun}, {reason}" in caplog.messages
        assert any(message.endswith(f"thread, {begun}") for message in caplog.messages)
        caplog.clear()
        assert schema.load(run / "config.yaml").training.precision == begun
        stored = model_file.load(model_file.checkpoint_path(run, steps)).config.training.precision
        assert stored == begun and f"{torch.bfloat16}".endswith(begun) == (
            model_loader.search_type("model", stored, CUDA) == torch.bfloat16
        )
    train(make_config(*SHORT, f"run_dir={explicit}", "training.max_steps=4", f"training.precision={begun}"), "cpu")
    weights = [model_file.load(model_file.checkpoint_path(folder, 4)).weights for folder in (run, explicit)]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())
    assert not any("training.precision: auto" in message for message in caplog.messages)


def test_a_format_in_the_settings_replaces_that_of_a_saved_run(
    make_config: MakeConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "nmt")
    train(make_config(*SHORT, "training.precision=float16"), "cpu")
    with pytest.raises(NmtError, match=r"auto: float16, as when the run began: .*sharded does not go with .*float16"):
        train(make_config(*SHORT, "training.sharded=true"), "cpu")
    train(make_config(*SHORT, "training.max_steps=4", "training.precision=float32"), "cpu")
    assert "setting changed: training.precision: float16 in the saved run, float32 now" in caplog.messages
    saved = state.saved(tmp_path / "run")
    assert saved is not None and saved[0].config.training.precision == "float32"


def test_settings_that_the_user_wrote_into_the_run_folder_stay_there(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a precision: the saved state has the chosen one."""
    written = tmp_path / "run" / "config.yaml"
    written.parent.mkdir()
    text = config_text(corpus, written.parent).replace("max_steps: 20", "max_steps: 2")
    written.write_text(text)
    for found in ("bfloat16", "float32"):
        monkeypatch.setattr(precision, "fastest_precision", lambda _, found=found: found)
        train(schema.load(written), "cpu")
        saved = state.saved(written.parent)
        assert saved is not None and saved[0].config.training.precision == "bfloat16"
    assert written.read_text() == text


def test_a_state_and_an_imported_model_without_a_choice(make_config: MakeConfig, tmp_path: Path) -> None:
    """A program that calls the trainer itself leaves `auto` in the settings: this is float32, as on a CPU."""
    Trainer(make_config(*SHORT), training_data(make_config(*SHORT)), CPU).run()
    stored = model_file.load(model_file.locate(tmp_path / "run")).config.training.precision
    assert stored == "auto" and model_loader.search_type("model", stored, CUDA) == torch.float32
    assert with_chosen_precision(make_config(), CPU, Ranks()).training.precision == "float32"
