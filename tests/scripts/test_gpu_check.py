"""A check that crashes or hangs does not end the others, and all can be rehearsed without a GPU."""

import json
import os
import shutil
import subprocess
import sys
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
