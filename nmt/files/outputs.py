"""Check that an output can be written before a command starts its work. No file is left behind."""

import errno
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from nmt.errors import NmtError
from nmt.files import atomic, compression

# The files of a run, the settings last. Only training writes them, and its log train.log.
_SETTINGS = "config.yaml"
RUN_FILES = ("best.safetensors", "ema.safetensors", "metrics.jsonl", "samples.jsonl", "sessions.jsonl", _SETTINGS)
_STANDARD = {"/dev/stdin": "/dev/fd/0", "/dev/stdout": "/dev/fd/1", "/dev/stderr": "/dev/fd/2"}


def check_folder(output: Path, folder: Path, option: str = "--output") -> None:
    """Raises NmtError unless a file can be made in `folder`, where `output` will be written. option: its name in
    messages."""
    if not folder.is_dir():
        raise NmtError(f"{output}: no folder {folder}: make it first, or choose another {option}")
    try:
        tempfile.TemporaryFile(dir=folder).close()  # on most systems it has no name
    except OSError as error:
        reason = "the folder is not writable" if error.errno in (errno.EACCES, errno.ENOENT) else error.strerror
        raise NmtError(f"{output}: cannot be written: {reason}: choose another {option}") from None


def check_new_folder(output: Path) -> None:
    """Raises NmtError unless a folder `output` can be written to, or made together with its missing parents."""
    with atomic.reporting(output, "--output"):
        target = atomic.followed(output)
    existing = next(path for path in (target, *target.parents) if path.exists())
    if not existing.is_dir():
        problem = "a file" if existing == target else f"{existing} is a file"
        raise NmtError(f"{output}: {problem}, not a folder: choose another --output")
    check_folder(output, existing)


def check_output(path: Path, read: Iterable[Path] = (), option: str = "--output") -> Path:
    """The path of an output with symbolic links resolved. option: its name in messages.

    Raises NmtError if it is a folder, if no file can be made there, if its name has the ending of a compressed file, if
    it is an input of the command, a file of a run or a file of settings, and if it is a dash. (Commands that can write
    to standard output do not call this for a dash.)
    """
    if str(path) == "-":
        raise NmtError(f"{option} -: standard output is not possible here: name a file")
    if path.is_dir():
        raise NmtError(f"{path}: a folder: choose another {option}")
    with atomic.reporting(path, option):
        target = atomic.followed(path)
    if path.is_file() and any(other.exists() and path.samefile(other) for other in read):
        raise NmtError(f"{path}: is an input of this command and would be overwritten: choose another {option}")
    if path.is_file() and path.suffix.lower() in (".yaml", ".yml"):  # no command overwrites settings
        raise NmtError(f"{path}: is a file of settings and would be overwritten: choose another {option}")
    if _is_run_file(target):
        raise NmtError(f"{path}: is a file of the run itself: choose another {option}")
    if not is_special(path):
        if compression.ending_of(path):
            raise NmtError(f"{path}: output is not compressed: leave out {path.suffix}, and compress it afterwards")
        check_folder(path, target.parent, option)
    return target


def _is_run_file(path: Path) -> bool:
    """Whether a path is a file that training writes in a run folder."""
    in_subfolder = path.parent.name in ("checkpoints", "state")
    run = path.parent.parent if in_subfolder else path.parent
    is_run = (run / _SETTINGS).is_file() and any((run / folder).is_dir() for folder in ("checkpoints", "state"))
    return is_run and (in_subfolder or path.name in (*RUN_FILES, "train.log"))


def is_special(path: Path) -> bool:
    """Whether a path is a device, a pipe or an open file of this process, such as /dev/stdout. It is written to, and
    never replaced by a file."""
    return path.exists() and (not path.is_file() or _descriptor(path) is not None)


def open_special(path: Path) -> IO[str]:
    """Open a special file for text in UTF-8. The content of an open file is kept."""
    descriptor = _descriptor(path)
    if descriptor is None:
        return path.open("w", encoding="utf-8", newline="\n")
    return os.fdopen(os.dup(descriptor), "w", encoding="utf-8", newline="\n")


def _descriptor(path: Path) -> int | None:
    """The descriptor of the open file that a path names; None if it names none."""
    name = str(path.absolute())
    match = re.fullmatch(r"/(?:dev|proc/self)/fd/(\d+)", _STANDARD.get(name, name))
    return int(match[1]) if match else None
