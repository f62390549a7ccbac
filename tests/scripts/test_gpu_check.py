"""The checks that need no GPU find what they are there for, and one that crashes or hangs does not end the others."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"

# A step of a small model is enough, and none that is compiled.
STEP = """
from gpu import fake_step
from gpu.sizes import MODELS
from nmt.config.schema import TransformerConfig
from nmt.data.packing import PackedBatch
from nmt.training.train_step import TrainStep
MODELS["base"] = TransformerConfig(d_model=64, feed_forward=128, layers=1, heads=4)
fake_step.DESIGNS[fake_step.NOW] = fake_step.DESIGNS["+ loss in Triton"]
"""
ITEM = """
update = TrainStep._update
TrainStep._update = lambda step, *arguments: (
    step.training.clip_norm and step.losses[0].item(), update(step, *arguments)
)[1]
"""
LEFT_ON_THE_CPU = "PackedBatch.to = lambda batch, device: batch"
CACHE = """
from nmt.models.transformer.cache import TargetCache
empty = TargetCache.empty
TargetCache.empty = staticmethod(lambda like, *sizes: empty(like.float(), *sizes))
"""
NEEDS_GXX = pytest.mark.skipif(
    torch.version.cuda is not None or shutil.which("g++") is None,
    reason="a GPU is pretended with g++ and a PyTorch that has no CUDA itself",
)


def run(command: list[Any], **variables: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), str(SCRIPTS), str(ROOT / "tests")])
    environment = os.environ | {"PYTHONPATH": paths} | variables
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").split("\n") if line]


def check(name: str, planted: str, out: Path) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run one check after some code, as gpu_check.py runs it."""
    program = (
        f"{planted}\nimport sys, gpu_check\nsys.argv[1:] = {['--check', name, '--out', str(out)]!r}\ngpu_check.main()"
    )
    done = run(["-c", program], OMP_NUM_THREADS="1")
    return done, rows_of(out) if (out / "results.jsonl").exists() else []


@NEEDS_GXX
def test_steps_that_read_a_number_of_the_gpu_fail_and_the_others_pass(tmp_path: Path) -> None:
    _, rows = check("step base", STEP + ITEM, tmp_path)
    assert len(rows) == 10 and {row["verdict"] for row in rows} == {"ok", "FAILED"}
    failed = [row for row in rows if row["verdict"] == "FAILED"]
    assert [row["what"] for row in failed] == [row["what"] for row in rows if row["what"].endswith("gradients clipped")]
    assert len(failed) == 3
    assert "_local_scalar_dense" in failed[0]["measured"]


@NEEDS_GXX
def test_a_step_with_a_tensor_left_on_the_cpu_fails(tmp_path: Path) -> None:
    done, _ = check("step base", STEP + LEFT_ON_THE_CPU, tmp_path)
    assert done.returncode != 0
    assert "cpu" in done.stderr.strip().split("\n")[-1]


def test_a_cache_of_another_type_than_its_keys_fails(tmp_path: Path) -> None:
    done, rows = check("autocast", "", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["verdict"] for row in rows] == ["ok"] * 3
    done, rows = check("autocast", CACHE, tmp_path / "planted")
    assert done.returncode != 0
    assert [row["what"].split(", ")[1] for row in rows] == ["float32"]  # bfloat16 ended it


@pytest.mark.parametrize("name", ["attention of sentences", "loss alone"])
def test_checks_of_a_stage_can_be_rehearsed(name: str, tmp_path: Path) -> None:
    command = [SCRIPTS / "gpu_check.py", "--check", name, "--rehearse", "--out", tmp_path, "--store", tmp_path]
    done = run(command)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    assert rows and not [row for row in rows if row["verdict"] == "FAILED"]
    assert [row for row in rows if isinstance(row["measured"], float) and row["unit"] == "ms"]


PLAN = """

class Check:
    def __init__(self, name, seconds=60, alone=False, pretends=False):
        self.name, self.seconds, self.alone, self.pretends = name, seconds, alone, pretends
        self.stages, self.function, self.arguments = (0,), f"plan:{name}", ()

def checks(stage): return CHECKS
def fine(run): run.row("speed", 90.0, 100.0)
def slow(run): run.row("speed", 70.0, 100.0)
def crashes(run): run.row("before", 1.0, ok=True); import os; os._exit(3)
def hangs(run): import time; time.sleep(60)
def wrong(run): run.row("it holds", "no", ok=False)
CHECKS = [Check("crashes"), Check("hangs", seconds=5), Check("wrong"), Check("fine"), Check("slow", alone=True)]
CHECKS += [Check("pretends", pretends=True), Check("late", seconds=0)]
"""


def test_another_implementation_must_compute_the_same(tmp_path: Path) -> None:
    program = (
        "import sys, torch\nfrom pathlib import Path\nfrom gpu import parts, report\n"
        "out = Path(sys.argv[1])\nrun = report.Run('x', out / 'results.jsonl', out, out, 'cpu', True)\n"
        "ours = [torch.randn(9, 2, 4, dtype=torch.bfloat16) for _ in range(2)]\n"
        "parts.compare(run, 'same', [each * 1.002 for each in ours], ours)\n"
        "parts.compare(run, 'other', [ours[0], ours[1].flip(0)], ours)\n"
    )
    done = run(["-c", program, tmp_path])
    assert done.returncode == 0, done.stderr
    verdicts = [(row["what"].partition(" beside")[0], row["verdict"]) for row in rows_of(tmp_path)]
    same, other = [("same: output", "ok"), ("same: gradient", "ok")], [("other: output", "ok")]
    assert verdicts == [*same, *other, ("other: gradient", "FAILED")]


def run_plan(
    names: list[str], folder: Path, first: str = ""
) -> tuple[subprocess.CompletedProcess[str], dict[tuple[str, str], str]]:
    """Run these checks of PLAN, after some code; and the verdicts of their rows."""
    shutil.copytree(SCRIPTS / "gpu", folder / "gpu")
    shutil.copy(SCRIPTS / "gpu_check.py", folder)
    chosen = f"CHECKS = [check for check in CHECKS if check.name in {names}]\n"
    (folder / "gpu" / "plan.py").write_text(first + PLAN + chosen)
    paths = os.pathsep.join([str(folder), str(ROOT)])
    done = run([folder / "gpu_check.py", "--without-gpu", "--out", folder / "out"], PYTHONPATH=paths)
    return done, {(row["check"], row["what"]): row["verdict"] for row in rows_of(folder / "out")}


@pytest.mark.parametrize("names", [["crashes", "hangs", "wrong", "fine", "slow"], ["fine", "slow"]])
def test_checks_that_fail_do_not_end_the_others(names: list[str], tmp_path: Path) -> None:
    done, verdicts = run_plan(names, tmp_path)
    expected = {("fine", "speed"): "ok", ("slow", "speed"): "slow"}
    if "crashes" in names:
        expected |= {
            ("crashes", "before"): "ok", ("crashes", "ends well"): "FAILED", ("hangs", "ends well"): "FAILED",
            ("wrong", "it holds"): "FAILED",
        }  # fmt: skip
    assert verdicts == expected, done.stderr
    assert done.returncode == (1 if "crashes" in names else 0)
    assert (tmp_path / "out" / "table.txt").read_text().split("\n")[0].split()[:3] == ["verdict", "check", "what"]


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    """On a PyTorch for CUDA, whose GPU cannot be pretended; and where no time is left, which is a failure."""
    done, verdicts = run_plan(["pretends", "late", "fine"], tmp_path, 'import torch\ntorch.version.cuda = "12.8"\n')
    expected = {("pretends", "all of it"): "skipped", ("late", "ends well"): "not run", ("fine", "speed"): "ok"}
    assert verdicts == expected, done.stderr
    assert done.returncode == 1
