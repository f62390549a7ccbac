"""The exception for problems that the user can fix."""

import os
from pathlib import Path


class NmtError(Exception):
    """A problem that the user can fix. The message names the file, line or key, the value, and how to fix it.

    Commands print the message without a traceback and exit with status 1. Any other exception is a bug in nmt and keeps
    its traceback.
    """


class NotAModelFile(NmtError):
    """The file at `path` is not a safetensors file, or is damaged."""

    def __init__(self, path: Path, why: object) -> None:
        problem = f"not a model file, or one that is cut short or damaged ({why})"
        if path.suffix in (".yaml", ".yml"):
            problem = "a file of settings, not a model: only translate, evaluate and serve take the file of an endpoint"
        if path.suffix == ".argosmodel":
            problem = "a package for Argos Translate, not for nmt: give the model file that was exported"
        super().__init__(f"{path}: {problem}")
        self.path = path


def no_such_file(path: Path) -> NmtError:
    """The error for a missing file. For a relative path it names the folder that the path starts from."""
    return NmtError(f"{path}: no such file" + ("" if path.is_absolute() else f" in {current_folder()}"))


def current_folder() -> str:
    """The current folder, for messages and records. Bytes in its name that are not Unicode are replaced."""
    try:
        return os.fsencode(Path.cwd()).decode("utf-8", errors="replace")
    except FileNotFoundError:
        return "the current folder, which has been deleted"


def in_one_line(error: BaseException) -> str:
    """An exception's message with its lines joined, or the exception's name."""
    return " ".join(str(error).split()) or type(error).__name__


def first_line(error: Exception) -> str:
    """The first line of an exception's message that is not empty, or the exception's name."""
    return next(filter(None, str(error).split("\n")), type(error).__name__)
