"""What a command says beside its results: help, messages on standard error, a log file, and how it ends."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from nmt.errors import NmtError
from nmt.launched import rank, said_by_another

log = logging.getLogger("nmt")

_FIRST_RANKS_TURN = 3.0  # seconds


def application(help: str | None = None) -> typer.Typer:
    """A command line; with `help`, of several commands, and shown where none is given. All in plain text."""
    return _Application(
        help=help,
        no_args_is_help=help is not None,
        add_completion=False,
        rich_markup_mode=None,  # plain help: Rich alone would take longer to import than the rest
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


class _Application(typer.Typer):
    """Commands in whose paths `~` stands for the user's home, where the shell leaves it too: in `--output=~/x`."""

    def command(self, *given: Any, **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # type: ignore[override]
        register = super().command(*given, **more)

        def registered(function: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(function)
            def called(*args: Any, **kwargs: Any) -> Any:
                return function(*args, **{name: _at_home(value) for name, value in kwargs.items()})

            return register(called)

        return registered


def _at_home(value: object) -> object:
    """A path, or a list with paths, with the user's home in place of `~`; anything else as it is."""
    if isinstance(value, list):
        return [_at_home(one) for one in value]
    return Path(os.path.expanduser(value)) if isinstance(value, Path) else value  # noqa: PTH111 (`~nobody` may stay)


@contextmanager
def reporting() -> Iterator[None]:
    """Turn what the user can mend into one message and exit status 1; an interruption into 130."""
    shown = _StandardError()
    shown.setFormatter(_Plain())
    log.addHandler(shown)
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        yield
    except NmtError as error:
        if rank():  # most often all ranks meet the same: the first one says it, and the launcher ends the others
            time.sleep(_FIRST_RANKS_TURN)
        log.error("%s", error)
        raise typer.Exit(1) from None
    except BrokenPipeError:  # the reader of our output has what it wanted, as in `nmt translate … | head`
        sys.stdout = None  # or Python complains once more while closing it
        raise typer.Exit(0) from None
    except OSError as error:  # such as a disk that is full, under standard output too: nothing more goes there
        log.error("%s", error)
        sys.stdout = None
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        for handler in log.handlers:
            handler.close()
        log.handlers.clear()
        log.propagate = True


class _StandardError(logging.Handler):
    """Writes above a progress bar rather than through it; an error that all ranks meet, once."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR if rank() else logging.INFO)  # the first rank speaks for the others

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        line = self.format(record)
        # Last of all: should this rank be ended between the two, nobody would have said it.
        if record.levelno < logging.ERROR or not said_by_another(record.getMessage()):
            tqdm.write(line, file=sys.stderr)


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return prefix + (f"rank {rank()}: " if rank() else "") + record.getMessage()


def keep_log(path: Path) -> None:
    """Write everything that is logged to a file too, with the time, until the command ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8")
    except OSError as error:
        raise NmtError(f"{path}: cannot be written: {error.strerror}: choose another run_dir") from None
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
