"""Whether what a command is asked to write can be written: known before the work, with nothing left behind."""

import errno
import tempfile
from pathlib import Path

from nmt.errors import NmtError
from nmt.files import atomic


def check_folder(output: Path, folder: Path) -> None:
    """Raises NmtError unless a file can be made in `folder`, in which `output` is to be written."""
    if not folder.is_dir():
        raise NmtError(f"{output}: no folder {folder}: make it first, or choose another --output")
    try:
        tempfile.TemporaryFile(dir=folder).close()  # has no name where the system allows that
    except OSError as error:
        reason = "the folder is not writable" if error.errno in (errno.EACCES, errno.ENOENT) else error.strerror
        raise NmtError(f"{output}: cannot be written: {reason}: choose another --output") from None


def check_new_folder(output: Path) -> None:
    """Raises NmtError unless a folder `output` can be written to, or made together with its missing parents."""
    with atomic.reporting(output, "--output"):
        place = atomic.followed(output)
    existing = next(one for one in (place, *place.parents) if one.exists())
    if not existing.is_dir():
        what = "a file" if existing == place else f"{existing} is a file"
        raise NmtError(f"{output}: {what}, not a folder: choose another --output")
    check_folder(output, existing)
