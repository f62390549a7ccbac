"""The folder of prepared data: things named by the content they are made from, there whole or not at all."""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nmt.files import atomic

log = logging.getLogger("nmt")
_SETTING = "data.store_dir"


def content_key(*parts: object) -> str:
    """16 hexadecimal digits that stand for the parts, which JSON can hold."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Have the folder to oneself, made if it is missing; wait while another process builds in it.

    What a killed process left unfinished there is removed. Raises NmtError where the folder cannot be written.
    """

    def waiting() -> None:
        log.info("data: waiting for another process that prepares data in %s", store)

    with ExitStack() as held:
        with atomic.reporting(store, _SETTING):
            atomic.make_folder(store)
            held.enter_context(atomic.locked(store, waiting))
            atomic.remove_unfinished(store)
        yield


def build(folder: Path, fill: Callable[[Path], object]) -> None:
    """Make `folder`, in which `fill` writes files: they are on the disk before the folder has its name.

    Raises what `fill` raises, NmtError where it is an error of the file system.
    """
    with atomic.reporting(folder, _SETTING), atomic.new_folder(folder) as unfinished:
        fill(unfinished)
