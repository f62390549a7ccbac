"""Threads may come and go while a run trains: no weight depends on their number, or their number stays."""

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from nmt import device
from nmt.commands.train import training_data
from nmt.config.schema import Config
from nmt.training.threads import same_with_fewer_threads
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
TESTS = Path(__file__).parent.parent
SAME = [
    "",
    "model.norm=pre model.positions=rotary training.optimizer=muon training.clip_norm=1 training.consistency=simcut",
]
OTHER = [
    "model.activation=gelu",
    "model.attention_dropout=0.1",
    "training.precision=bfloat16",
    "training.compile=true",
    "model.value_size=8",
    "model.d_model=24 model.feed_forward=64 model.heads=3",
    "model.feed_forward=24",
    "'model={architecture: recurrent, embedding_size: 8, hidden_size: 16}'",
]


@pytest.mark.parametrize(("models", "same"), [(SAME, True), (OTHER, False)])
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a PyTorch without MKL: the number never changes")
def test_for_which_models_the_number_may_change(models: list[str], same: bool, make_config: MakeConfig) -> None:
    for overrides in models:
        assert same_with_fewer_threads(make_config(*shlex.split(overrides)), 2) == same, overrides


def test_a_step_gives_the_same_weights_with_any_number() -> None:
    variables = os.environ | {"PYTHONPATH": str(TESTS), "OMP_WAIT_POLICY": "passive", "OMP_NUM_THREADS": "3"}
    command = [sys.executable, "-m", "helpers.thread_steps", *SAME]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["[]"] * len(SAME), "for each model, the numbers of threads with other weights"


@pytest.fixture
def comes_and_goes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Another program that takes a core at every other look. Returns the numbers of threads that training then sets;
    in truth it has one, as several are slow beside other tests."""
    threads = [2]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(device, "usable_cores", lambda: 2)
    monkeypatch.setattr(device, "_CHECK_INTERVAL", -1.0)
    monkeypatch.setattr(device, "_FREE_FOR", 0.0)

    def times() -> Iterator[device._CoreTimes]:
        busy = 0.0
        for second in range(10_000):
            busy += second % 2
            yield device._CoreTimes(float(second), busy, 0.0)

    clock = times()
    monkeypatch.setattr(device, "_core_times", lambda: next(clock))
    return threads


@pytest.mark.parametrize(
    ("overrides", "changes"),
    [
        ([], True),
        (["model.activation=gelu"], False),
        (["model.activation=gelu", "training.threads=shared"], True),
    ],
)
def test_where_weights_depend_on_it_the_number_changes_only_if_asked_for(
    overrides: list[str],
    changes: bool,
    make_config: MakeConfig,
    comes_and_goes: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "nmt")
    config = make_config("training.validation_bleu=false", *overrides)
    Trainer(config, training_data(config), torch.device("cpu")).run()
    assert (1 in comes_and_goes) == changes
    messages = [record.message for record in caplog.records if "other programs" in record.message]
    if changes:
        assert messages[0] == "other programs use 1.0 cores: computing with 1 of 2 threads"
    else:
        assert len(messages) == 1 and "1.0 of 2 cores" in messages[0] and "training.threads=shared" in messages[0]
