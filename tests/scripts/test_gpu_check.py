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

STEP = """
from gpu import fake_step
from gpu.sizes import MODELS  # a small model is enough
from nmt.config.schema import TransformerConfig
from nmt.data.packing import PackedBatch
from nmt.training.train_step import TrainStep
MODELS["base"] = TransformerConfig(d_model=64, feed_forward=128, layers=1, heads=4)
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


@pytest.mark.thorough
@NEEDS_GXX
def test_steps_that_read_a_number_of_the_gpu_fail_and_the_others_pass(tmp_path: Path) -> None:
    _, rows = check("step base", STEP + ITEM, tmp_path)
    assert len(rows) == 6 and {row["verdict"] for row in rows} == {"ok", "FAILED"}
    failed = [row for row in rows if row["verdict"] == "FAILED"]
    assert [row["what"] for row in failed] == [row["what"] for row in rows if row["what"].endswith("gradients clipped")]
    assert len(failed) == 3
    assert "_local_scalar_dense" in failed[0]["measured"]


@pytest.mark.thorough
@NEEDS_GXX
def test_a_step_with_a_tensor_left_on_the_cpu_fails(tmp_path: Path) -> None:
    done, _ = check("step base", STEP + LEFT_ON_THE_CPU, tmp_path)
    assert done.returncode != 0
    assert "cpu" in done.stderr.strip().split("\n")[-1]


@pytest.mark.thorough
def test_a_cache_of_another_type_than_its_keys_fails(tmp_path: Path) -> None:
    done, rows = check("autocast", "", tmp_path)
    assert done.returncode == 0, done.stderr
    assert [row["verdict"] for row in rows] == ["ok"] * 3
    done, rows = check("autocast", CACHE, tmp_path / "planted")
    assert done.returncode != 0
    assert [row["what"].split(", ")[1] for row in rows] == ["float32"]  # bfloat16 ended it


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["attention", "loss", "search", "two ranks", "compiled gradients base"])
def test_checks_of_a_plan_can_be_rehearsed(name: str, tmp_path: Path) -> None:
    command = [SCRIPTS / "gpu_check.py", "--check", name, "--rehearse", "--out", tmp_path, "--store", tmp_path]
    done = run(command)
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    assert rows and not [row for row in rows if row["verdict"] == "FAILED"]
    assert [row for row in rows if isinstance(row["measured"], int | float)]


def test_another_implementation_must_compute_the_same_in_each_weight(tmp_path: Path) -> None:
    """However small one is beside the others, such as a bias."""
    program = """
import sys, torch
from pathlib import Path
from gpu import parts, report, training
out = Path(sys.argv[1])
run = report.Run('x', out / 'results.jsonl', out, out, 'cpu', True)
ours = [torch.randn(9, 2, 4, dtype=torch.bfloat16) for _ in range(2)]
parts.compare(run, 'same', [each * 1.002 for each in ours], ours)
parts.compare(run, 'other', [ours[0], ours[1].flip(0)], ours)
exact = {'matrix': torch.randn(100, 100).double(), 'bias': torch.randn(100).double() / 10}
training._compare(run, 'rounded', {n: x.bfloat16().double() for n, x in exact.items()}, exact, 5e-2)
training._compare(run, 'wrong', exact | {'bias': 0 * exact['bias']}, exact, 5e-2)
other = {'matrix': exact['matrix'], 'other': exact['bias']}
training._compare(run, 'lacking', other, {'matrix': exact['matrix']}, 5e-2)
"""
    done = run(["-c", program, tmp_path])
    assert done.returncode == 0, done.stderr
    assert [row["verdict"] for row in rows_of(tmp_path)] == ["ok", "ok", "ok", "FAILED", "ok", "FAILED", "FAILED"]


# The same checks in each plan: one in a group of its own, two late, one of which needs a GPU that can be pretended.
PLAN = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Check:
    name: str
    seconds: float = 60
    pretends: bool = False
    environment: dict = field(default_factory=dict)
    arguments = ()

    @property
    def function(self):
        return f"plan:{self.name}"

Groups = list
EARLY = 2
def fine(run): run.row("speed", 90.0, 100.0)
def slow(run): run.row("speed", 70.0, 100.0)
def crashes(run): run.row("before", 1.0, ok=True); import os; os._exit(3)
def hangs(run): import time; time.sleep(600)
def wrong(run): run.row("it holds", "no", ok=False)
def variable(run): import os; run.row("variable", os.environ["PLANTED"])
ALL = {check.name: check for check in (
    Check("fine"), Check("slow"), Check("crashes"), Check("hangs", seconds=0.5), Check("wrong"),
    Check("pretends", pretends=True), Check("variable", environment={"PLANTED": "here"}),
)}
def every(): return ALL
def first(): return GROUPS
def second(failed): return [[ALL["variable"]]] if failed == {"wrong", "crashes"} else []
"""


def run_plan(
    groups: str, folder: Path, *options: str, before: str = ""
) -> tuple[subprocess.CompletedProcess[str], dict[str, tuple[str, str]]]:
    """Run groups of these checks, after some code; and what the rows of each check say."""
    shutil.copytree(SCRIPTS / "gpu", folder / "gpu", dirs_exist_ok=True)
    shutil.copy(SCRIPTS / "gpu_check.py", folder)
    names = f"GROUPS = WITHOUT_GPU = [[ALL[name] for name in group.split()] for group in {groups.split(';')}]\n"
    (folder / "gpu" / "plan.py").write_text(before + PLAN + names)
    paths = os.pathsep.join([str(folder), str(ROOT)])
    done = run([folder / "gpu_check.py", *options, "--out", folder / "out", "--store", folder], PYTHONPATH=paths)
    found: dict[str, tuple[str, str]] = {}
    for row in rows_of(folder / "out") if (folder / "out" / "results.jsonl").exists() else ():
        found[row["check"]] = row["verdict"], row["what"]
    return done, found


def test_checks_that_fail_do_not_end_the_others(tmp_path: Path) -> None:
    """A wrong result and a crash are failures; what took too long, or would begin too late, is not. The first groups
    begin however late it is. The second plan runs what failed again."""
    groups = "crashes hangs fine;wrong;slow"
    done, found = run_plan(groups, tmp_path, "--plan", "first", "--rehearse", "--seconds", "0")
    assert found == {
        "crashes": ("FAILED", "all of it"), "hangs": ("not run", "all of it"), "fine": ("ok", "speed"),
        "wrong": ("FAILED", "it holds"), "slow": ("not run", "all of it"),
    }, done.stderr  # fmt: skip
    assert done.returncode == 1 and "2 failed, 2 not run" in done.stdout
    assert (tmp_path / "out" / "table.txt").read_text().split("\n")[0].split()[:3] == ["verdict", "check", "what"]
    done, found = run_plan(groups, tmp_path, "--plan", "second", "--rehearse", "--seconds", "100")
    assert found == {"variable": ("", "variable")} and done.returncode == 0, done.stderr


def test_what_is_slow_or_out_of_time_is_no_failure(tmp_path: Path) -> None:
    done, found = run_plan("hangs slow", tmp_path, "--plan", "first", "--rehearse")
    assert found == {"hangs": ("not run", "all of it"), "slow": ("slow", "speed")}, done.stderr
    assert done.returncode == 0
    done, _ = run_plan("fine", tmp_path / "other", "--plan", "second", "--rehearse")
    assert done.returncode == 1 and "run --plan first before" in done.stderr


def test_a_gpu_is_not_pretended_on_a_pytorch_for_cuda(tmp_path: Path) -> None:
    before = 'import torch\ntorch.version.cuda = "12.8"\n'
    done, found = run_plan("pretends fine", tmp_path, "--without-gpu", before=before)
    assert found == {"pretends": ("skipped", "all of it"), "fine": ("ok", "speed")}, done.stderr
    assert done.returncode == 0


def test_what_failed_is_run_again_with_settings_that_show_why() -> None:
    program = """
from gpu import plan
groups = [*plan.first(), *plan.second(set()), *plan.WITHOUT_GPU]
names = [check.name for group in groups for check in group if check.name != "ceilings"]
assert len(names) == len(set(names)), "two checks have one name"
again = plan.second({"compiled gradients big", "attention"})
found = {check.name: dict(check.environment) for group in again for check in group}
blocking = {"CUDA_LAUNCH_BLOCKING": "1"}
assert found == {"compiled gradients big": blocking | {"TORCHINDUCTOR_MIX_ORDER_REDUCTION": "0"}, "attention": blocking}
assert len(plan.second(set())) > 3
"""
    done = run(["-c", program])
    assert done.returncode == 0, done.stderr
