"""Saved states for resuming: weights, optimizer and the position in the data in one file.

Random generators are not saved: each step seeds them from the seed and the step number. `RUN/state` keeps the newest
two states. If one is damaged, a warning is logged and the previous one is used.
"""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from nmt.checkpoints import model_file, run_folder
from nmt.config import schema, writer
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files import tensors as tensor_file
from nmt.training import sharding
from nmt.training.identity import Identity, comparable_scores
from nmt.training.progress import Best, Progress
from nmt.training.start_from import Start
from nmt.training.train_step import TrainStep

log = logging.getLogger("nmt")

FORMAT = "nmt-state"
VERSION = 2


@dataclass(frozen=True)
class Snapshot:
    """A copy of the state on the CPU, which further training does not change."""

    step: int
    tensors: dict[str, Tensor]
    metadata: dict[str, str]

    def part(self, kind: str) -> dict[str, Tensor]:
        """The tensors of `model`, `optimizer` or `average` by their names in it; empty if there is no such part."""
        return {name.partition(".")[2]: tensor for name, tensor in self.tensors.items() if name.startswith(f"{kind}.")}


def snapshot(identity: Identity, progress: Progress, train_step: TrainStep) -> Snapshot:
    """A copy of the state after this step. Collective if the weights are sharded."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in train_step.model.named_parameters()}
    tensors = {f"model.{name}": weight for name, weight in model_file.weights_of(train_step.model).items()}
    for parameter, moments in train_step.optimizer.state.items():
        tensors |= {f"optimizer.{key}.{names[parameter]}": value for key, value in moments.items()}
    if train_step.average is not None:
        tensors |= {f"average.{name}": weight for name, weight in model_file.weights_of(train_step.average).items()}
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "progress": json.dumps(dataclasses.asdict(progress)),
        "scaler": json.dumps(train_step.scaler.state_dict()),
        "config": writer.to_yaml(identity.config),
        "data_key": identity.data_key,
        "vocabulary_key": identity.vocabulary_key,
        "validation_key": identity.validation_key,
        "packed": json.dumps(identity.packed),
    }
    if identity.start is not None:
        metadata["start"] = identity.start.to_json()
    copies = {name: sharding.gather(tensor).detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    return Snapshot(progress.step, copies, metadata)


def write(run: Path, saved: Snapshot) -> None:
    """Write a state, and delete all but the newest two. Raises NmtError if it cannot be written."""
    tensor_file.write(run / "state" / f"step-{saved.step:08d}.safetensors", saved.tensors, saved.metadata)
    for old in _states(run)[:-2]:
        old.unlink()


def newest(run: Path) -> Path | None:
    """The path of the state to resume from, or None. The state may be damaged; `restore` checks this."""
    return max(_states(run), default=None)


def saved(run: Path) -> tuple[Identity, Progress] | None:
    """The newest readable state without its tensors, or None. Training may delete states at the same time. Raises
    NmtError for a state of another version."""
    for path in reversed(_states(run)):
        with contextlib.suppress(NmtError):  # `restore` reports damage
            metadata = tensor_file.read_metadata(path)
            if metadata.get("format") == FORMAT:
                break
    else:
        return None
    return _parse(run, metadata)


def with_saved_packing(training: schema.TrainingConfig, run: Path, ranks: Ranks) -> schema.TrainingConfig:
    """The settings with the kind of batches of the saved run in place of `packed: null`, on every device, because the
    pairs of each step depend on it. Collective."""
    if training.packed is not None:
        return training
    found = saved(run) if ranks.first else None
    packed = ranks.broadcast(found[0].packed if found else None)
    if packed is not None:
        log.info("training.packed: null: %s batches, as when the run began", "packed" if packed else "padded")
    return dataclasses.replace(training, packed=packed)


def _parse(run: Path, metadata: Mapping[str, str]) -> tuple[Identity, Progress]:
    """The identity and the progress in the metadata of a state. Raises NmtError for a state of another version."""
    if metadata.get("version") != str(VERSION):
        raise NmtError(f"{run / 'state'}: from another version of nmt: resume with that version, or set a new run_dir")
    config = schema.parse(metadata["config"], f"{run / 'state'}: settings inside")
    start = Start.from_json(metadata["start"]) if "start" in metadata else None
    keys = metadata["data_key"], metadata["vocabulary_key"], metadata["validation_key"]
    packed = json.loads(metadata.get("packed", "false"))  # earlier states do not say it: steps were planned as padded
    return Identity(config, *keys, start, packed), Progress.from_dict(json.loads(metadata["progress"]))


def restore(run: Path, identity: Identity, train_step: TrainStep, ranks: Ranks) -> Progress:
    """Load the newest readable state into every rank's TrainStep; only the first rank reads files.

    Skips damaged states with a warning each. Writes RUN/best.safetensors again if it is missing or from a later step.
    Raises NmtError if all states are damaged, or if the settings, data or vocabulary do not fit the state.
    """
    tensors, metadata, progress = dict[str, Tensor](), dict[str, str](), Progress()
    if ranks.first:
        tensors, metadata = _read_newest(run)
        saved, progress = _parse(run, metadata)
        identity.check_resumable(saved, run)
        if progress.best.value is not None:
            run_folder.restore_best(run, progress.best.step, progress.step)
        if saved.validation_key != identity.validation_key:
            progress.best = Best()  # other sentences or another search
        progress.at_start = comparable_scores(progress, saved, identity)
    progress = ranks.broadcast(progress)
    _load(Snapshot(progress.step, ranks.broadcast_tensors(tensors), ranks.broadcast(metadata)), train_step)
    return progress


def _read_newest(run: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    damaged = list[Path]()
    for path in reversed(_states(run)):
        try:
            tensors, metadata = tensor_file.read(path)
            if metadata.get("format") != FORMAT:
                raise NmtError(f"{path}: not a state that `nmt train` saved")
        except NmtError as error:
            log.warning("%s; trying the state before it", error)
            damaged.append(path)
            continue
        with atomic.reporting(run, "run_dir"):
            for file in damaged:  # so that they no longer count among the newest two
                file.rename(file.with_name(f"damaged-{file.name}"))
        return tensors, metadata
    raise NmtError(
        f"{run / 'state'}: all states there are damaged: set a new run_dir, or delete that folder to start again from "
        "step 0 (the checkpoints are then moved to another folder)"
    )


def _load(saved: Snapshot, train_step: TrainStep) -> None:
    # A moving average that was enabled after the save starts from the weights.
    train_step.load_weights(saved.part("model"), saved.part("average"))
    parameters = dict(train_step.model.named_parameters())
    for name, tensor in saved.part("optimizer").items():
        key, _, parameter_name = name.partition(".")
        parameter = parameters[parameter_name]
        if not parameter.requires_grad:  # it was frozen after the save
            continue
        # The count of steps has no dimension, and is not sharded.
        value = sharding.shard_like(tensor, parameter) if tensor.shape else tensor.to(parameter.device)
        train_step.optimizer.state[parameter][key] = value
    if scale := json.loads(saved.metadata["scaler"]):  # empty if saved in another precision than float16
        train_step.scaler.load_state_dict(scale)


def _states(run: Path) -> list[Path]:
    return sorted((run / "state").glob("step-*.safetensors"))
