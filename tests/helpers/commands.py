"""`nmt` in processes of their own that need not import PyTorch: each is a fork of one that has done so.

What only a process that starts from nothing shows, such as an import that is missing, tests by `python -m nmt` show.
"""

import atexit
import multiprocessing
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess

SECONDS = 120  # after which a command hangs
OF_A_LAUNCHER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PLACES = ("stdin", "stdout", "stderr")
# What the first process has imported when it forks.
_PRELOADED = ("nmt.commands.train", "nmt.commands.translate", "nmt.commands.evaluate")
_SERVER = multiprocessing.get_context("forkserver")


def environment(**more: str) -> dict[str, str]:
    """Ours, for a command that no launcher starts and that computes with one thread, and more."""
    alone = {name: value for name, value in os.environ.items() if name not in OF_A_LAUNCHER}
    return alone | {"OMP_NUM_THREADS": "1"} | more


def messages(stderr: str | bytes) -> str:
    """What was said, without the line that says which engine searches: it depends on the machine."""
    return re.sub(r"(?m)^search: .*\n", "", stderr if isinstance(stderr, str) else stderr.decode())


def is_running(process: int) -> bool:
    """Whether it has not ended. One that has ended stays, without its memory, until its parent asks for its status."""
    try:
        os.kill(process, 0)
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except ProcessLookupError:
        return False
    except FileNotFoundError:  # no /proc, or it ended between the two questions
        return True


class Started:
    """A command that runs: `nmt` with these arguments, `text` as standard input, in the environment with more.

    before: is called in the new process first; folder: where it works.
    """

    def __init__(
        self,
        *arguments: object,
        text: bytes = b"",
        before: Callable[[], None] | None = None,
        folder: Path | None = None,
        **more: str,
    ) -> None:
        _SERVER.set_forkserver_preload(list(_PRELOADED))
        self.arguments = [str(argument) for argument in arguments]
        self._places = tempfile.TemporaryDirectory(prefix="nmt-command-")
        self.folder = Path(self._places.name)
        (self.folder / "stdin").write_bytes(text)
        given = (self.arguments, self.folder, environment(**more), before, folder)
        self._process = _SERVER.Process(target=_run, args=given)
        self._process.start()
        atexit.register(self._kill)  # or pytest would wait for what a failed test has left

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.is_alive()

    def send_signal(self, number: signal.Signals) -> None:
        assert self.runs
        os.kill(self.pid, number)

    def ended(self) -> CompletedProcess[bytes]:
        """How it ended; one that hangs is killed, and fails the test."""
        self._process.join(SECONDS)
        if self.runs:
            self._kill()
            raise AssertionError(f"nmt {' '.join(self.arguments)} hangs: {self._said('stderr').decode()}")
        assert self._process.exitcode is not None
        done = CompletedProcess(self.arguments, self._process.exitcode, self._said("stdout"), self._said("stderr"))
        atexit.unregister(self._kill)
        self._places.cleanup()
        return done

    def _kill(self) -> None:
        self._process.kill()

    def _said(self, name: str) -> bytes:
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""


def run(
    *arguments: object,
    text: bytes = b"",
    before: Callable[[], None] | None = None,
    folder: Path | None = None,
    **more: str,
) -> CompletedProcess[bytes]:
    """Start such a command, and wait for its end."""
    return Started(*arguments, text=text, before=before, folder=folder, **more).ended()


def _run(
    arguments: list[str],
    folder: Path,
    variables: Mapping[str, str],
    before: Callable[[], None] | None,
    works_in: Path | None,
) -> None:
    import torch

    from nmt.cli.app import main

    os.environ.clear()
    os.environ.update(variables)
    for number, name in enumerate(_PLACES):
        opened = os.open(folder / name, os.O_RDWR | os.O_CREAT | (0 if name == "stdin" else os.O_APPEND))
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    torch.set_num_threads(int(variables["OMP_NUM_THREADS"]))  # PyTorch has read the server's
    sys.argv = ["nmt", *arguments]
    if works_in is not None:
        os.chdir(works_in)
    if before is not None:
        before()
    main()
