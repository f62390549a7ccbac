"""Whether what a command is asked to write can be written: known before the work, with nothing left behind."""

import errno
import tempfile
from collections.abc import Iterable
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


def check_output(path: Path, read: Iterable[Path] = ()) -> Path:
    """The file that an --output stands for, where links lead.

    Raises NmtError for a folder, where no file can be made, for the name of a packed file, and for one of the files
    that are `read` to make it. Nothing is left behind.
    """
    if path.is_dir():
        raise NmtError(f"{path}: a folder: choose another --output")
    with atomic.reporting(path, "--output"):
        whole = atomic.followed(path)
    check_not_read(path, read)
    if not is_special(path):
        if path.suffix == ".gz":
            raise NmtError(f"{path}: results are written unpacked: leave out .gz, and run gzip afterwards")
        check_folder(path, whole.parent)
    return whole


def check_not_read(path: Path, read: Iterable[Path]) -> None:
    """Raises NmtError for an output that would take the place of a file that is read; devices may be both."""
    if path.is_file() and any(other.exists() and path.samefile(other) for other in read):
        raise NmtError(f"{path}: is read here, and would be lost: choose another --output")


def is_special(path: Path) -> bool:
    """Whether a path is a device or a pipe: something to write into, that no file may take the place of."""
    return path.exists() and not path.is_file()
