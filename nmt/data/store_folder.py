"""The folder of prepared data. Each part has a name made from its content, and appears only when it is complete."""

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
    """A hash of the parts, which JSON must be able to hold: 16 hexadecimal digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


@contextmanager
def locked(store: Path) -> Iterator[None]:
    """Lock the folder, which is made if it is missing; wait while another process has the lock.

    Unfinished parts that a killed process left there are removed. Raises NmtError where the folder cannot be written.
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
    """Make `folder` with the files that `fill` writes into the path it is given; see `atomic.new_folder`.

    Raises what `fill` raises, but NmtError instead of an OSError.
    """
    with atomic.reporting(folder, _SETTING), atomic.new_folder(folder) as unfinished:
        fill(unfinished)
