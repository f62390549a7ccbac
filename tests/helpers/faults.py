"""Calls to the system that write made to fail, one at a time: the disk is full, it breaks, or the process is killed.

`Faults` replaces the functions of Python by which a process opens, writes, syncs, renames, removes, makes folders and
locks, and counts the calls. What libraries in other languages call is not seen, but for safetensors, whose one call
counts as a write.
"""

import builtins
import errno
import fcntl
import io
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

KINDS = ("ENOSPC", "EIO", "kill")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Function of os → which of its arguments is the path.
_CALLS = {
    "open": 0, "fsync": None, "rename": 1, "replace": 1, "link": 1, "unlink": 0, "remove": 0, "rmdir": 0, "mkdir": 0
}  # fmt: skip


class Faults:
    """Once installed, counts the calls that write below `root`, and has call number `at` (from 1) fail.

    kind: ENOSPC or EIO, or kill: the process ends there and then. log: a file that gets a line for each call.
    """

    def __init__(self, root: Path, at: int = 0, kind: str = "ENOSPC", log: Path | None = None) -> None:
        self.root, self.at, self.kind = os.path.realpath(root), at, kind
        self.calls: list[str] = []
        self._real = {name: getattr(os, name) for name in _CALLS}
        self._log = None if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._guard = threading.Lock()

    def install(self, put: Callable[[Any, str, Any], None] = setattr) -> None:
        """Replace the functions, by `put`: without another one, for the rest of this process's life."""
        from nmt.files import tensors as tensor_file

        for name, place in _CALLS.items():
            put(os, name, self._replaced(name, place))
        self._install_open(put)
        flock, save_file = fcntl.flock, tensor_file.save_file

        def failing_flock(descriptor: Any, operation: int) -> None:
            if operation & fcntl.LOCK_EX:
                self._call("lock", _path_of(descriptor))
            flock(descriptor, operation)

        def failing_save_file(tensors: Any, path: Path, metadata: Any) -> None:
            save_file({}, path, {})  # half a file is there when the disk refuses
            self._call("write", str(path))
            save_file(tensors, path, metadata)

        put(fcntl, "flock", failing_flock)
        put(tensor_file, "save_file", failing_save_file)

    def _install_open(self, put: Callable[[Any, str, Any], None]) -> None:
        call, real = self._call, builtins.open

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                try:
                    call("write", str(self.name))
                except OSError:
                    super().write(bytes(data)[: len(data) // 2])
                    raise
                return super().write(data) or 0

        def opened(file: Any, mode: str = "r", buffering: int = -1, *rest: Any, **more: Any) -> Any:
            if not isinstance(file, str | Path) or not set(mode) & set("wax+") or not self._is_below(str(file)):
                return real(file, mode, buffering, *rest, **more)
            call("open", str(file))
            raw = File(file, mode.replace("b", "").replace("t", ""))
            if buffering == 0:
                return raw
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **more)

        put(builtins, "open", opened)
        put(io, "open", opened)

    def _replaced(self, name: str, place: int | None) -> Callable[..., Any]:
        real = self._real[name]

        def call(*arguments: Any, **named: Any) -> Any:
            if name != "open" or arguments[1] & _WRITING:
                path = _path_of(arguments[0]) if place is None else os.fspath(arguments[place])
                folder = named.get("dir_fd")
                self._call(name, path if folder is None else f"{_path_of(folder)}/{path}")
            return real(*arguments, **named)

        return call

    def _is_below(self, path: str) -> bool:
        return os.path.realpath(path).startswith(self.root + os.sep)

    def _call(self, name: str, path: str) -> None:
        if not self._is_below(path) and os.path.realpath(path) != self.root:
            return
        with self._guard:
            self.calls.append(f"{name} {os.path.relpath(os.path.realpath(path), self.root)}")
            if self._log is not None:
                os.write(self._log, self.calls[-1].encode() + b"\n")
            if len(self.calls) != self.at:
                return
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, self.kind)
        raise OSError(number, os.strerror(number), path)


def _path_of(descriptor: Any) -> str:
    with suppress(OSError):
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        return str(Path(f"/proc/self/fd/{number}").readlink())
    return ""


def install(root: Path, at: int, kind: str, log: Path) -> None:
    """`Faults(…).install()`, for a process that is to be started."""
    Faults(root, at, kind, log).install()
