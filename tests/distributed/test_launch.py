"""`nmt train --nproc-per-node N` and torchrun: what becomes of a job whose ranks are stopped, killed or wrong."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
import typer
from helpers.commands import OF_A_LAUNCHER, SECONDS, Started, is_running
from helpers.runs import config_text, logged_rows, rows_of, rows_without_clock
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.launcher.api import LaunchConfig

from nmt.cli import terminal
from nmt.distributed import launch
from nmt.distributed.environment import SAVED, STARTED, mark_saved
from nmt.errors import NmtError
from nmt.files import tensors
from nmt.machine import usable_cores

TWO = ("--nproc-per-node", "2")
QUICK = ("training.validation_bleu=false", "training.log_every=1")


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str


def start(*arguments: object, **more: str) -> Started:
    """`nmt train` with these arguments, in a process group of its own."""
    return Started("train", *arguments, before=os.setsid, **more)


def ended(process: Started) -> Ended:
    """How it ended; one that hangs fails the test."""
    end = time.monotonic() + SECONDS
    while process.runs and time.monotonic() < end:
        time.sleep(0.01)
    if process.runs:
        for child in ranks_of(process).values():
            os.kill(child, signal.SIGKILL)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"it hangs: {process.ended().stderr.decode()}")
    done = process.ended()
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def train(*arguments: object, **more: str) -> Ended:
    """`nmt train` with these arguments, to its end."""
    return ended(start(*arguments, **more))


def ranks_of(launcher: Started) -> dict[int, int]:
    """The process of each rank that runs."""
    found = {}
    try:
        children = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return {}
    for child in children:
        try:
            variables = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):  # it has ended since
            continue
        found |= {int(name[5:]): int(child) for name in variables if name.startswith(b"RANK=")}
    return found


def wait_until(process: Started, true: Callable[[], bool]) -> None:
    """Poll, as long as the process runs and has not had time enough."""
    end = time.monotonic() + SECONDS
    while not true():
        assert process.runs and time.monotonic() < end, ended(process)
        time.sleep(0.002)


def newest(folder: Path) -> Path:
    return max((folder / "state").glob("step-*.safetensors"))


def step_of(folder: Path) -> int:
    return int(newest(folder).stem.partition("-")[2])


def write_config(corpus: Path, folder: Path) -> Path:
    """A config of a run in folder/run."""
    path = folder / "config.yaml"
    path.write_text(config_text(corpus, folder / "run"))
    return path


# --------------------------------------------------------------------------- the launcher, with ranks that do nothing


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
            "def wait_to_be_ended(): time.sleep(60)\n"
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
        assert variables["MASTER_ADDR"] and int(variables["MASTER_PORT"]) > 0
        assert int(variables["OMP_NUM_THREADS"]) == max(1, usable_cores() // 2)
        assert int(variables["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"]) >= 600  # seconds, to finish a step and save


def test_what_the_user_has_set_stays(ranks_that: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("OMP_NUM_THREADS", "7"), (STARTED, "1500000000")):
        monkeypatch.setenv(name, value)
    ranks_that(f"sys.exit((os.environ['OMP_NUM_THREADS'], os.environ[{STARTED!r}]) != ('7', '1500000000'))\n")
    assert launch.launch([], 1, 0) == 0


def test_after_a_rank_was_killed_all_start_again(
    ranks_that: Callable[[str], None], caplog: pytest.LogCaptureFixture
) -> None:
    """And the job has no more time than before."""
    ranks_that(
        f"open(f'started-{{attempt}}', 'w').write(os.environ[{STARTED!r}])\n"
        "if attempt <= 2 and rank == attempt - 1:\n"
        "    wait_for(1 - rank)\n"
        "    os.kill(os.getpid(), [signal.SIGKILL, signal.SIGSEGV][rank])\n"
        "if attempt <= 2: wait_to_be_ended()\n"
    )
    before = time.time()
    assert launch.launch([], 2, 3) == 0
    assert (attempts(0), attempts(1)) == (3, 3)
    (started,) = {Path(f"started-{attempt}").read_text() for attempt in (1, 2, 3)}
    assert before <= float(started) <= time.time()
    assert [record.getMessage() for record in caplog.records if record.name == "nmt"] == [
        "rank 0 was killed by SIGKILL",
        "restarting all ranks from the last save (restart 1 of 3)",
        "rank 1 was killed by SIGSEGV",
        "restarting all ranks from the last save (restart 2 of 3)",
    ]


@pytest.mark.parametrize(
    ("number", "saves", "status"),
    [(signal.SIGTERM, True, 0), (signal.SIGTERM, False, 143), (signal.SIGINT, True, 130), (signal.SIGQUIT, True, 131)],
)
def test_a_job_that_was_stopped_ends_well_if_it_has_saved(
    ranks_that: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    saves: bool,
    status: int,
) -> None:
    def starter(config: LaunchConfig, _: str) -> Callable[..., None]:
        def stopped(*_: object) -> None:
            if saves:
                of_rank = Path(config.logs_specs.root_log_dir) / "job" / "attempt_0" / "0" / "error.json"
                of_rank.parent.mkdir(parents=True)
                monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(of_rank))
                mark_saved()
            raise SignalException("stopped", number)

        return stopped

    monkeypatch.setattr(launch, "elastic_launch", starter)
    assert launch.launch([], 1, 3) == status


def test_only_the_first_rank_says_that_all_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may end before a save of the first has failed."""
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "0" / "error.json"))
    for name, value in {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)
    for number, marked in (("1", False), ("0", True)):
        monkeypatch.setenv("RANK", number)
        mark_saved()
        assert (tmp_path / SAVED).exists() == marked


def test_what_is_ignored_is_not_passed_on_to_the_ranks(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        handled = launch._one_machine(2, str(tmp_path)).signals_to_handle.split(",")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert sorted(handled) == ["SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1"]


@pytest.mark.thorough
def test_restarts_end(ranks_that: Callable[[str], None], caplog: pytest.LogCaptureFixture) -> None:
    ranks_that("os.kill(os.getpid(), signal.SIGKILL) if rank == 1 else wait_to_be_ended()\n")
    assert launch.launch([], 2, 1) == 1
    assert attempts(1) == 2
    assert caplog.text.count("rank 1 was killed by SIGKILL") == 2 and caplog.text.count("restarting all ranks") == 1


@pytest.mark.parametrize(("status", "of_the_job"), [(2, 1), (130, 130)])
def test_a_rank_that_ends_with_an_error_of_its_own_is_not_started_again(
    ranks_that: Callable[[str], None], caplog: pytest.LogCaptureFixture, status: int, of_the_job: int
) -> None:
    ranks_that(f"if rank == 1: sys.exit({status})\nwait_to_be_ended()\n")
    assert launch.launch([], 2, 3) == of_the_job
    assert attempts(1) == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


# --------------------------------------------------------------------------- killed


KILLED = ("training.max_steps=100", "training.validate_every=50", "training.checkpoint_every=25", *QUICK)


@pytest.fixture(scope="module")
def undisturbed(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ended]:
    """The folder of a run of two ranks, with dropout, and what it said. A WORLD_SIZE alone does not make a rank."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return folder / "run", train(write_config(corpus, folder), *TWO, *KILLED, WORLD_SIZE="1")


@pytest.mark.thorough
def test_a_run_whose_rank_is_killed_ends_as_if_it_had_not_been(
    undisturbed: tuple[Path, Ended], corpus: Path, tmp_path: Path
) -> None:
    whole, _ = undisturbed
    process = start(write_config(corpus, tmp_path), *TWO, *KILLED)
    wait_until(process, lambda: bool(list((tmp_path / "run" / "state").glob("step-*.safetensors"))))  # to go on from
    os.kill(ranks_of(process)[1], signal.SIGKILL)
    done = ended(process)
    assert done.status == 0, done.stderr
    assert done.stderr.count("rank 1 was killed by SIGKILL") == 1 and "restarting all ranks" in done.stderr
    assert re.search(r"resuming .* at step [1-9]", done.stderr)
    assert done.stdout == f"{tmp_path}/run/best.safetensors\n"
    ours, theirs = (tensors.read(newest(run))[0] for run in (whole, tmp_path / "run"))
    assert step_of(tmp_path / "run") == 100
    assert ours.keys() == theirs.keys() and any(name.startswith("optimizer.exp_avg_sq.") for name in ours)
    assert [name for name, tensor in ours.items() if not torch.equal(tensor, theirs[name])] == []
    assert rows_without_clock(whole) == rows_without_clock(tmp_path / "run")


@pytest.mark.thorough
def test_a_save_of_the_first_rank_that_fails_ends_the_job(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    rare = ("training.max_steps=100000", "training.validate_every=100000", "training.checkpoint_every=100")
    process = start(write_config(corpus, tmp_path), *TWO, *rare, *QUICK)
    wait_until(process, lambda: logged_rows(run) > 0)
    (run / "checkpoints").write_text("in the way")
    done = ended(process)
    assert (done.status, done.stdout) == (1, "")
    (said,) = [line for line in done.stderr.split("\n") if line.startswith("error: ")]
    assert f"{run}/checkpoints" in said and "no state had been saved" in said
    assert "Traceback" not in done.stderr
    assert logged_rows(run) <= 200
    (run / "checkpoints").unlink()
    done = train(tmp_path / "config.yaml", *TWO, "training.max_steps=10", *QUICK)
    assert done.status == 0, done.stderr


@pytest.mark.thorough
def test_a_rank_ends_with_its_launcher(corpus: Path, tmp_path: Path) -> None:
    """One that is alone too; it saves."""
    run = tmp_path / "run"
    endless = ("training.max_steps=100000", "training.checkpoint_every=100000", *QUICK)
    process = start(write_config(corpus, tmp_path), "--nproc-per-node", 1, *endless)
    wait_until(process, lambda: logged_rows(run) > 0)
    (rank,) = ranks_of(process).values()
    os.kill(process.pid, signal.SIGKILL)
    end = time.monotonic() + SECONDS
    while is_running(rank):
        assert time.monotonic() < end
        time.sleep(0.01)
    process.ended()
    assert "SIGTERM: saved at step" in (run / "train.log").read_text()


@pytest.mark.thorough
def test_the_first_rank_alone_writes_and_speaks(undisturbed: tuple[Path, Ended]) -> None:
    folder, done = undisturbed
    assert done.status == 0, done.stderr
    assert done.stdout == f"{folder}/best.safetensors\n"
    rows = rows_without_clock(folder)
    assert [row["step"] for row in rows if "loss" in row] == list(range(1, 101))
    assert [row["step"] for row in rows if "validation_loss" in row] == [50, 100]
    logged = (folder / "train.log").read_text()
    for line in ("step 7 of 100  ", "step 100 of 100  ", "step 100  validation_loss", "training: about ", "done: "):
        assert (logged.count(line), done.stderr.count(line)) == (1, 1), line
    assert "2 ranks, cpu" in logged
    assert {path.name for path in folder.iterdir()} == {
        "config.yaml", "metrics.jsonl", "samples.jsonl", "sessions.jsonl", "train.log", "checkpoints",
        "best.safetensors", "state",
    }  # fmt: skip
    started, finished = rows_of(folder / "sessions.jsonl")
    assert (started["ranks"], started["step"], finished["event"], finished["step"]) == (2, 0, "finished", 100)


# --------------------------------------------------------------------------- stopped


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 0, marks=pytest.mark.thorough)]
)
def test_stopped_a_job_saves(corpus: Path, tmp_path: Path, number: signal.Signals, status: int) -> None:
    """The terminal sends Ctrl-C to all processes that it knows of."""
    process = start(write_config(corpus, tmp_path), *TWO, *QUICK, "training.max_steps=100000")
    wait_until(process, lambda: logged_rows(tmp_path / "run") >= 3)
    os.killpg(process.pid, number)
    done = ended(process)
    assert (done.status, done.stdout) == (status, ""), done.stderr
    assert f"{number.name}: saved at step {step_of(tmp_path / 'run'):,}" in done.stderr
    assert "Traceback" not in done.stderr and done.stderr.count("Ctrl-C again") == (number == signal.SIGINT)


# --------------------------------------------------------------------------- wrong


def run_ranks(config: Path, *overrides: tuple[str, ...]) -> list[Ended]:
    """A rank for each tuple of settings, started as by a scheduler: by environment variables alone."""
    with_free_port = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
    port = subprocess.run([sys.executable, "-c", with_free_port], capture_output=True, text=True).stdout.strip()
    size = str(len(overrides))
    processes = [
        start(
            config, *settings_, RANK=str(rank), WORLD_SIZE=size, LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=size,
            MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
        )
        for rank, settings_ in enumerate(overrides)
    ]  # fmt: skip
    return [ended(process) for process in processes]


def test_a_rank_with_another_setting_is_found_at_the_start(corpus: Path, tmp_path: Path) -> None:
    """And that setting alone is named, before one that has the rank do something which the other waits for.

    No launcher ends the second rank here, so it speaks too, in the end.
    """
    config = write_config(corpus, tmp_path)
    first, second = run_ranks(config, QUICK, (*QUICK, "training.micro_batch_tokens=auto"))
    what = "the ranks do not agree on training.micro_batch_tokens: rank 0 has null, rank 1 has auto: "
    for rank, said in ((first, "error: "), (second, "error: rank 1: ")):
        assert (rank.status, rank.stdout) == (1, "")
        message = rank.stderr.partition("error: ")[2]
        assert ("error: " + message).startswith(said + what) and message.count("\n") == 1
        assert "Traceback" not in rank.stderr
    assert not list((tmp_path / "run" / "state").glob("step-*"))


def test_a_mistake_is_said_once_and_ends_the_job(corpus: Path, tmp_path: Path) -> None:
    overrides = ("data.over_budget=error", "training.batch_tokens=16")  # in conflict with the data
    done = train(write_config(corpus, tmp_path), *TWO, *QUICK, *overrides)
    assert (done.status, done.stdout) == (1, ""), done.stderr
    assert done.stderr.count("error: ") == 1 and "data.over_budget: skip" in done.stderr.partition("error: ")[2]
    assert "Traceback" not in done.stderr and "restarting" not in done.stderr


def test_what_one_rank_has_said_the_others_leave_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However late the first rank comes, as on a machine with more to do: here it is the last."""

    def says(rank: int, message: str) -> str:
        for name, value in {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "here", "MASTER_PORT": "1"}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / str(rank) / "error.json"))
        with pytest.raises(typer.Exit) as status, terminal.reporting(rank_of_a_job=True):
            raise NmtError(message)
        assert status.value.exit_code == 1
        return capsys.readouterr().err

    monkeypatch.setattr(terminal, "_FIRST_RANKS_TURN", 0)
    assert says(1, "a.en: empty") == "error: rank 1: a.en: empty\n"
    assert says(0, "a.en: empty") == ""
    assert says(0, "b.en: empty") == "error: b.en: empty\n"


def test_a_rank_does_not_start_ranks(corpus: Path, tmp_path: Path) -> None:
    of_a_cluster = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "29500"}
    done = train(write_config(corpus, tmp_path), *TWO, **of_a_cluster)
    assert (done.status, done.stdout) == (1, "")
    assert done.stderr.startswith("error: --nproc-per-node 2: ") and done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
