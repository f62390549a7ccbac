"""Files and folders that appear whole or not at all, whatever fails and whoever else writes.

What is written is first made in a folder `.nmt-….part` beside its place, synced to the disk, and then renamed. Such a
folder belongs to one writer, so two that write the same file at once do not meet: the last one that is done wins. A
process that is killed leaves its folder behind, and the next one that writes there removes it. It removes nothing
else: the folder's name carries a checksum that no other program computes, and its lock shows that no process uses it.
"""

import errno
import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from pathlib import Path

from nmt.errors import NmtError

log = logging.getLogger("nmt")

LOCK = ".nmt-lock"  # the name of a lock file, of our own lest it be the user's
_UNFINISHED = re.compile(r"\.nmt-([0-9a-f]{16})([0-9a-f]{16})\.part")
_CONTENT = "content"
_NO_FOLDER_SYNC = {errno.EINVAL, errno.EACCES, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP}
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class HeldByAnother(Exception):
    """Another process holds the lock."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path at which to write a file; on leaving, that file takes the place of `path`, where links lead.

    It is on the disk before it has the name. After an exception everything is as it was before. A file that is replaced
    keeps its permissions. Raises OSError where a folder, a device or a pipe is at `path`, and what the system raises.
    """
    place = followed(path)
    if place.exists() and not place.is_file():
        raise OSError(errno.EINVAL, "a folder, a device or a pipe, not a file")
    with _unfinished(place.parent) as content:
        content.touch()
        mode = (place if place.exists() else content).stat().st_mode & 0o777
        yield content
        content.chmod(mode)  # some libraries let the owner alone read
        sync(content)
        content.replace(place)
        _sync_folder(place.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Have a file hold these bytes; see `replacing`."""
    with replacing(path) as content:
        content.write_bytes(data)


def write_text(path: Path, text: str) -> None:
    """Have a file hold this text, in UTF-8; see `replacing`."""
    write_bytes(path, text.encode())


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """A folder in which to write files; on leaving, it takes the name `path`, all of it on the disk by then.

    Its parents are made. After an exception there is no such folder. Raises OSError where `path` is there and not
    empty, and what the system raises.
    """
    make_folder(path.parent)
    with _unfinished(path.parent) as content:
        content.mkdir()
        yield content
        for folder, _, files in os.walk(content):
            for name in files:
                sync(Path(folder, name))
            sync(Path(folder))
        content.rename(path)
        _sync_folder(path.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and its parents where they are missing; they are on the disk when this returns."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for one in reversed(missing):
        _sync_folder(one.parent)


def followed(path: Path) -> Path:
    """Where a path's links lead. Raises OSError for links that lead to one another in a circle."""
    place = Path(os.path.realpath(path))
    if place.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return place


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Wait until a folder's list of names is on the disk, where the file system and the permissions allow it."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


@contextmanager
def locked(folder: Path, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Have a folder that is there to oneself, among those who ask for this lock; the system frees it if one dies.

    Gives the descriptor of the lock file.

    Where another process has it: call `waiting` and wait, or without that raise HeldByAnother. Raises OSError where
    the lock file cannot be made, or the folder was removed meanwhile. Where the file system has no locks, a warning
    says so.
    """
    descriptor = _open_lock(folder)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                raise HeldByAnother from None
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _warn_of_no_locks()
        if os.fstat(descriptor).st_nlink == 0:  # whoever had the lock has removed it, with the folder
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        yield descriptor
    finally:
        os.close(descriptor)


@cache
def _warn_of_no_locks() -> None:
    """Once a process."""
    log.warning("this file system has no locks: do not run two commands that write into one folder at the same time")


@contextmanager
def reporting(path: Path, setting: str) -> Iterator[None]:
    """Turn an error of the file system into an NmtError that says what could not be written and what to do.

    setting: what the user can change to have it written elsewhere, such as --output.
    """
    try:
        yield
    except OSError as error:
        raise not_written(path, error, setting) from error


def not_written(path: Path, error: OSError, setting: str) -> NmtError:
    """The NmtError for a path that could not be written."""
    advice = f"free some space, or choose another {setting}" if error.errno in _FULL else f"choose another {setting}"
    return NmtError(f"{path}: cannot be written: {error.strerror or error}: {advice}")


def remove_unfinished(folder: Path) -> None:
    """Remove what killed processes have left unfinished in a folder, as far as the system lets us."""
    with suppress(OSError):
        for one in list(folder.iterdir()):
            if _is_ours(one.name) and not one.is_symlink():
                _remove_if_left(one)


def _remove_if_left(unfinished: Path) -> None:
    """Remove such a folder if its writer has died, which is known by its lock."""
    with suppress(OSError):
        descriptor = _open_lock(unfinished)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(descriptor).st_nlink:  # else another process has removed it
                shutil.rmtree(unfinished)
        finally:
            os.close(descriptor)


@contextmanager
def _unfinished(parent: Path) -> Iterator[Path]:
    """A path in a new folder beside the place that it is meant for, to make something at."""
    remove_unfinished(parent)
    with ExitStack() as held:
        while True:
            random = secrets.token_hex(8)
            folder = parent / f".nmt-{random}{_checksum(random)}.part"
            folder.mkdir(mode=0o700)
            held.callback(shutil.rmtree, folder, ignore_errors=True)
            # Until we have the lock, another process may take the folder for left behind, and remove it.
            with suppress(FileNotFoundError, HeldByAnother):
                held.enter_context(locked(folder))
                break
        yield folder / _CONTENT


def _open_lock(folder: Path) -> int:
    return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def _is_ours(name: str) -> bool:
    match = _UNFINISHED.fullmatch(name)
    return match is not None and match[2] == _checksum(match[1])


def _checksum(random: str) -> str:
    return hashlib.sha256(f"a folder of nmt, unfinished: {random}".encode()).hexdigest()[:16]
