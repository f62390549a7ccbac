"""A check that crashes or hangs does not end the others, and all can be rehearsed without a GPU."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "scripts"


def run(command: list[Any], **variables: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT), str(SCRIPTS), str(ROOT / "tests")])
    environment = os.environ | {"PYTHONPATH": paths} | variables
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True)


def rows_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text(encoding="utf-8").split("\n") if line]


_REHEARSED = [
    "search from text to text", "steps of search", "translations", "text to score", "two ranks",
    "compiled gradients base", "memory",
]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("name", _REHEARSED)
def test_checks_of_a_plan_can_be_rehearsed(name: str, tmp_path: Path) -> None:
    command = [SCRIPTS / "gpu_check.py", "--check", name, "--rehearse", "--out", tmp_path, "--store", tmp_path]
    done = run(command, OMP_NUM_THREADS="1")  # as the script does
    assert done.returncode == 0, done.stderr
    rows = rows_of(tmp_path)
    assert rows and not [row for row in rows if row["verdict"] == "FAILED"]
    assert [row for row in rows if isinstance(row["measured"], int | float)]


def test_all_checks_together_fit_into_the_default_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    groups = importlib.import_module("gpu.plan").GROUPS
    assert sum(max(check.seconds for check in group) for group in groups) <= 540


LOG = """
2026-01-02 10:00:04,000 INFO validation: 50 pairs
2026-01-02 10:00:05,500 INFO cleaned text: 3,000 of 3,000 pairs kept in data/text-9b (1.5 s)
2026-01-02 10:00:07,500 INFO vocabulary: 600 subwords learned from 6,000 sentences (2.0 s)
2026-01-02 10:00:08,000 INFO token store: 3,000 of 3,000 pairs kept in data/tokens-69 (0.5 s)
2026-01-02 10:00:08,750 INFO corpus    pairs   kept
train.en  3,000  3,000
2026-01-02 10:00:09,000 INFO training: about 323 steps per epoch; cuda:0, float32
2026-01-02 10:00:14,000 INFO step 100 of 1,200  epoch 1  loss 7.076  lr 5.00e-03  62 target tokens/s  00:42 left
2026-01-02 10:00:15,000 INFO step 1,000 of 1,200  epoch 3  loss 5.556  lr 3.75e-03  293 target tokens/s  00:17 left
2026-01-02 10:00:17,000 INFO\x20
2026-01-02 10:00:17,000 INFO step 1,000  validation_loss 4.8074  BLEU 0.00  chrF 0.00  (best validation_loss)
2026-01-02 10:00:17,250 DEBUG state of step 1,000: 11.0 MiB copied in 0.045 s
2026-01-02 10:00:17,500 INFO done: training.max_steps: 1,200 reached
"""


def test_the_seconds_of_each_part_come_from_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    began = datetime(2026, 1, 2, 10).timestamp()
    assert importlib.import_module("gpu.text_to_score").parts_of(LOG, began) == {
        "start of Python and PyTorch": 4.0, "reading and cleaning": 1.5, "vocabulary": 2.0, "encoding": 0.5,
        "summary, overlaps and model": 1.0, "compiling and first steps": 5.0, "training": 1.25, "validation": 2.0,
        "other": 0.25,
    }  # fmt: skip


CHECKS = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Check:
    name: str
    seconds: float = 60
    arguments = ()

    @property
    def function(self):
        return f"plan:{self.name}"

EARLY = 2
def fine(run): run.row("speed", 90.0, 100.0)
def slow(run): run.row("speed", 70.0, 100.0)
def crashes(run): run.row("before", 1.0, ok=True); import os; os._exit(3)
def hangs(run): import time; time.sleep(600)
def wrong(run): run.row("it holds", "no", ok=False)
def late(run): run.row("speed", 90.0, 100.0)
ALL = {check.name: check for check in (
    Check("fine"), Check("slow"), Check("crashes"), Check("hangs", seconds=0.5), Check("wrong"),
    Check("late"),
)}
def every(): return ALL
"""


def run_checks(
    groups: str, folder: Path, *options: str
) -> tuple[subprocess.CompletedProcess[str], dict[str, tuple[str, str]]]:
    """Run groups of these checks; and what the rows of each check say."""
    shutil.copytree(SCRIPTS / "gpu", folder / "gpu", dirs_exist_ok=True)
    shutil.copy(SCRIPTS / "gpu_check.py", folder)
    names = f"GROUPS = [[ALL[name] for name in group.split()] for group in {groups.split(';')}]\n"
    (folder / "gpu" / "plan.py").write_text(CHECKS + names)
    paths = os.pathsep.join([str(folder), str(ROOT)])
    command = [folder / "gpu_check.py", "--rehearse", *options, "--out", folder / "out", "--store", folder]
    done = run(command, PYTHONPATH=paths)
    return done, {row["check"]: (row["verdict"], row["what"]) for row in rows_of(folder / "out")}


def test_checks_that_fail_do_not_end_the_others(tmp_path: Path) -> None:
    """A wrong result and a crash are failures; what is slow, took too long, or would begin too late, is not. The first
    groups begin however late it is."""
    done, found = run_checks("crashes hangs fine slow;wrong;late", tmp_path, "--seconds", "0")
    assert found == {
        "crashes": ("FAILED", "all of it"), "hangs": ("not run", "all of it"), "fine": ("ok", "speed"),
        "slow": ("slow", "speed"), "wrong": ("FAILED", "it holds"), "late": ("not run", "all of it"),
    }, done.stderr  # fmt: skip
    assert done.returncode == 1 and "2 failed, 2 not run" in done.stdout
    assert (tmp_path / "out" / "table.txt").read_text().split("\n")[0].split()[:3] == ["verdict", "check", "what"]
