"""Shared by all commands: messages on standard error, a log file, and the exit status."""

import contextlib
import gc
import io
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from nmt.distributed.environment import check_variables, ignore_launcher, is_launched, logged_by_another_rank, rank
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files.text import ReaderGone, discard

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

log = logging.getLogger("nmt")

_FIRST_RANKS_TURN = 3.0  # seconds


def application(help: str | None = None) -> typer.Typer:
    """A command line. help: of a command line with several commands, which is shown if no command is given; Typer then
    adds --install-completion and --show-completion."""
    return typer.Typer(
        help=help,
        no_args_is_help=help is not None,
        add_completion=help is not None,
        rich_markup_mode=None,  # plain help: Rich takes longer to import than the rest
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def run(commands: typer.Typer) -> None:
    """Run a command line as a console script. Commands report their own errors, see `reporting`."""
    _keep_standard_error()
    try:
        commands()
    except OSError as error:  # help that cannot be written
        print(f"error: standard output: cannot be written: {error.strerror}", file=sys.stderr)
        discard(sys.stdout.fileno())
        sys.exit(1)
    finally:
        gc.freeze()  # otherwise Python collects garbage among all objects at its end: 0.04 s


@contextmanager
def reporting(*, rank_of_a_job: bool = False) -> Iterator[None]:
    """Log to standard error. An error that the user can fix gives one message and status 1; an interruption gives
    status 130.

    rank_of_a_job: the command can be one of several processes that a launcher has started. Otherwise the variables of
    a launcher or a scheduler are ignored, except by ranks that translate a file together.
    """
    _keep_standard_error()
    if not rank_of_a_job:
        ignore_launcher()
    log.addHandler(_StandardError(logging.ERROR if rank() else logging.INFO))  # the other ranks log errors only
    log.setLevel(logging.DEBUG)
    log.propagate = False
    try:
        check_variables()
        yield
    except ReaderGone:
        raise typer.Exit(0) from None
    except (NmtError, OSError) as error:  # OSError: such as a full disk
        if rank():  # usually all ranks have the same error: the first rank reports it, and the launcher ends the others
            time.sleep(_FIRST_RANKS_TURN)
        log.error("%s", error if isinstance(error, NmtError) else _reason(error))
        raise typer.Exit(1) from None
    except typer.Exit:
        raise
    except Exception:
        log.debug("ended by an unexpected error", exc_info=True)  # in the log file; Python shows it on standard error
        raise
    except KeyboardInterrupt as interruption:
        if not is_launched():  # else the launcher says it
            log.info("%s", str(interruption) or "interrupted")
        raise typer.Exit(130) from None
    finally:
        for handler in log.handlers:
            handler.close()
        log.handlers.clear()
        log.propagate = True


def _reason(error: OSError) -> str:
    named = error.filename is not None and error.strerror is not None
    return f"{os.fsdecode(error.filename)}: cannot be read or written: {error.strerror}" if named else str(error)


class _TerminalStream(io.FileIO):
    """A stream that goes to /dev/null after its first error, so that closing the terminal does not stop training."""

    def write(self, data: "ReadableBuffer") -> int:
        try:
            return super().write(data)
        except OSError:
            discard(self.fileno())
            return memoryview(data).nbytes


def _keep_standard_error() -> None:
    """Make writing to standard error never fail. A closed standard error is opened, so that no other file gets its
    number."""
    encoding = "utf-8"
    if sys.stderr is None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    else:
        try:
            if sys.stderr.fileno() != 2 or isinstance(sys.stderr.buffer, _TerminalStream):
                return
        except (OSError, AttributeError):  # not a file: replaced by a test or a program
            return
        sys.stderr.flush()
        encoding = sys.stderr.encoding
    sys.stderr = io.TextIOWrapper(
        _TerminalStream(2, "w", closefd=False), encoding, "backslashreplace", write_through=True
    )


class _StandardError(logging.Handler):
    """Writes above progress bars. An error of all ranks is written once."""

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)
        # Registered right before writing: if a rank is ended between the two, the error is not reported.
        if record.levelno < logging.ERROR or not logged_by_another_rank(record.getMessage()):
            if tqdm := getattr(sys.modules.get("tqdm"), "tqdm", None):  # otherwise there is no progress bar
                tqdm.write(line, file=sys.stderr)
            else:
                sys.stderr.write(f"{line}\n")

    def format(self, record: logging.LogRecord) -> str:
        prefix = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        line = prefix + (f"rank {rank()}: " if rank() else "") + record.getMessage()
        return f"{line}\n{logging.Formatter().formatException(record.exc_info)}" if record.exc_info else line


def keep_log(path: Path) -> None:
    """Also log everything to a file with the time, until the command ends or the file cannot be written."""
    with atomic.reporting(path, "run_dir"):
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = _LogFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)


class _LogFile(logging.FileHandler):
    """A log file that is closed with one warning if it cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Called if writing a record has raised an exception."""
        error = sys.exception()
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        log.removeHandler(self)
        self.close()
        log.warning("%s: cannot be written: %s: continuing without this log", self.baseFilename, error.strerror)

    def close(self) -> None:
        """Close the file. Records that could not be written are lost."""
        with contextlib.suppress(OSError):
            super().close()
