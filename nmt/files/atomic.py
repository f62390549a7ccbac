"""Atomic writes: a file or folder appears only when it is complete, even if the process is killed.

Content is first written in a folder `.nmt-….part` next to its destination, synced to the disk, and then renamed. Each
writer has its own such folder, so processes can write the same file at once: the last to finish wins. A killed process
leaves its folder behind, and the next writer there removes it. No other folder is removed: the name has a checksum that
no other program computes, and the lock in it shows that no process uses it.
"""

import errno
import hashlib
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from io import FileIO
from pathlib import Path

from nmt.errors import NmtError

try:
    import fcntl
except ModuleNotFoundError:
    raise NmtError("nmt runs on Linux and macOS: on Windows, install it in WSL (Windows Subsystem for Linux)") from None

log = logging.getLogger("nmt")

LOCK = ".nmt-lock"  # the name of lock files, which no file of a user has
_UNFINISHED = re.compile(r"\.nmt-([0-9a-f]{16})([0-9a-f]{16})\.part")
_NO_FOLDER_SYNC = {errno.EINVAL, errno.EACCES, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP}
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class HeldByAnother(Exception):
    """Another process holds the lock."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a temporary path to write to. On exit the file there replaces `path`. Symbolic links are followed.

    The content is synced to the disk before it is renamed. After an exception nothing has changed. A file that is
    replaced keeps its permissions. Raises OSError if `path` is a folder, a device or a pipe, and for any other failure.
    """
    target = followed(path)
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "a folder, a device or a pipe, not a file")
    with _unfinished(target.parent) as content:
        content.touch()
        mode = (target if target.exists() else content).stat().st_mode & 0o777
        yield content
        content.chmod(mode)  # some libraries write files that only the owner can read
        sync(content)
        content.replace(target)
        _sync_folder(target.parent)


def write_text(path: Path, text: str) -> None:
    """Write a file in UTF-8 as `replacing` does."""
    with replacing(path) as content:
        content.write_bytes(text.encode())


def write_new_text(path: Path, text: str) -> None:
    """As `write_text`, but raises FileExistsError if the file or a link exists, even if it was made just now."""
    with _unfinished(path.parent) as content:
        content.write_bytes(text.encode())
        sync(content)
        try:
            os.link(content, path)  # unlike renaming, this never replaces a file
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from None
            content.rename(path)
        _sync_folder(path.parent)


def write_all(file: FileIO, content: bytes) -> None:
    """Append to a file that was opened without a buffer, also if an almost full disk writes only a part at first.
    Raises OSError."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder to write files in. On exit it is synced to the disk and renamed to `path`.

    Missing parent folders are made. After an exception there is no folder `path`. Raises OSError if `path` exists and
    is not empty, and for any other failure.
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
    """Make a folder and its parents if they are missing, and sync them to the disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in reversed(missing):
        _sync_folder(path.parent)


def followed(path: Path) -> Path:
    """The path with symbolic links resolved. Raises OSError for links that form a loop."""
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


def sync(path: Path) -> None:
    """Sync a file's content, or a folder's list of names, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    """Sync a folder's list of names to the disk, if the file system and the permissions allow it."""
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise


@contextmanager
def locked(folder: Path, waiting: Callable[[], None] | None = None) -> Iterator[int]:
    """Lock an existing folder. Gives the descriptor of the lock file. The system releases the lock if the process dies.

    If another process has the lock, calls `waiting` and waits, or raises HeldByAnother if `waiting` is None. Raises
    OSError if the lock file cannot be made, or if the folder was removed meanwhile. Logs a warning if the file system
    has no locks.
    """
    with open(_open_lock(folder), "rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waiting is None:
                raise HeldByAnother from None
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            _warn_of_no_locks()
        if os.fstat(lock.fileno()).st_nlink == 0:  # the process that had the lock has removed the folder
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
        yield lock.fileno()


@cache
def _warn_of_no_locks() -> None:
    """Log a warning once per process (the function is cached)."""
    log.warning("this file system has no locks: do not run two commands that write into one folder at the same time")


@contextmanager
def reporting(path: Path, setting: str) -> Iterator[None]:
    """Turn an OSError into an NmtError. setting: the option or setting that decides where the path is, such as
    --output."""
    try:
        yield
    except OSError as error:
        space = "free some space, or " if error.errno in _FULL else ""
        reason = error.strerror or error
        raise NmtError(f"{path}: cannot be written: {reason}: {space}choose another {setting}") from error


def remove_unfinished(folder: Path) -> None:
    """Remove unfinished content that killed processes have left in a folder, if permissions allow it."""
    with suppress(OSError):
        for path in list(folder.iterdir()):
            name = _UNFINISHED.fullmatch(path.name)
            if name and name[2] == _checksum(name[1]) and not path.is_symlink():
                _remove_if_left(path)


def _remove_if_left(unfinished: Path) -> None:
    """Remove an unfinished folder if no process has its lock."""
    with suppress(OSError), open(_open_lock(unfinished), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock.fileno()).st_nlink:  # otherwise another process has removed it
            shutil.rmtree(unfinished)


@contextmanager
def _unfinished(parent: Path) -> Iterator[Path]:
    """Give a path in a new locked folder in `parent`, for content that is not complete yet."""
    remove_unfinished(parent)
    with ExitStack() as held:
        while True:
            random = secrets.token_hex(8)
            folder = parent / f".nmt-{random}{_checksum(random)}.part"
            folder.mkdir(mode=0o700)
            held.callback(shutil.rmtree, folder, ignore_errors=True)
            # Before it is locked, another process may remove the folder, because it looks unused.
            with suppress(FileNotFoundError, HeldByAnother):
                held.enter_context(locked(folder))
                break
        yield folder / "content"


def _open_lock(folder: Path) -> int:
    return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def _checksum(random: str) -> str:
    return hashlib.sha256(f"a folder of nmt, unfinished: {random}".encode()).hexdigest()[:16]
