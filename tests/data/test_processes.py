"""Work shared among processes: results in order, and no process that is left over."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.commands import is_running

from nmt.data.processes import mapped


@pytest.mark.parametrize(("processes", "serial_first", "jobs"), [(2, 3, 3), (2, 3, 40)])
def test_results_are_in_the_order_of_the_jobs(processes: int, serial_first: int, jobs: int) -> None:
    given = ((-number, str(number)) for number in range(jobs))
    assert list(mapped(int, given, processes, serial_first, "counts")) == [(-number, number) for number in range(jobs)]


def test_few_jobs_are_under_way_at_a_time() -> None:
    taken = 0

    def jobs():  # type: ignore[no-untyped-def]
        nonlocal taken
        for taken in range(100):
            yield taken, str(taken)

    for number, _ in mapped(int, jobs(), 2, 1, "counts"):
        assert taken - number <= 5


PROCESSES = """
import os, signal, sys
from multiprocessing import active_children
from nmt.data.processes import mapped

jobs = ((number, str(number)) for number in range(200_000))
if __name__ == "__main__":
    for number, found in mapped(int, jobs, 2, 1, "counts"):
        assert number == found
        if number == 2:
            print(*(child.pid for child in active_children()), flush=True)
            os.kill(os.getpid() if sys.argv[1] == "parent" else active_children()[0].pid, signal.SIGKILL)
"""


def test_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PROCESSES)
    with (tmp_path / "children").open("w") as output:  # a pipe would stay open while they run
        done = subprocess.run([sys.executable, str(script), "parent"], check=False, stdout=output)
    assert done.returncode == -signal.SIGKILL
    children = [int(word) for word in (tmp_path / "children").read_text().split()]
    assert len(children) == 2
    deadline = time.monotonic() + 30
    while any(map(is_running, children)):
        assert time.monotonic() < deadline, "they run on"
        time.sleep(0.05)


def test_a_killed_process_is_an_error(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PROCESSES)
    done = subprocess.run([sys.executable, str(script), "child"], check=False, capture_output=True, text=True)
    assert done.returncode == 1
    assert "NmtError: a process that counts was killed" in done.stderr
