"""`nmt train --nproc-per-node N`: what becomes of a job whose ranks are stopped, killed or wrong."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from helpers.commands import OF_A_LAUNCHER, SECONDS, Started  # noqa: F401  (SECONDS: for time_limit)
from helpers.runs import config_text, logged_rows

from nmt.distributed import launch
from nmt.distributed.environment import STARTED
from nmt.machine import usable_cores

pytestmark = pytest.mark.usefixtures("time_limit")


def start(corpus: Path, folder: Path, *overrides: str) -> Started:
    """Training in two ranks, in folder/run and in a process group of its own."""
    config = folder / "config.yaml"
    config.write_text(config_text(corpus, folder / "run"))
    quick = ("training.validation_bleu=false", "training.log_every=1")
    return Started("train", config, "--nproc-per-node", "2", *quick, *overrides, before=os.setsid)


@pytest.fixture
def ranks_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """A function from the lines of a program to its place as what the launcher starts.

    The lines know `rank` and `attempt`, from 1; `attempts` below counts those of a rank. One that is to fail calls
    `wait_for` the other first: else the launcher may end that before it has counted its attempt.
    """
    before = {number: signal.getsignal(number) for number in signal.Signals}
    for name in ("OMP_NUM_THREADS", "TORCH_ELASTIC_SHUTDOWN_TIMEOUT", STARTED, *OF_A_LAUNCHER):
        monkeypatch.setenv(name, "to be forgotten after the test, as what the launcher sets")
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def put(lines: str) -> None:
        (tmp_path / "nmt").mkdir()
        (tmp_path / "nmt" / "__init__.py").touch()
        (tmp_path / "nmt" / "__main__.py").write_text(
            "import json, os, pathlib, signal, sys, time\n"
            "rank = int(os.environ['RANK'])\n"
            "with open(f'attempts-{rank}', 'a') as file: file.write('x')\n"
            "attempt = len(pathlib.Path(f'attempts-{rank}').read_text())\n"
            "def attempts(rank):\n"
            "    file = pathlib.Path(f'attempts-{rank}')\n"
            "    return len(file.read_text()) if file.exists() else 0\n"
            "def wait_for(rank):\n"
            "    while attempts(rank) < attempt: time.sleep(0.01)\n" + lines
        )

    yield put
    for number, handler in before.items():
        if signal.getsignal(number) != handler and handler is not None:
            signal.signal(number, handler)


def attempts(rank: int) -> int:
    return len(Path(f"attempts-{rank}").read_text())


def test_ranks_are_told_who_they_are_and_share_the_cores(ranks_that: Callable[[str], None]) -> None:
    ranks_that("json.dump([sys.argv[1:], dict(os.environ)], open(f'told-{rank}', 'w'))\n")
    assert launch.launch(["train", "a config", "model.layers=2"], 2, 0) == 0
    for rank in (0, 1):
        arguments, variables = json.loads(Path(f"told-{rank}").read_text())
        assert arguments == ["train", "a config", "model.layers=2"]
        told = {name: variables[name] for name in OF_A_LAUNCHER[:4]}
        assert told == {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank), "LOCAL_WORLD_SIZE": "2"}
        assert int(variables["OMP_NUM_THREADS"]) == max(1, usable_cores() // 2)
        assert int(variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) >= 600  # seconds, to finish a step and save


def test_after_a_rank_was_killed_all_start_again(ranks_that: Callable[[str], None]) -> None:
    """And the job has no more time than before."""
    ranks_that(
        f"open(f'started-{{attempt}}', 'w').write(os.environ[{STARTED!r}])\n"
        "if attempt == 1 and rank == 1:\n"
        "    wait_for(0)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "if attempt == 1: time.sleep(60)\n"
    )
    before = time.time()
    assert launch.launch([], 2, 3) == 0
    assert (attempts(0), attempts(1)) == (2, 2)
    (started,) = {Path(f"started-{attempt}").read_text() for attempt in (1, 2)}
    assert before <= float(started) <= time.time()


def test_restarts_end(ranks_that: Callable[[str], None]) -> None:
    ranks_that("os.kill(os.getpid(), signal.SIGKILL)\n")
    assert launch.launch([], 1, 1) == 1
    assert attempts(0) == 2


def test_stopped_a_job_saves(corpus: Path, tmp_path: Path) -> None:
    process = start(corpus, tmp_path, "training.max_steps=100000")
    while logged_rows(tmp_path / "run") < 3:
        assert process.runs
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGTERM)
    done = process.ended()
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert list((tmp_path / "run" / "state").glob("step-*.safetensors"))
    assert b"Traceback" not in done.stderr


def test_a_mistake_is_said_once_and_ends_the_job(corpus: Path, tmp_path: Path) -> None:
    done = start(corpus, tmp_path, "data.over_budget=error", "training.batch_tokens=16").ended()
    assert (done.returncode, done.stdout) == (1, b""), done.stderr
    assert done.stderr.count(b"error: ") == 1
    assert b"Traceback" not in done.stderr and b"restarting" not in done.stderr
