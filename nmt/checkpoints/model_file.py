"""Model files: weights, settings, vocabulary and provenance in one safetensors file, without pickle.

A model file contains everything needed for translation. A run folder contains one for each checkpoint, one for the best
validation score, and one for the moving average of the weights if there is one.
"""

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from nmt.config import schema, writer
from nmt.config.metrics import METRICS
from nmt.config.schema import Config, ModelConfig
from nmt.data.cleaning.source_text import SourceText
from nmt.data.subwords.shortlist import Shortlist
from nmt.data.subwords.vocabulary import PAD, Tokenizer, Vocabulary
from nmt.errors import NmtError
from nmt.files import tensors as tensor_file
from nmt.models import build
from nmt.models.translation_model import TranslationModel

log = logging.getLogger("nmt")

FORMAT = "nmt-model"
VERSION = 1
BEST = "best.safetensors"
EMA = "ema.safetensors"
_CHECKPOINTS = "step-[0-9]*.safetensors"
# Files by which an exported folder is recognized, by program. CTranslate2 is missing: some commands use its folders.
_EXPORTS = {
    "transformers": "tokenizer_config.json",
    "Bergamot": "model.*.intgemm*.bin",
    "Argos Translate": "*.argosmodel",
}


@dataclass(frozen=True)
class Checkpoint:
    """The contents of a model file.

    weights: name → tensor, each shared matrix once; provenance: step, scores and versions, as JSON values.
    path: the file that this was read from, or None; shortlist: for engines that use one, if it has been learned.
    """

    config: Config
    vocabulary: Vocabulary
    weights: Mapping[str, Tensor]
    provenance: Mapping[str, Any]
    path: Path | None = field(default=None, compare=False)
    shortlist: Shortlist | None = field(default=None, compare=False)

    def build(self) -> TranslationModel:
        """The model in float32 on the CPU, in eval mode. Raises NmtError if the weights do not fit the settings."""
        with build.Uninitialised():
            model = new_model(self.config.model, self.vocabulary)
        load_weights(model, self.weights)
        return model.eval()

    @property
    def is_finite(self) -> bool:
        """Whether all weights are finite numbers, in float32 too."""
        return all(bool(weight.float().isfinite().all()) for weight in self.weights.values())


_WEIGHT = "model."  # the prefix of each weight's name
_SOURCE, _TARGET = "vocabulary.source", "vocabulary.target"  # the target's only if it differs from the source's
_SHORTLIST = "shortlist.offsets", "shortlist.targets"


def new_model(config: ModelConfig, vocabulary: Vocabulary) -> TranslationModel:
    """An untrained model for these settings and a vocabulary of this size."""
    return build.build(config, len(vocabulary.source), len(vocabulary.target), PAD)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The model's parameters by name, each shared one once. The tensors are not copies."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into the model. Raises NmtError for the first that is missing, unknown or of another shape."""
    parameters = dict(model.named_parameters())
    _check_shapes("model file", parameters, weights)
    for name, parameter in parameters.items():
        parameter.detach().copy_(weights[name])


def _check_shapes(file: object, expected: Mapping[str, Tensor], weights: Mapping[str, Tensor]) -> None:
    for name in sorted(expected.keys() ^ weights.keys()):
        problem = "lacks" if name in expected else "has an unknown"
        raise NmtError(f"{file} {problem} weight {name[:100]}: its settings and its weights do not belong together")
    for name, parameter in expected.items():
        if (shape := weights[name].shape) != parameter.shape:
            raise NmtError(
                f"{file}: weight {name} is {list(shape)}, but its settings and vocabulary need "
                f"{list(parameter.shape)}: they do not belong together"
            )


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a model file, atomically. Raises NmtError if it cannot be written."""
    vocabulary = checkpoint.vocabulary
    protos = {_SOURCE: vocabulary.source.proto}
    if vocabulary.source is not vocabulary.target:
        protos[_TARGET] = vocabulary.target.proto
    tensors = {_WEIGHT + name: weight for name, weight in checkpoint.weights.items()}
    tensors |= {name: torch.frombuffer(bytearray(proto), dtype=torch.uint8) for name, proto in protos.items()}
    if (shortlist := checkpoint.shortlist) is not None:
        arrays = shortlist.offsets, shortlist.targets
        tensors |= {name: torch.from_numpy(array) for name, array in zip(_SHORTLIST, arrays, strict=True)}
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": writer.to_yaml(checkpoint.config),
        "provenance": json.dumps(dict(checkpoint.provenance), ensure_ascii=False),
    }
    tensor_file.write(path, tensors, metadata)


def load(path: Path) -> Checkpoint:
    """Read a model file. Raises NmtError if it is missing, cut short, damaged or not a model file.

    Whatever a file's settings are, this uses at most as much memory as the file has bytes, and building the model twice
    as much: the weights' shapes are first compared with a model on the meta device, which needs no memory.
    """
    return _checkpoint(path, *tensor_file.read(path))


def load_outline(path: Path) -> Checkpoint:
    """A model file with only the shapes of its weights, as tensors on the meta device. This is fast, and does not test
    the checksum. Raises NmtError as `load` does."""
    return _checkpoint(path, *tensor_file.read_outline(path, (_SOURCE, _TARGET, *_SHORTLIST)))


def _checkpoint(path: Path, tensors: dict[str, Tensor], metadata: Mapping[str, str]) -> Checkpoint:
    config, provenance = _config(path, metadata), _provenance(path, metadata)
    _check_tensors(path, tensors)
    protos = {name: tensors.pop(name).numpy().tobytes() for name in (_SOURCE, _TARGET) if name in tensors}
    vocabulary, shortlist = _vocabulary(path, protos, config), None
    if _SHORTLIST[0] in tensors:
        shortlist = Shortlist(*(tensors.pop(name).numpy() for name in _SHORTLIST))
        shortlist.check(str(path), vocabulary)
    weights = {name.removeprefix(_WEIGHT): tensor for name, tensor in tensors.items()}
    try:
        expected = build.build_on_meta(config.model, len(vocabulary.source), len(vocabulary.target), PAD)
    except NmtError as error:
        raise NmtError(f"{path}: settings inside: {error}") from None
    _check_shapes(path, dict(expected.named_parameters()), weights)
    return Checkpoint(config, vocabulary, weights, provenance, path, shortlist)


def _vocabulary(path: Path, protos: Mapping[str, bytes], config: Config) -> Vocabulary:
    source = target = Tokenizer(protos[_SOURCE], f"{path}: vocabulary")
    if _TARGET in protos:
        target = Tokenizer(protos[_TARGET], f"{path}: target vocabulary")
    return Vocabulary(source, target, same_subwords=_TARGET in protos and config.vocabulary.shared)


def load_provenance(path: Path) -> dict[str, Any]:
    """A model file's provenance without its weights. Raises NmtError as `load` does."""
    return _provenance(path, tensor_file.read_metadata(path))


def load_header(path: Path) -> tuple[Config, dict[str, Any]]:
    """A model file's settings and provenance without its weights. Raises NmtError as `load` does."""
    metadata = tensor_file.read_metadata(path)
    return _config(path, metadata), _provenance(path, metadata)


def _config(path: Path, metadata: Mapping[str, str]) -> Config:
    _check_format(path, metadata)
    text = metadata.get("config")
    if text is None:
        raise NmtError(f"{path}: has no settings: not a complete nmt model file")
    return schema.parse(text, f"{path}: settings inside")


def _provenance(path: Path, metadata: Mapping[str, str]) -> dict[str, Any]:
    _check_format(path, metadata)
    try:
        provenance = json.loads(metadata["provenance"])
    except (KeyError, ValueError, RecursionError):
        provenance = None
    if not isinstance(provenance, dict):
        raise NmtError(f"{path}: damaged: its provenance cannot be read: use another copy or checkpoint")
    return provenance


def _check_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Raises NmtError unless a file's tensors are one or two vocabularies, weights, and a shortlist or none."""
    for name, tensor in tensors.items():
        if name in (_SOURCE, _TARGET):
            if tensor.dtype != torch.uint8 or tensor.dim() != 1:
                raise NmtError(f"{path}: {name} is not a row of bytes: not a complete nmt model file")
        elif name in _SHORTLIST:
            if tensor.dtype != torch.int32 or tensor.dim() != 1 or not tensors.keys() >= {*_SHORTLIST}:
                raise NmtError(f"{path}: {name}: not a complete shortlist: not a complete nmt model file")
        elif not name.startswith(_WEIGHT):
            raise NmtError(f"{path}: has an unknown tensor {name[:100]}: not an nmt model file of this version")
        elif not tensor.is_floating_point():
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise NmtError(f"{path}: weight {name[:100]} is of type {dtype}: weights are floating-point numbers")
    if _SOURCE not in tensors:
        raise NmtError(f"{path}: has no vocabulary: not a complete nmt model file")


_SOURCE_TEXT = "source_text"
DATE, TRAINING_TEXT = "date", "training_text"
_ORIGIN = (
    "nmt", "torch", DATE, "run_dir", "step", "target_tokens", "start_from", "imported_from", "license", _SOURCE_TEXT,
    TRAINING_TEXT,
)  # fmt: skip


def origin(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The provenance without validation scores, which also describes an average of several checkpoints."""
    return {key: value for key, value in provenance.items() if key in _ORIGIN}


def source_text(provenance: Mapping[str, Any]) -> SourceText | None:
    """The recorded properties of the training sources; None for an imported model."""
    return SourceText.from_json(provenance.get(_SOURCE_TEXT))


def with_source_text(source_text: SourceText | None) -> dict[str, Any]:
    """The provenance entry for `source_text`; empty for None."""
    return {} if source_text is None else {_SOURCE_TEXT: source_text.to_json()}


def _check_format(path: Path, metadata: Mapping[str, str]) -> None:
    if metadata.get("format") != FORMAT:
        raise NmtError(f"{path}: a safetensors file, but not an nmt model: give a model file from `nmt train`")
    if metadata.get("version") != str(VERSION):
        raise NmtError(
            f"{path}: model file of version {metadata.get('version', '')[:20]}; this nmt reads version {VERSION}: "
            "use the version of nmt that wrote the file, or a newer one"
        )


def checkpoint_path(run: Path, step: int) -> Path:
    """The path of a step's checkpoint."""
    return run / "checkpoints" / f"step-{step:08d}.safetensors"


def run_folder(path: Path) -> Path:
    """The run folder of a path: RUN for RUN/checkpoints, otherwise the path itself."""
    absolute = path.resolve() if path.is_dir() else path
    if absolute.name == "checkpoints" and any(absolute.glob(_CHECKPOINTS)):
        return path.parent if path.name == absolute.name else absolute.parent
    return path


def checkpoints(run: Path) -> list[Path]:
    """The run's checkpoints, oldest first."""
    return sorted((run / "checkpoints").glob(_CHECKPOINTS), key=lambda path: (len(path.name), path.name))


def provenances(run: Path) -> dict[Path, dict[str, Any]]:
    """The provenance of each of the run's checkpoints, oldest first. Damaged ones are skipped with a warning."""
    by_path = {}
    for path in checkpoints(run):
        try:
            by_path[path] = load_provenance(path)
        except NmtError as error:  # the other checkpoints are still usable
            log.warning("%s; skipped", error)
    return by_path


def best(run: Path, count: int) -> list[Path]:
    """The `count` checkpoints with the best validation score (or all, if fewer), best first, without damaged ones.

    Checkpoints that were not validated like the newest one are left out, because their scores cannot be compared.
    """
    return ranked(provenances(run))[:count]


def ranked(provenances: Mapping[Path, Mapping[str, Any]]) -> list[Path]:
    """These checkpoints (oldest first) as `best` orders them. For equal scores the oldest comes first."""
    scored: list[tuple[object, float, Path]] = []
    for path, provenance in provenances.items():
        metric = str(provenance.get("best_metric"))
        sets = provenance.get("validation", ())  # only recorded if there are several sets
        # The index of training.best_set, because a set may have been renamed. None: the mean over the sets.
        index = next((i for i, scores in enumerate(sets) if scores["name"] == provenance.get("best_set")), None)
        score = (provenance if index is None else sets[index]).get(metric)
        if metric in METRICS and isinstance(score, int | float) and not math.isnan(score):
            key = metric, index, provenance.get("validation_key")
            scored.append((key, METRICS[metric].gain(score), path))
    comparable = [(gain, path) for key, gain, path in scored if key == scored[-1][0]]
    return [path for _, path in sorted(comparable, key=lambda pair: -pair[0])]


def locate(model: Path) -> Path:
    """The path itself, or the best (otherwise the newest) model file of a run folder; NmtError if it has none."""
    if not model.is_dir():
        return model
    run = run_folder(model)
    if (run / BEST).is_file():
        return run / BEST
    if oldest_first := checkpoints(run):
        return oldest_first[-1]
    for program, name in _EXPORTS.items():
        if any(model.glob(name)):
            raise NmtError(f"{model}: a folder for {program}, not for nmt: give the model file that was exported")
    if (model / "model.bin").is_file():
        raise NmtError(
            f"{model}: a folder for CTranslate2, which this command cannot use: give the model file that was exported"
        )
    if (model / "config.yaml").is_file():
        raise _without_checkpoints(model)
    raise NmtError(f"{model}: no checkpoint here: train first, or give a model file")


def _without_checkpoints(run: Path) -> NmtError:
    """The error for a run without checkpoints. Raises NmtError if the run's settings cannot be read."""
    training = schema.load(run / "config.yaml").training
    steps = [path.stem.removeprefix("step-") for path in (run / "state").glob(_CHECKPOINTS)]
    step = max((int(digits) for digits in steps if digits.isdecimal()), default=0)
    intervals = training.checkpoint_every, training.validate_every
    due = min(training.max_steps, *(step - step % interval + interval for interval in intervals))
    saved = f"stopped at step {step:,}" if step else "nothing is saved yet"
    return NmtError(
        f"{run}: the run has no checkpoint yet ({saved}): the first is due at step {due:,} "
        f"(training.checkpoint_every: {intervals[0]}, training.validate_every: {intervals[1]}): run nmt train again, "
        "with a lower training.checkpoint_every to get one earlier"
    )
