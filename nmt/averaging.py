"""The mean of several checkpoints (section 6.1: the last 5 for the base models, the last 20 for big)."""

from collections.abc import Sequence
from pathlib import Path

import torch

from nmt import checkpoint
from nmt.checkpoint import Checkpoint
from nmt.errors import NmtError


def average(paths: Sequence[Path]) -> Checkpoint:
    """The running mean in float32 of the model files: only one besides the mean is in memory at a time.

    Settings and vocabulary are the last file's. Raises NmtError for a file whose weights or
    vocabulary differ from the first one's.
    """
    if not paths:
        raise NmtError("nothing to average: name model files, or a run's folder with checkpoints")
    first = checkpoint.load(paths[0])
    mean = {name: weight.float().clone() for name, weight in first.weights.items()}
    current, sources = first, [_source(paths[0], first)]
    for count, path in enumerate(paths[1:], start=2):
        current = checkpoint.load(path)
        _check_alike(paths[0], first, path, current)
        for name, weight in current.weights.items():
            mean[name].add_((weight.float() - mean[name]), alpha=1 / count)
        sources.append(_source(path, current))
    kept = {key: value for key, value in current.provenance.items() if key in ("nmt", "torch", "step", "run_dir")}
    return Checkpoint(current.config, current.vocabulary, mean, {**kept, "averaged": sources})


def of_run(run: Path, *, last: int | None, best: int | None) -> list[Path]:
    """A run's newest `last` checkpoints, or its `best` best. NmtError when it has fewer."""
    count = last or best or 0
    found = checkpoint.last(run, count) if last else checkpoint.best(run, count)
    if len(found) < count:
        kind = "checkpoints" if last else "validated checkpoints"
        raise NmtError(
            f"{run}: {len(found)} {kind} there, {count} asked for: ask for fewer, or keep more with "
            f"training.{'keep_last' if last else 'keep_best'}"
        )
    return found


def _source(path: Path, source: Checkpoint) -> dict[str, object]:
    return {"file": path.name, "step": source.provenance.get("step")}


def _check_alike(first_path: Path, first: Checkpoint, path: Path, other: Checkpoint) -> None:
    def protos(of: Checkpoint) -> tuple[bytes, bytes]:
        return of.vocabulary.source.proto, of.vocabulary.target.proto

    if protos(first) != protos(other):
        raise NmtError(f"{path}: its vocabulary differs from that of {first_path}: average checkpoints of one run")
    for name in sorted(first.weights.keys() ^ other.weights.keys()):
        raise NmtError(f"{path}: weight {name} is in only one of it and {first_path}: average checkpoints of one run")
    for name, weight in first.weights.items():
        if weight.shape != other.weights[name].shape:
            shapes = f"{list(other.weights[name].shape)} here, {list(weight.shape)} in {first_path}"
            raise NmtError(f"{path}: weight {name} has another shape: {shapes}: average checkpoints of one run")
    if not all(torch.isfinite(weight).all() for weight in other.weights.values()):
        raise NmtError(f"{path}: holds weights that are not finite numbers: leave this checkpoint out")
