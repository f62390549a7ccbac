"""The profile: where the time goes, all of it, and nothing else changed by looking."""

import gzip
import json
import logging
import math
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers.runs import rows_of

from nmt.commands.train import training_data
from nmt.config.schema import Config
from nmt.files import tensors
from nmt.training import profiling
from nmt.training.profiling import PHASES, measured_peak
from nmt.training.trainer import Trainer

MakeConfig = Callable[..., Config]
SKIPPED, TIMED, TRACED = 2, 4, 2  # fewer than users get
STEPS = SKIPPED + TIMED + TRACED
SETTINGS = (f"training.max_steps={STEPS + 2}", "training.validation_bleu=false", "training.batch_tokens=128",
            "training.validate_every=100", "training.checkpoint_every=100")  # fmt: skip


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "nmt")
    return caplog


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SKIPPED", "TIMED", "TRACED"):
        monkeypatch.setattr(profiling, name, globals()[name])


def run(config: Config, *, profile: bool) -> None:
    Trainer(config, training_data(config), torch.device("cpu"), profile=profile).run()


def test_a_run_with_a_profile_is_that_without_and_says_where_its_time_went(
    make_config: MakeConfig, tmp_path: Path, logged: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, passed = time.perf_counter, 0.0

    def measured_for_long(where: torch.device, dtype: torch.dtype) -> float:
        nonlocal passed
        passed += 1e6
        return 1e15

    monkeypatch.setattr(time, "perf_counter", lambda: clock() + passed)
    monkeypatch.setattr(profiling, "measured_peak", measured_for_long)
    run(make_config(*SETTINGS, "training.log_every=1"), profile=True)
    rows_written = rows_of(tmp_path / "run" / "metrics.jsonl")
    assert passed and all(row["seconds"] < 1e6 for row in rows_written if "seconds" in row), "no time of training"
    table, share, place = [text for text in logged.messages if text.startswith("profile: ")]

    header, *lines = table.split("\n")
    (whole,) = map(float, re.findall(rf"profile: ([\d.]+) ms per step, the mean of {TIMED}", header))
    found = [re.fullmatch(r"  (\S+) +(-?[\d.]+) ms +(-?[\d.]+)%", line) for line in lines]
    rows = {match[1]: (float(match[2]), float(match[3])) for match in found if match}
    assert list(rows) == [*PHASES, "other"] and len(rows) == len(lines)
    assert sum(percent for _, percent in rows.values()) == pytest.approx(100, abs=0.5)
    assert sum(milliseconds for milliseconds, _ in rows.values()) == pytest.approx(whole, abs=0.5)
    assert min(percent for _, percent in rows.values()) >= 0
    assert rows["forward"][1] > 0 and rows["backward"][1] > 0 and rows["optimizer"][1] > 0

    assert "of the 1000.000 that a large float32 matrix product reaches here" in share
    trace = tmp_path / "run" / "profile" / "trace-rank0.json.gz"
    assert str(trace) in place
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = [event["name"] for event in events if event.get("cat") == "user_annotation"]
    assert {phase: names.count(phase) for phase in PHASES} == dict.fromkeys(PHASES, TRACED)

    run(make_config(*SETTINGS, "training.log_every=1", f"run_dir={tmp_path / 'plain'}"), profile=False)
    assert not (tmp_path / "plain" / "profile").exists()
    name = f"step-{STEPS + 2:08d}.safetensors"
    profiled, plain = (tensors.read(tmp_path / folder / "state" / name)[0] for folder in ("run", "plain"))
    assert profiled.keys() == plain.keys()
    assert all(torch.equal(tensor, plain[name]) for name, tensor in profiled.items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_peak_is_a_speed(dtype: torch.dtype) -> None:
    peak = measured_peak(torch.device("cpu"), dtype, seconds=0.05)
    assert 0 < peak < math.inf
