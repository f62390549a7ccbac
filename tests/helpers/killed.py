"""A process that is killed in the middle of its work."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_OPERATIONS = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link")


def killed_at_operation(number: int, folder: Path, work: Callable[[], object]) -> bool:
    """Do the work in another process, which is killed just before its operation of this number, counted from 1, that
    changes a file or a folder in `folder`. Returns False if it has fewer, and so has done its work."""
    left = number

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal left
        changes = event in _OPERATIONS or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if changes and isinstance(arguments[0], str | Path) and str(arguments[0]).startswith(str(folder)):
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    return _forked(lambda: (sys.addaudithook(count), work()))


def killed_at_call(number: int, owner: Any, name: str, work: Callable[[], object]) -> bool:
    """The same, but killed at this call of a function or method of `owner`."""
    real, left = getattr(owner, name), number

    def count(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        return real(*arguments) if left else os.kill(os.getpid(), signal.SIGKILL)

    return _forked(lambda: (setattr(owner, name, count), work()))


def _forked(work: Callable[[], object]) -> bool:
    if (process := os.fork()) == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert status in (0, -signal.SIGKILL), "the work failed"
    return status != 0
