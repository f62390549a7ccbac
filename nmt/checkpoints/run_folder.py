"""Prepares a run folder for training: locks it, moves an earlier run aside, writes the settings."""

import logging
import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from nmt.checkpoints import model_file
from nmt.config import schema, writer
from nmt.config.schema import Config
from nmt.errors import NmtError
from nmt.files import atomic, outputs

log = logging.getLogger("nmt")

CONFIG = "config.yaml"
_HEADER = "# The settings of this run, in full. nmt train writes this file, and rewrites it when they change.\n"
# The settings come first: if `move_aside` is interrupted, the folder then does not look like a run without steps.
_RUN_FILES = tuple(dict.fromkeys((CONFIG, "checkpoints", "tensorboard", "profile", *outputs.RUN_FILES)))


def load_config(path: Path, overrides: Sequence[str] = ()) -> Config:
    """The settings of a run to train or to prepare, as read by `schema.load`.

    Raises NmtError as `schema.load` does. Also raises it for the config.yaml of a copied or moved run, if run_dir names
    the old folder, or another folder relative to the current one: only the user knows which folder is meant. An
    override of run_dir decides.
    """
    config = schema.load(path, overrides)
    real_path, run_dir = Path(os.path.realpath(path)), Path(config.run_dir)
    overridden = any(override.startswith("run_dir=") for override in overrides)
    if overridden or real_path.name != CONFIG or not _is_of_a_run(real_path) or _is_same(real_path.parent, run_dir):
        return config
    own = path.parent if path.parent != Path() and _is_same(path.parent, real_path.parent) else real_path.parent
    other = run_dir if run_dir.is_absolute() else Path.cwd() / run_dir
    remedy = f"give {other / CONFIG}" if (other / CONFIG).is_file() else f"add {shlex.quote(f'run_dir={run_dir}')}"
    raise NmtError(
        f"{path}: belongs to the run in {own}, but run_dir in it is another folder, {other}: to continue in {own}, add "
        f"{shlex.quote(f'run_dir={own}')}; to train in {other}, {remedy}"
    )


def _is_of_a_run(config: Path) -> bool:
    """Whether other output of training is in the same folder. A copy of the settings alone is not a run."""
    others = {"state", *_RUN_FILES} - {CONFIG}
    return _is_written_by_nmt(config) and any((config.parent / name).exists() for name in others)


def _is_written_by_nmt(config: Path) -> bool:
    """Whether nmt has written these settings: they have its header, or the folder contains a saved state."""
    return any((config.parent / "state").glob("step-*")) or _HEADER.encode() in config.read_bytes()


def _is_same(folder: Path, other: Path) -> bool:
    """Whether both paths are the same folder; False if one is missing."""
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
                raise NmtError(f"{run}: another process is training there, or changes its model: wait for it") from None
            for folder in (run, run / "checkpoints", run / "state"):
                atomic.remove_unfinished(folder)
        yield


def move_aside(run: Path) -> None:
    """Move the files of another run in the folder to RUN/before-N, so that a new run does not overwrite them.

    Raises NmtError if files cannot be moved.
    """
    old_files = [path for name in _RUN_FILES if (path := run / name).exists()]
    if not old_files or old_files == [run / CONFIG]:  # only settings: no step was trained
        return
    with atomic.reporting(run, "run_dir"):
        folder = run / f"before-{_newest_before(run) + 1}"
        folder.mkdir()
        for path in old_files:
            path.rename(folder / path.name)
        for changed in (folder, run):
            atomic.sync(changed)
    log.warning("%s contained a run without a saved state to resume from: it was moved to %s", run, folder)


def restore_best(run: Path, best_step: int, step: int) -> None:
    """If RUN/best.safetensors was deleted, or is from a step after `step`, write it again from the checkpoint of
    best_step. Logs a warning, also if this checkpoint is missing too. step: from which training continues."""
    best, checkpoint = run / model_file.BEST, model_file.checkpoint_path(run, best_step)
    if best.exists():
        old_step = _step_of(best)
        if old_step <= step or not checkpoint.exists():
            return
        reason = f"was from step {old_step:,}, and training continues from step {step:,}"
    elif checkpoint.exists():
        reason = "was missing"
    else:
        log.warning(
            "%s is missing, and %s too: until a better model is saved, commands with %s use its newest checkpoint",
            *(best, checkpoint.name, run),
        )
        return
    with atomic.reporting(best, "run_dir"), atomic.replacing(best) as copy:
        shutil.copyfile(checkpoint, copy)
    log.warning("%s %s: written again from %s", best, reason, checkpoint.name)


def _step_of(model: Path) -> int:
    """The step of a model file; 0 if it cannot be read."""
    with suppress(NmtError):
        return int(model_file.load_provenance(model).get("step", 0))
    return 0


def move_later_aside(run: Path, step: int) -> None:
    """Move checkpoints of later steps to RUN/before-N/checkpoints. They exist if training was resumed from an earlier
    state, and would count as the newest checkpoints. Raises NmtError if they cannot be moved."""
    oldest_first = model_file.checkpoints(run)
    own = model_file.checkpoint_path(run, step)
    later = oldest_first[oldest_first.index(own) + 1 :] if own in oldest_first else []
    if not later:
        return
    with atomic.reporting(run, "run_dir"):
        folder = run / f"before-{_newest_before(run) + 1}" / "checkpoints"
        folder.mkdir(parents=True)
        for path in later:
            path.rename(folder / path.name)
    log.warning("checkpoints after step %s are from an earlier attempt of this run: moved to %s", f"{step:,}", folder)


def _newest_before(run: Path) -> int:
    """The highest N of the folders RUN/before-N; 0 without such a folder."""
    suffixes = (path.name.removeprefix("before-") for path in run.glob("before-*"))
    return max((int(suffix) for suffix in suffixes if suffix.isdecimal()), default=0)


def check_config(run: Path, now: Config) -> bool:
    """Whether RUN/config.yaml contains these settings. Raises NmtError if the user wrote it with other settings."""
    path = run / CONFIG
    with suppress(NmtError):
        if path.is_file() and _with_precision_of(schema.load(path), now) == now:
            return True
    with atomic.reporting(path, "run_dir"):
        if path.exists() and not _is_written_by_nmt(path):
            raise NmtError(
                f"{path}: was not written by nmt and would be overwritten: move it elsewhere, or set another run_dir"
            )
    return False


def _with_precision_of(written: Config, now: Config) -> Config:
    """The written settings; `auto` as training.precision is replaced by the format that the run has chosen."""
    if written.training.precision != "auto":
        return written
    return replace(written, training=replace(written.training, precision=now.training.precision))


def write_config(run: Path, now: Config) -> None:
    """Write RUN/config.yaml unless it already contains these settings. Raises NmtError as `check_config` does."""
    if not check_config(run, now):
        with atomic.reporting(run / CONFIG, "run_dir"):
            atomic.make_folder(run)
            atomic.write_text(run / CONFIG, _HEADER + writer.to_yaml(now))
