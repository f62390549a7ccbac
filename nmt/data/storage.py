"""The folder of prepared data: things named by the content they are made from, there whole or not at all."""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from nmt.errors import NmtError

log = logging.getLogger("nmt")
_UNFINISHED = ".unfinished"


def content_key(*parts: object) -> str:
    """16 hexadecimal digits that stand for the parts, which JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Have the folder to oneself, made if it is missing; wait while another process builds in it.

    What a killed process left unfinished is removed: whoever built it no longer holds the lock.
    """
    with _writing(store):
        store.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(store / "lock")
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            log.info("data: waiting for another process that prepares data in %s", store)
            lock.acquire()
    try:
        for left_over in store.glob(f"*{_UNFINISHED}"):
            shutil.rmtree(left_over)
        yield
    finally:
        lock.release()


def build(folder: Path, fill: Callable[[Path], object]) -> None:
    """Make `folder`, in which `fill` writes files: they are on the disk before the folder has its name.

    Raises what `fill` raises, NmtError where it is an error of the file system.
    """
    unfinished = folder.with_name(folder.name + _UNFINISHED)
    try:
        with _writing(folder):
            unfinished.mkdir()
            fill(unfinished)
            for path in (*unfinished.iterdir(), unfinished):
                _sync(path)
            unfinished.rename(folder)
            _sync(folder.parent)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NmtError(f"{folder}: cannot be written: {error.strerror or error}") from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
