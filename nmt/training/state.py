"""What resuming needs: weights, optimizer and the position in the data, in one file.

Generators are not saved: each step seeds them from the seed and its number. `RUN/state` keeps the newest two states. If
one is damaged, a warning says so and the one before is used.
"""

import contextlib
import dataclasses
import json
import logging
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch import Tensor

from nmt.checkpoints import model_file, run_folder
from nmt.config import reader, writer
from nmt.config.schema import Config
from nmt.data.batching import Step
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files import atomic
from nmt.files import tensors as tensor_file
from nmt.training import sharding
from nmt.training.start_from import Start
from nmt.training.train_step import TrainStep
from nmt.training.validation_key import recorded_text_key, search_settings

log = logging.getLogger("nmt")

FORMAT = "nmt-state"
_FIXED_SETTINGS = (
    "model", "vocabulary.", "seed", "training.start_from", "training.batch_tokens", "training.best_",
    "training.optimizer", "data.pool_pairs", "data.source_language", "data.target_language", "data.max_length",
    "data.drop_copies", "data.drop_duplicates", "data.language_tags", "data.clean", "data.augment.", "data.temperature",
    "data.stages",
)  # fmt: skip
# Files may be moved or renamed; whether they hold the same text is seen once they are read.
_FIXED_OF_CORPORA = re.compile(r"data\.train(\[\d+\]\.(weight|tag|languages|reversed))?")
_LISTS = ("data.train", "data.stages")
_FREE_SETTINGS = ("model.dropout", "model.attention_dropout", "model.activation_dropout")
_VOCABULARY_FILES = ("vocabulary.source_model", "vocabulary.target_model")  # which may be moved too


@dataclass
class Progress:
    """How far a run is; with the weights, everything in which two states of a run can differ.

    step: optimizer steps done; epoch, step_in_epoch: the position in the data, both from 0; in the epoch in which a
    stage began, counted from its beginning. stage: its number in data.stages, from 0; stage_step, stage_time,
    stage_given: when it began, in steps and in the time of the mix, and the pairs that each corpus had given by then
    (none: the first stage); pool_end: when the pool of the last step ended, None within a pool. target_tokens: target
    subwords trained on, without padding; seconds: spent training, over all sessions. best, best_step, without_best: the
    best validation (higher is better, a loss negated), and how many validations came after it. at_start: with
    training.start_from, the scores of each validation set before the first step. pairs_of: pairs trained on, of each
    corpus. losses and interval_…: sums over the steps since the last row of metrics; interval_cells are padded tokens
    of both sides, interval_waiting seconds spent waiting for data. overflows: steps that float16 skipped.
    metrics_bytes, samples_bytes: the sizes of metrics.jsonl and samples.jsonl. micro_cells, ranks: the padded tokens
    that training.micro_batch_tokens: auto chose (0 without auto), and for how many ranks. interval_cells and
    micro_cells keep these names because they are in saved files.
    """

    step: int = 0
    epoch: int = 0
    step_in_epoch: int = 0
    stage: int = 0
    stage_step: int = 0
    stage_time: int = 0
    stage_given: list[int] = field(default_factory=list)
    pool_end: int | None = None
    target_tokens: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    without_best: int = 0
    at_start: dict[str, dict[str, float]] = field(default_factory=dict)
    losses: list[float] = field(default_factory=lambda: [0.0, 0.0])
    pairs_of: list[int] = field(default_factory=lambda: [0])
    interval_pairs_of: list[int] = field(default_factory=lambda: [0])
    interval_target_tokens_of: list[int] = field(default_factory=lambda: [0])
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

    @classmethod
    def of(cls, corpora: int) -> "Progress":
        """The start of a run on this number of corpora."""
        zeros = [0] * corpora
        return cls(
            losses=[0.0] * (1 + corpora), pairs_of=zeros, interval_pairs_of=zeros, interval_target_tokens_of=zeros
        )

    @property
    def epochs_begun(self) -> int:
        """The number of the epoch of the last step, from 1."""
        return self.epoch + (self.step_in_epoch > 0)

    def count(self, step: Step, *, updated: bool, seconds: float, waiting: float) -> None:
        """Add a step that was trained on; updated: float16 did not overflow, and its loss is among `losses`; waiting:
        seconds of it without data."""
        self.overflows += not updated
        self.seconds += seconds
        self.target_tokens += step.target_tokens
        self.pairs_of = _sums(self.pairs_of, step.pairs_of)
        self.interval_pairs_of = _sums(self.interval_pairs_of, step.pairs_of)
        self.interval_seconds += seconds
        self.interval_waiting += waiting
        if not updated:
            return
        self.interval_target_tokens_of = _sums(self.interval_target_tokens_of, step.target_tokens_of)
        self.interval_target_tokens += step.target_tokens
        self.interval_source_tokens += step.source_tokens
        self.interval_cells += step.padded_tokens
        self.interval_sentences += step.sentences

    def corpora(self, sizes: Sequence[int], nll: Sequence[float]) -> list[dict[str, float | None]]:
        """For each corpus: its share of the pairs of this interval, how many passes over it were made since the start,
        and -log p per target token (None if it gave no pairs). sizes: its pairs; nll: its sum of -log p."""
        total, found = sum(self.interval_pairs_of), list[dict[str, float | None]]()
        for i, (size, value) in enumerate(zip(sizes, nll, strict=True)):
            tokens = self.interval_target_tokens_of[i]
            share, passes = self.interval_pairs_of[i] / total, self.pairs_of[i] / size if size else 0.0
            found.append(
                {"share": round(share, 5), "passes": round(passes, 4), "nll": value / tokens if tokens else None}
            )
        return found

    def start_interval(self) -> None:
        """Set the sums to zero: a row of metrics has been written."""
        self.losses = [0.0] * len(self.losses)
        self.interval_pairs_of = self.interval_target_tokens_of = [0] * len(self.pairs_of)
        self.interval_target_tokens = self.interval_source_tokens = self.interval_cells = self.interval_sentences = 0
        self.interval_seconds = self.interval_waiting = 0.0


def _sums(one: Sequence[int], other: Sequence[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


@dataclass(frozen=True)
class Identity:
    """The settings of a run, and hashes of its training data, its vocabulary and what its validation scores depend on:
    a saved state can only be resumed by a run with the same vocabulary and data, and with settings that fit. start: the
    model that it started from."""

    config: Config
    data_key: str
    vocabulary_key: str
    validation_key: str
    start: Start | None = None

    def check_resumable(self, saved: "Identity", run: Path) -> None:
        """Log which settings changed. Raises NmtError for a change with which the saved state cannot be resumed."""
        check_settings(self.config, saved.config, run)
        changed = _changes(saved.config, self.config)
        if self.vocabulary_key != saved.vocabulary_key:
            settings = writer.flatten(self.config)
            files = ", ".join(name for name in _VOCABULARY_FILES if settings[name] != "null") or "data.train"
            raise _not_resumable(run, "another vocabulary", changed, ("data.train", "vocabulary."), files)
        if self.data_key != saved.data_key:
            raise _not_resumable(run, "other training data", changed, ("data.train", "training.micro_batch_tokens"))
        for path, (before, now) in changed.items():
            log.info("setting changed: %s: %s in the saved run, %s now", path, before, now)


def check_settings(config: Config, saved: Config, run: Path) -> None:
    """Raises NmtError naming the changed settings with which the saved state in `run` cannot be resumed. config: as
    `start_from.as_begun` gives it."""
    changed = _changes(saved, config)
    if fatal := tuple(path for path, values in changed.items() if _is_fixed(path, *values)):
        raise _not_resumable(run, "other settings", changed, fatal)


def _is_fixed(path: str, before: str, now: str) -> bool:
    if path in _VOCABULARY_FILES:
        return "null" in (before, now)
    fixed = path.startswith(_FIXED_SETTINGS) and not path.startswith(_FREE_SETTINGS)
    return fixed or _FIXED_OF_CORPORA.fullmatch(path) is not None


def _changes(saved: Config, config: Config) -> dict[str, tuple[str, str]]:
    """The settings that have changed: path → both values, of a list that has become longer or shorter its length."""
    names = [corpus.called for corpus in config.data.train]
    before, after = _with_names(saved, names), _with_names(config, names)
    before = replace(before, training=replace(before.training, best_set=_name_now(saved, config)))
    changed = writer.differences(before, after)
    for path, old, new in (
        ("data.train", before.data.train, after.data.train),
        ("data.stages", before.data.stages, after.data.stages),
    ):
        if path in changed:
            changed[path] = (f"a list of {len(old)}", f"a list of {len(new)}")
    return changed


def _name_now(saved: Config, config: Config) -> str | None:
    """What the saved run's training.best_set is called now: a set at the same place may have another name."""
    name = saved.training.best_set
    before, after = saved.data.held_out_names, config.data.held_out_names
    if name is None or name in after or len(before) != len(after):
        return name
    return after[before.index(name)]


def _with_names(config: Config, names: Sequence[str]) -> Config:
    """The settings whose stages call the corpora by these names, in this order: other names are no other mix."""
    data = config.data
    new_name = {corpus.called: name for corpus, name in zip(data.train, names, strict=False)}

    def renamed(numbers: Mapping[str, float] | None) -> Mapping[str, float] | None:
        return numbers and {new: numbers[old] for old, new in new_name.items() if old in numbers}

    stages = [replace(one, weights=renamed(one.weights), passes=renamed(one.passes)) for one in data.stages]
    return replace(config, data=replace(data, stages=tuple(stages)))


def _not_resumable(
    run: Path, what: str, changed: Mapping[str, tuple[str, str]], causes: tuple[str, ...], files: str = "data.train"
) -> NmtError:
    """The error for a run with `what`; causes: how the settings begin that can be the reason; files: the settings whose
    files have changed where no setting has."""
    found = [(path, before, now) for path, (before, now) in changed.items() if path.startswith(causes)]
    reasons = [f"{path}: {before} in the saved run, {now} now" for path, before, now in found]
    # What is inside a list cannot be overridden alone.
    restore = [path if path.startswith(_LISTS) else shlex.quote(f"{path}={before}") for path, before, _ in found]
    return NmtError(
        f"{run} holds a run with {what} ({'; '.join(reasons) or f'the files of {files} have changed'}): "
        f"restore {' '.join(restore) or 'them'}, or set a new run_dir"
    )


@dataclass(frozen=True)
class Snapshot:
    """A copy of the state, on the CPU, which training that continues does not change."""

    step: int
    tensors: dict[str, Tensor]
    metadata: dict[str, str]

    def part(self, kind: str) -> dict[str, Tensor]:
        """The tensors of `model`, `optimizer` or `average` by their names in it; empty where there is no such part."""
        return {name.partition(".")[2]: tensor for name, tensor in self.tensors.items() if name.startswith(f"{kind}.")}


def snapshot(identity: Identity, progress: Progress, train_step: TrainStep) -> Snapshot:
    """A copy of what resuming needs after this step. Collective if the weights are sharded."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in train_step.model.named_parameters()}
    tensors = {f"model.{name}": weight for name, weight in model_file.weights_of(train_step.model).items()}
    for parameter, moments in train_step.optimizer.state.items():
        tensors |= {f"optimizer.{key}.{names[parameter]}": value for key, value in moments.items()}
    if train_step.average is not None:
        tensors |= {f"average.{name}": weight for name, weight in model_file.weights_of(train_step.average).items()}
    metadata = {
        "format": FORMAT,
        "progress": json.dumps(dataclasses.asdict(progress)),
        "scaler": json.dumps(train_step.scaler.state_dict()),
        "config": writer.to_yaml(identity.config),
        "data_key": identity.data_key,
        "vocabulary_key": identity.vocabulary_key,
        "validation_key": identity.validation_key,
    }
    if identity.start is not None:
        metadata["start"] = identity.start.to_json()
    copies = {name: sharding.gather(tensor).detach().to("cpu", copy=True) for name, tensor in tensors.items()}
    return Snapshot(progress.step, copies, metadata)


def write(run: Path, saved: Snapshot) -> None:
    """Write a state and delete all but the newest two. Raises NmtError when it cannot be written."""
    tensor_file.write(run / "state" / f"step-{saved.step:08d}.safetensors", saved.tensors, saved.metadata)
    for old in _states(run)[:-2]:
        old.unlink()


def newest(run: Path) -> Path | None:
    """The state to resume from, if there is one. It may be damaged: `restore` checks that."""
    return max(_states(run), default=None)


def saved(run: Path) -> tuple[Identity, Progress] | None:
    """The newest readable state without its tensors; None if there is none. Training may delete one meanwhile."""
    for path in reversed(_states(run)):
        with contextlib.suppress(NmtError):  # `restore` reports what is wrong
            return _parse(run, tensor_file.read_metadata(path))
    return None


def _parse(run: Path, metadata: Mapping[str, str]) -> tuple[Identity, Progress]:
    """Raises NmtError where it is not a state of this version."""
    try:
        config = reader.parse(Config, metadata["config"], f"{run / 'state'}: settings inside")
        start = Start.from_json(metadata["start"]) if "start" in metadata else None
        validation = metadata.get("validation_key", "")  # the first states had none
        identity = Identity(config, metadata["data_key"], metadata["vocabulary_key"], validation, start)
        return identity, Progress(**json.loads(metadata["progress"]))
    except (KeyError, TypeError, ValueError):
        raise NmtError(f"{run / 'state'}: of another version of nmt: resume with it, or set another run_dir") from None


def restore(run: Path, identity: Identity, train_step: TrainStep, ranks: Ranks) -> Progress:
    """Load the newest readable state into every rank's TrainStep; only the first rank reads files.

    Skips damaged states with a warning each. Writes RUN/best.safetensors again if it is missing, or of a later step.
    Raises NmtError where all are damaged, or where the state is one of other settings, data or vocabulary.
    """
    tensors, metadata, progress = dict[str, Tensor](), dict[str, str](), Progress()
    if ranks.first:
        tensors, metadata = _read_newest(run)
        saved, progress = _parse(run, metadata)
        identity.check_resumable(saved, run)
        if progress.best is not None:
            run_folder.restore_best(run, progress.best_step, progress.step)
        if saved.validation_key != identity.validation_key:
            progress.best, progress.without_best = None, 0  # other sentences or another search
        progress.at_start = _comparable(progress, saved, identity)
    progress = ranks.broadcast(progress)
    _load(Snapshot(progress.step, ranks.broadcast_tensors(tensors), ranks.broadcast(metadata)), train_step)
    return progress


def _comparable(progress: Progress, saved: Identity, now: Identity) -> dict[str, dict[str, float]]:
    """The scores at the start that those of now can be compared with: none for other text; without those of another
    search, or of another part of the text. What is left out is logged. Before the first step nothing is lost: the model
    to start from is validated again where there are no scores."""
    at_start = progress.at_start
    losses = {
        name: {key: score for key, score in scores.items() if key == "validation_loss"}
        for name, scores in at_start.items()
    }
    same_text, same_search = (key(saved) == key(now) for key in (_validated_text, _validating_search))
    if not at_start or (same_text and (same_search or losses == at_start)):
        return at_start
    if progress.step == 0:
        return {}
    if same_text:
        log.info("validation: another search: from now on, only losses are compared with those at the start")
        return losses
    log.info("validation: another text: from now on, nothing is compared with the scores at the start")
    return {}


def _validated_text(identity: Identity) -> str | None:
    return recorded_text_key(identity.validation_key, identity.config.training.best_metric)


def _validating_search(identity: Identity) -> list[object]:
    return search_settings(identity.config.training, identity.config.decoding)


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
            for one in damaged:  # no longer one of the two newest
                one.rename(one.with_name(f"damaged-{one.name}"))
        return tensors, metadata
    raise NmtError(
        f"{run / 'state'}: all states there are damaged: set a new run_dir, or delete that folder to start again from "
        "step 0 (the checkpoints are then moved aside)"
    )


def _load(saved: Snapshot, train_step: TrainStep) -> None:
    # A moving average that was switched on since starts from the weights.
    train_step.load_weights(saved.part("model"), saved.part("average"))
    parameters = dict(train_step.model.named_parameters())
    for name, tensor in saved.part("optimizer").items():
        key, _, parameter_name = name.partition(".")
        parameter = parameters[parameter_name]
        if not parameter.requires_grad:  # it was frozen since
            continue
        # The count of steps has no dimension, and is not sharded.
        value = sharding.shard_like(tensor, parameter) if tensor.shape else tensor.to(parameter.device)
        train_step.optimizer.state[parameter][key] = value
    if scale := json.loads(saved.metadata["scaler"]):  # empty if saved in another precision than float16
        train_step.scaler.load_state_dict(scale)


def _states(run: Path) -> list[Path]:
    return sorted((run / "state").glob("step-*.safetensors"))
