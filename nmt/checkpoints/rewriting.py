"""Changes a model file: whole or not at all, and not while another process trains there or has changed it."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from nmt.checkpoints import model_file, run_folder
from nmt.checkpoints.model_file import Checkpoint
from nmt.errors import NmtError
from nmt.files.outputs import check_folder
from nmt.files.text import file_stamp


@contextmanager
def rewriting(file: Path) -> Iterator[Callable[[Callable[[Checkpoint], Checkpoint]], None]]:
    """Yields a function that replaces the model file by what its argument makes of it. The folder of a run is locked
    until then. Raises NmtError before any work if the file cannot be written, and if it has changed meanwhile."""
    if file.is_dir():
        raise NmtError(f"{file}: an exported folder: change the model file, and export it again")
    # The mode, because an administrator may write into any file.
    if not (file.stat().st_mode & 0o222 and os.access(file, os.W_OK)):
        raise NmtError(f"{file}: is read-only: make it writable (chmod u+w), or change a copy")
    check_folder(file, file.resolve().parent, "model")
    run = model_file.run_folder(file.resolve().parent)
    is_run = (run / run_folder.CONFIG).is_file() and (run / "state").is_dir()
    with run_folder.locked(run) if is_run else nullcontext():
        stamp = file_stamp(file)

        def save(changed: Callable[[Checkpoint], Checkpoint]) -> None:
            checkpoint = model_file.load(file)
            if file_stamp(file) != stamp:
                raise NmtError(f"{file}: was changed by another program: run the command again")
            model_file.save(file, changed(checkpoint))

        yield save
