"""The folder of a run before training writes into it: locked, without remains of an earlier run, with its settings."""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.config import reader, schema
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.files import atomic

log = logging.getLogger("nmt")

CONFIG = "config.yaml"
_HEADER = "# The settings of this run, in full. nmt train writes this file, and writes it anew when they change.\n"
_RECORDS = ("metrics.jsonl", "samples.jsonl", "sessions.jsonl")
# The settings last: a folder that has them holds all that was moved there.
_OF_A_RUN = ("checkpoints", model_file.BEST, model_file.EMA, *_RECORDS, "tensorboard", "profile", CONFIG)


@contextmanager
def alone(run: Path) -> Iterator[None]:
    """Have the run's folder to oneself. Raises NmtError while another process trains in it."""
    with ExitStack() as held:
        with atomic.reporting(run, "run_dir"):
            atomic.make_folder(run / "state")
            try:
                held.enter_context(atomic.locked(run / "state"))
            except atomic.HeldByAnother:
                raise NmtError(
                    f"{run}: another process is training there: wait for it, or choose another run_dir"
                ) from None
            for folder in (run, run / "checkpoints", run / "state"):
                atomic.remove_unfinished(folder)
        yield


def move_aside(run: Path) -> None:
    """Before a first step: put what another run left in the folder where it is neither overwritten nor mixed in.

    Interrupted, the next call goes on with the same folder. Raises NmtError where the system refuses.
    """
    left = [path for name in _OF_A_RUN if (path := run / name).exists()]
    with atomic.reporting(run, "run_dir"):
        numbers = [
            int(name) for path in run.glob("before-*") if (name := path.name.removeprefix("before-")).isdecimal()
        ]
        newest = max(numbers, default=0)
        interrupted = newest > 0 and _goes_on(run / f"before-{newest}", left)
        if not left or (left == [run / CONFIG] and not interrupted):  # settings alone: no step has been made
            return
        folder = run / f"before-{newest if interrupted else newest + 1}"
        folder.mkdir(exist_ok=interrupted)
        for path in left:
            path.rename(folder / path.name)
        for changed in (folder, run):
            atomic.sync(changed)
    log.warning("%s held a run without a state to go on from: moved to %s", run, folder)


def _goes_on(folder: Path, left: list[Path]) -> bool:
    """Whether a folder was being filled with what is left when that was interrupted: its settings come last."""
    there = {path.name for path in folder.iterdir()}
    ours = bool(there) and there <= set(_OF_A_RUN)
    return ours and bool(left) and left[-1].name == CONFIG and not there & {path.name for path in left}


def check_config(run: Path, now: Config) -> None:
    """Raise NmtError where RUN/config.yaml is a file of the user's own, with other settings than those of now.

    It is ours where the folder holds a saved state, or where it says so itself.
    """
    path = run / CONFIG
    if _settings_in(path) == now:
        return
    with atomic.reporting(path, "run_dir"):
        ours = any((run / "state").glob("step-*")) or (path.exists() and _HEADER.encode() in path.read_bytes())
        if path.exists() and not ours:
            raise NmtError(
                f"{path}: was not written by nmt and would be overwritten: move it elsewhere, or choose another run_dir"
            )


def write_config(run: Path, now: Config) -> None:
    """Write RUN/config.yaml, unless it says the same already. Raises NmtError as `check_config` does."""
    check_config(run, now)
    path = run / CONFIG
    if _settings_in(path) != now:
        with atomic.reporting(path, "run_dir"):
            atomic.write_text(path, _HEADER + reader.to_yaml(now))


def _settings_in(path: Path) -> Config | None:
    try:
        return schema.load(path) if path.is_file() else None
    except NmtError:
        return None
