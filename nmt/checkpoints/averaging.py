"""The average of several checkpoints (section 6.1: the last 5 for base models, the last 20 for big models)."""

import dataclasses
import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config import schema
from nmt.errors import NmtError

log = logging.getLogger("nmt")

_REMEDY = "average checkpoints of one run"


def average(paths: Sequence[Path]) -> Checkpoint:
    """The mean of model files in float32, with the settings and the vocabulary of the last one. Reads one file at a
    time.

    Raises NmtError for a file whose weights, model settings or vocabulary differ from the first one's, or whose weights
    are not all finite.
    """
    if not paths:
        raise NmtError("nothing to average: give model files, or the folder of a run with checkpoints")
    mean: dict[str, Tensor] = {}
    read: list[Checkpoint] = []  # the files without their weights
    for path in paths:
        _add(mean, read, path, paths[0])
    last = read[-1]
    runs = {str(file.provenance["run_dir"]) for file in read if "run_dir" in file.provenance}
    if len(runs) > 1 and not _are_in_one_run(paths):
        log.warning(
            "these checkpoints are from different runs (%s): their mean is rarely a good model", ", ".join(sorted(runs))
        )
    sources = []
    for path, file in zip(paths, read, strict=True):
        sources.append({"file": path.name, "step": file.provenance.get("step")})
    provenance = {**model_file.origin(last.provenance), "averaged": sources}
    return dataclasses.replace(last, weights=mean, provenance=provenance, path=None)


def _are_in_one_run(paths: Sequence[Path]) -> bool:
    """Whether all files are in one run's checkpoints folder. The recorded paths differ if the run was moved."""
    return len({path.resolve().parent for path in paths}) == 1 and paths[0].resolve().parent.name == "checkpoints"


def select_checkpoints(run: Path, *, last: int | None, best: int | None) -> list[Path]:
    """The `last` newest or the `best` best checkpoints of a run. Raises NmtError if it has fewer."""
    count = last or best or 0
    chosen = model_file.checkpoints(run)[-count:] if last else model_file.best(run, count)
    if not model_file.checkpoints(run):
        model_file.locate(run)  # raises NmtError with the step of the first checkpoint
    if len(chosen) < count:
        kind = "checkpoints" if last else "validated checkpoints"
        written, kept = ("checkpoint_every", "keep_last") if last else ("validate_every", "keep_best")
        fewer = f"use --{'last' if last else 'best'} {len(chosen)}, or " if chosen else ""
        raise NmtError(
            f"{run}: has {len(chosen)} {kind}, not {count}: {fewer}train with a lower training.{written} and a higher "
            f"training.{kept}"
        )
    return chosen


def _add(mean: dict[str, Tensor], read: list[Checkpoint], path: Path, first_path: Path) -> None:
    """Add a file to the mean, and to `read` without its weights."""
    added = model_file.load(path)  # weights fit the settings, so that equal settings mean equal names and shapes
    read.append(dataclasses.replace(added, weights={}))
    _check_alike(first_path, read[0], path, added)
    for name, weight in added.weights.items():
        if not weight.isfinite().all():
            raise NmtError(f"{path}: weight {name} has values that are not finite numbers: leave this checkpoint out")
        before = mean.setdefault(name, torch.zeros_like(weight, dtype=torch.float32))
        before.add_(weight.float() - before, alpha=1 / len(read))


def _check_alike(first_path: Path, first: Checkpoint, path: Path, other: Checkpoint) -> None:
    """Raises NmtError if the models of two files compute different functions of the same weights."""
    changed = schema.differences_of_models(first.config, other.config).items()
    rows = [f"{name}: {first_value} there, {value} here" for name, (first_value, value) in changed]
    if rows:
        raise NmtError(f"{path}: its settings differ from those of {first_path} ({'; '.join(rows)}): {_REMEDY}")
    if first.vocabulary.protos != other.vocabulary.protos:
        raise NmtError(f"{path}: its vocabulary differs from that of {first_path}: {_REMEDY}")
