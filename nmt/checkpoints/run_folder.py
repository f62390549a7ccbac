"""Prepares a run's folder for training: locks it, moves an earlier run aside, writes the settings."""

import logging
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.config import schema, writer
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.files import atomic, outputs

log = logging.getLogger("nmt")

CONFIG = "config.yaml"
_HEADER = "# The settings of this run, in full. nmt train writes this file, and rewrites it when they change.\n"
# The settings first: where `move_aside` was interrupted, they are not taken for those of a run that trained nothing.
_OF_A_RUN = tuple(dict.fromkeys((CONFIG, "checkpoints", "tensorboard", "profile", *outputs.RUN_FILES)))


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The settings of a run to train or to prepare, as `schema.load` reads them.

    Raises NmtError as it does; and for the config.yaml of a run that was copied or moved, whose run_dir is still the
    folder of before, or another one as seen from here: only the user knows which of the two is meant. An override of
    run_dir tells.
    """
    config = schema.load(path, overrides)
    place, given = Path(os.path.realpath(path)), Path(config.run_dir)
    told = any(override.startswith("run_dir=") for override in overrides)
    if told or place.name != CONFIG or not _is_of_a_run(place) or _is_same(place.parent, given):
        return config
    own = path.parent if path.parent != Path() and _is_same(path.parent, place.parent) else place.parent
    other = given if given.is_absolute() else Path.cwd() / given
    there = f"give {other / CONFIG}" if (other / CONFIG).is_file() else f"add {shlex.quote(f'run_dir={given}')}"
    raise NmtError(
        f"{path}: belongs to the run in {own}, but run_dir in it is another folder, {other}: to go on in {own}, add "
        f"{shlex.quote(f'run_dir={own}')}; to train in {other}, {there}"
    )


def _is_of_a_run(config: Path) -> bool:
    """Whether settings lie beside something else that training has written: a copy of them alone is no run."""
    others = {"state", *_OF_A_RUN} - {CONFIG}
    return _is_ours(config) and any((config.parent / name).exists() for name in others)


def _is_ours(config: Path) -> bool:
    """Whether nmt has written these settings: its header says so, or the folder holds a saved state."""
    return any((config.parent / "state").glob("step-*")) or _HEADER.encode() in config.read_bytes()


def _is_same(folder: Path, other: Path) -> bool:
    """Whether both are one folder, by whatever name; not if one is missing."""
    with suppress(OSError):
        return folder.samefile(other)
    return False


@contextmanager
def locked(run: Path) -> Iterator[None]:
    """Lock the run's folder. Raises NmtError while another process trains in it."""
    with ExitStack() as held:
        with atomic.reporting(run, "run_dir"):
            atomic.make_folder(run / "state")
            try:
                held.enter_context(atomic.locked(run / "state"))
            except atomic.HeldByAnother:
                raise NmtError(
                    f"{run}: another process is training there: wait for it, or set another run_dir"
                ) from None
            for folder in (run, run / "checkpoints", run / "state"):
                atomic.remove_unfinished(folder)
        yield


def move_aside(run: Path) -> None:
    """Move what another run left in the folder to RUN/before-N, so that a new run does not overwrite it.

    Raises NmtError where files cannot be moved.
    """
    left = [path for name in _OF_A_RUN if (path := run / name).exists()]
    if not left or left == [run / CONFIG]:  # only settings: no step was trained
        return
    with atomic.reporting(run, "run_dir"):
        folder = run / f"before-{_newest_before(run) + 1}"
        folder.mkdir()
        for path in left:
            path.rename(folder / path.name)
        for changed in (folder, run):
            atomic.sync(changed)
    log.warning("%s held a run without a saved state to resume from: moved to %s", run, folder)


def restore_best(run: Path, best_step: int, step: int) -> None:
    """If RUN/best.safetensors was deleted, or is of a step after this one, from which training goes on, write it again
    from the checkpoint of best_step. A warning says so, or that this is gone too."""
    best, checkpoint = run / model_file.BEST, model_file.checkpoint_path(run, best_step)
    if best.exists():
        written = _step_of(best)
        if written <= step or not checkpoint.exists():
            return
        reason = f"was of step {written:,}, and training goes on from step {step:,}"
    elif checkpoint.exists():
        reason = "was missing"
    else:
        log.warning(
            "%s is missing, and %s too: until a better model is found, commands that are given %s use its newest "
            "checkpoint",
            *(best, checkpoint.name, run),
        )
        return
    with atomic.reporting(best, "run_dir"), atomic.replacing(best) as copy:
        shutil.copyfile(checkpoint, copy)
    log.warning("%s %s: written again from %s", best, reason, checkpoint.name)


def _step_of(model: Path) -> int:
    """The step of a model file; 0 where it cannot be read."""
    with suppress(NmtError):
        return int(model_file.load_provenance(model).get("step", 0))
    return 0


def move_later_aside(run: Path, step: int) -> None:
    """Move checkpoints of steps after this one to RUN/before-N/checkpoints. They are left where training has gone back
    to an earlier state, and its own would not count as the newest. Raises NmtError where they cannot be moved."""
    in_order = model_file.checkpoints(run)
    own = model_file.checkpoint_path(run, step)
    later = in_order[in_order.index(own) + 1 :] if own in in_order else []
    if not later:
        return
    with atomic.reporting(run, "run_dir"):
        folder = run / f"before-{_newest_before(run) + 1}" / "checkpoints"
        folder.mkdir(parents=True)
        for path in later:
            path.rename(folder / path.name)
    log.warning("checkpoints after step %s are of an earlier course of this run: moved to %s", f"{step:,}", folder)


def _newest_before(run: Path) -> int:
    """The highest N of the folders RUN/before-N; 0 without one."""
    numbers = (path.name.removeprefix("before-") for path in run.glob("before-*"))
    return max((int(number) for number in numbers if number.isdecimal()), default=0)


def check_config(run: Path, now: Config) -> bool:
    """Whether RUN/config.yaml holds these settings. Raises NmtError where it holds others and the user wrote it."""
    path = run / CONFIG
    with suppress(NmtError):
        if path.is_file() and schema.load(path) == now:
            return True
    with atomic.reporting(path, "run_dir"):
        if path.exists() and not _is_ours(path):
            raise NmtError(
                f"{path}: was not written by nmt and would be overwritten: move it elsewhere, or set another run_dir"
            )
    return False


def write_config(run: Path, now: Config) -> None:
    """Write RUN/config.yaml if it does not hold these settings already. Raises NmtError as `check_config` does."""
    if not check_config(run, now):
        with atomic.reporting(run / CONFIG, "run_dir"):
            atomic.make_folder(run)
            atomic.write_text(run / CONFIG, _HEADER + writer.to_yaml(now))
