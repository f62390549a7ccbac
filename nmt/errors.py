"""The one exception that a user is meant to see."""

import os
from pathlib import Path


class NmtError(Exception):
    """What the user can fix: its message names the file, line or key, the value and the way to fix it.

    The commands print the message without a traceback and exit with status 1. Anything else that
    escapes is a defect of ours and keeps its traceback.
    """


def no_such_file(path: Path) -> NmtError:
    """The error of a file that is not there; for a relative path it names the folder in which it was looked for."""
    return NmtError(f"{path}: no such file" + ("" if path.is_absolute() else f" in {current_folder()}"))


def current_folder() -> str:
    """The folder from which relative paths lead, for messages and records: valid Unicode, whatever its name."""
    try:
        return os.fsencode(Path.cwd()).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return "the current folder, which has been deleted"
