"""What resuming needs: weights, optimizer and the position in the data, in one file.

Random numbers are no part of it: each step draws its own from the seed and its number.
`RUN/state` holds the newest two; a damaged one is passed over, aloud, for the one before.
"""

import contextlib
import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from nmt.checkpoints import model_file
from nmt.config import reader
from nmt.config.schema import Config
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files import tensors as tensor_file
from nmt.training import sharding
from nmt.training.train_step import Learner

log = logging.getLogger("nmt")

KEPT = 2
FORMAT = "nmt-state"
_SETTINGS_OF_THE_STATE = (
    "model.", "vocabulary.", "seed", "data.pool_pairs", "training.batch_tokens", "training.best_metric"
)  # fmt: skip
# The name of the training data stands for these too: with another value it is other data.
_SETTINGS_OF_THE_DATA = (
    "data.source_language", "data.target_language", "data.max_length", "data.drop_copies", "data.drop_duplicates"
)  # fmt: skip
_FREE_SETTINGS = ("model.dropout", "model.attention_dropout", "model.activation_dropout")


@dataclass
class Progress:
    """How far a run has come; with the weights, all that tells two runs apart.

    step: optimizer steps done; epoch, step_in_epoch: the position in the data, both from 0;
    target_tokens: real target subwords trained on; seconds: spent training, over all sessions;
    best, best_step, without_best: the best validation (higher is better, a loss negated), and how many
    have passed since; losses and interval_…: sums over the steps since the last line of metrics, of which
    interval_waiting is the seconds spent waiting for data; overflows: steps that float16 left out;
    metrics_bytes, samples_bytes: how long metrics.jsonl and samples.jsonl were; micro_cells, ranks: what
    training.micro_batch_tokens: auto chose (0 where it was not asked), and for how many ranks.
    """

    step: int = 0
    epoch: int = 0
    step_in_epoch: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    without_best: int = 0
    losses: list[float] = field(default_factory=lambda: [0.0, 0.0])
    interval_target_tokens: int = 0
    interval_source_tokens: int = 0
    interval_cells: int = 0
    interval_sentences: int = 0
    interval_seconds: float = 0.0
    interval_waiting: float = 0.0
    overflows: int = 0
    metrics_bytes: int = 0
    samples_bytes: int = 0
    micro_cells: int = 0
    ranks: int = 1

    def start_interval(self) -> None:
        """Forget the sums: a line of metrics has been written."""
        self.losses = [0.0, 0.0]
        self.interval_target_tokens = self.interval_source_tokens = self.interval_cells = self.interval_sentences = 0
        self.interval_seconds = self.interval_waiting = 0.0


@dataclass(frozen=True)
class Identity:
    """What a run's state belongs to: its settings and the content of its data and vocabulary.

    validation_key: of what its validation scores were measured by.
    """

    config: Config
    data_key: str
    vocabulary_key: str
    validation_key: str

    def check_resumable(self, saved: "Identity", run: Path) -> None:
        """Say which settings changed; raise NmtError for those that the saved state cannot follow."""
        check_settings(self.config, saved.config, run)
        mend = f"put it back, or choose another run_dir than {run}"
        if self.vocabulary_key != saved.vocabulary_key:
            raise NmtError(f"{run} holds a run with another vocabulary (vocabulary.* or its text has changed): {mend}")
        if self.data_key != saved.data_key:
            causes = "data.* or the files have changed, or training.micro_batch_tokens leaves out other pairs"
            raise NmtError(f"{run} holds a run on other training data ({causes}): {mend}")
        for row in reader.differences(saved.config, self.config):
            log.info("setting changed since the run was saved: %s", row)


def check_settings(config: Config, saved: Config, run: Path) -> None:
    """Raises NmtError naming the settings with which the state in `run`, of a run with those saved, cannot go on."""
    fixed = _SETTINGS_OF_THE_STATE + _SETTINGS_OF_THE_DATA
    changed = reader.differences(saved, config)
    fatal = [row for row in changed if row.startswith(fixed) and not row.startswith(_FREE_SETTINGS)]
    if fatal:
        raise NmtError(
            f"{run} holds a run with other settings ({'; '.join(fatal)}): "
            f"put it back, or choose another run_dir than {run}"
        )


@dataclass(frozen=True)
class Snapshot:
    """A state apart from the training that goes on: tensors on the CPU that nobody changes."""

    step: int
    tensors: dict[str, Tensor]
    metadata: dict[str, str]

    @property
    def mebibytes(self) -> float:
        """How large it is."""
        return sum(tensor.nbytes for tensor in self.tensors.values()) / 2**20

    def part(self, kind: str) -> dict[str, Tensor]:
        """The tensors of `model`, `optimizer` or `average` by their names there; none where there is no such part."""
        return {name.partition(".")[2]: tensor for name, tensor in self.tensors.items() if name.startswith(f"{kind}.")}


def snapshot(identity: Identity, progress: Progress, learner: Learner) -> Snapshot:
    """A copy of what resuming needs after this step. Collective where the learner's weights are shared out."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in learner.model.named_parameters()}
    tensors = {f"model.{name}": weight for name, weight in model_file.weights_of(learner.model).items()}
    for parameter, moments in learner.optimizer.state.items():
        tensors |= {f"optimizer.{key}.{names[parameter]}": value for key, value in moments.items()}
    if learner.average is not None:
        tensors |= {f"average.{name}": weight for name, weight in model_file.weights_of(learner.average).items()}
    metadata = {
        "format": FORMAT,
        "progress": json.dumps(dataclasses.asdict(progress)),
        "scaler": json.dumps(learner.scaler.state_dict()),
        "config": reader.to_yaml(identity.config),
        "data_key": identity.data_key,
        "vocabulary_key": identity.vocabulary_key,
        "validation_key": identity.validation_key,
    }
    copies = {name: sharding.gather(tensor).detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    return Snapshot(progress.step, copies, metadata)


def write(run: Path, saved: Snapshot) -> None:
    """Write a state and delete all but the newest two. NmtError when the disk refuses."""
    tensor_file.write(run / "state" / f"step-{saved.step:08d}.safetensors", saved.tensors, saved.metadata)
    for old in _states(run)[:-KEPT]:
        old.unlink()


def newest(run: Path) -> Path | None:
    """The state to resume from, if there is one; whether it is whole is found out when it is read."""
    return max(_states(run), default=None)


def exists(run: Path) -> bool:
    """Whether the run has a state to resume from."""
    return newest(run) is not None


def data_key(run: Path) -> str | None:
    """The name of the token store that the run trains on, by its newest readable state; None where there is none."""
    for metadata in _readable_metadata(run):
        if "data_key" in metadata:
            return metadata["data_key"].partition(",")[0]
    return None


def saved(run: Path) -> tuple[Identity, Progress] | None:
    """What the newest readable state of the run says of itself, without its tensors; None where there is none."""
    for metadata in _readable_metadata(run):
        with contextlib.suppress(NmtError, KeyError, TypeError, ValueError):  # `restore` says what is wrong with it
            return _described(run, metadata)
    return None


def _readable_metadata(run: Path) -> Iterator[dict[str, str]]:
    """Of the states, newest first, without those that are damaged or deleted by training that goes on."""
    for path in reversed(_states(run)):
        with contextlib.suppress(NmtError):
            yield tensor_file.read_metadata(path)


def _described(run: Path, metadata: Mapping[str, str]) -> tuple[Identity, Progress]:
    identity = Identity(
        reader.parse(Config, metadata["config"], f"{run / 'state'}: settings inside"),
        metadata["data_key"],
        metadata["vocabulary_key"],
        metadata.get("validation_key", ""),  # states had none once
    )
    return identity, Progress(**json.loads(metadata["progress"]))


def restore(run: Path, identity: Identity, learner: Learner, ranks: Ranks) -> Progress:
    """Load the newest whole state into the learner of every rank; the first rank alone reads it.

    Passes over damaged states with a warning each. Raises NmtError when none is whole, or when the
    state belongs to other settings, data or vocabulary.
    """
    tensors: dict[str, Tensor] = {}
    metadata: dict[str, str] = {}
    progress = Progress()
    if ranks.first:
        tensors, metadata = _newest_whole(run)
        belongs_to, progress = _described(run, metadata)
        identity.check_resumable(belongs_to, run)
        if belongs_to.validation_key != identity.validation_key:
            progress.best, progress.without_best = None, 0  # other sentences or another search: nothing compares
    progress = ranks.broadcast(progress)
    _load(Snapshot(progress.step, ranks.broadcast_tensors(tensors), ranks.broadcast(metadata)), learner)
    return progress


def _newest_whole(run: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    for path in reversed(_states(run)):
        try:
            tensors, metadata = tensor_file.read(path)
            if metadata.get("format") != FORMAT:
                raise NmtError(f"{path}: not a state that `nmt train` saved")
        except NmtError as error:
            log.warning("%s; trying the state before it", error)
            continue
        return tensors, metadata
    raise NmtError(
        f"{run / 'state'}: no state there is whole: choose another run_dir, or delete that folder to start "
        "again from step 0 (the checkpoints are then moved aside)"
    )


def _load(saved: Snapshot, learner: Learner) -> None:
    parameters = dict(learner.model.named_parameters())
    weights = {
        n: sharding.shard_like(w, parameters[n]) if n in parameters else w for n, w in saved.part("model").items()
    }
    model_file.load_weights(learner.model, weights)
    for name, tensor in saved.part("optimizer").items():
        key, _, parameter_name = name.partition(".")
        parameter = parameters[parameter_name]
        moment = (
            sharding.shard_like(tensor, parameter) if tensor.shape else tensor.to(parameter.device)
        )  # else step counts
        learner.optimizer.state[parameter][key] = moment
    if scale := json.loads(saved.metadata["scaler"]):  # none was saved in another precision than float16
        learner.scaler.load_state_dict(scale)
    if learner.average is not None:  # begun by a changed setting: from the weights
        model_file.load_weights(learner.average, saved.part("average") or saved.part("model"))


def _states(run: Path) -> list[Path]:
    return sorted((run / "state").glob("step-*.safetensors"))
