"""A model file: weights, settings, vocabulary and where they came from, in one safetensors file.

It translates by itself on any machine; there is no pickle in it. The folder of a run holds one for
each checkpoint, one that was best on validation, and one of the weights' moving average if that is kept.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nmt import config, settings, tensor_file
from nmt.config import Config
from nmt.data.vocabulary import PAD, Tokenizer, Vocabulary
from nmt.errors import NmtError
from nmt.model.transformer import Transformer

log = logging.getLogger("nmt")

FORMAT = "nmt-model"
VERSION = 1
BEST = "best.safetensors"
EMA = "ema.safetensors"
_CHECKPOINTS = "step-[0-9]*.safetensors"


@dataclass(frozen=True)
class Checkpoint:
    """What a model file holds.

    weights: name → tensor, each shared matrix once; provenance: step, scores and versions, as JSON values.
    """

    config: Config
    vocabulary: Vocabulary
    weights: Mapping[str, Tensor]
    provenance: Mapping[str, Any]

    def build(self) -> Transformer:
        """The model with these weights, in float32 on the CPU, ready to translate (eval mode).

        Raises NmtError where the weights do not fit the settings.
        """
        model = new_model(self.config, self.vocabulary)
        load_weights(model, self.weights)
        return model.eval()


def new_model(settings_: Config, vocabulary: Vocabulary) -> Transformer:
    """An untrained model of these settings for this vocabulary."""
    return Transformer(settings_.model, len(vocabulary.source), len(vocabulary.target), PAD)


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """The model's parameters by name, each shared one once; the tensors themselves, not copies."""
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@torch.no_grad()
def load_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into the model. Raises NmtError naming the first one missing, unknown or misshapen."""
    parameters = dict(model.named_parameters())
    for name in sorted(parameters.keys() ^ weights.keys()):
        which = "lacks" if name in parameters else "has an unknown"
        raise NmtError(f"model file {which} weight {name}: its settings and its weights do not belong together")
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise NmtError(
                f"model file: weight {name} is {list(weights[name].shape)}, the settings make it "
                f"{list(parameter.shape)}: they do not belong together"
            )
        parameter.copy_(weights[name])


def save(path: Path, checkpoint: Checkpoint) -> None:
    """Write a model file, atomically. Raises NmtError when the disk refuses."""
    vocabulary = checkpoint.vocabulary
    protos = {"vocabulary.source": vocabulary.source.proto}
    if not vocabulary.shared:
        protos["vocabulary.target"] = vocabulary.target.proto
    tensors = {f"model.{name}": weight for name, weight in checkpoint.weights.items()}
    tensors |= {name: torch.from_numpy(np.frombuffer(proto, np.uint8).copy()) for name, proto in protos.items()}
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "config": settings.to_yaml(checkpoint.config),
        "provenance": json.dumps(dict(checkpoint.provenance), ensure_ascii=False),
    }
    tensor_file.write(path, tensors, metadata)


def load(path: Path) -> Checkpoint:
    """Read a model file. Raises NmtError if it is missing, cut short, damaged or not one of ours."""
    metadata = _our_metadata(path)
    tensors, _ = tensor_file.read(path)
    weights, protos = {}, {}
    for name, tensor in tensors.items():
        kind, _, rest = name.partition(".")
        if kind == "model":
            weights[rest] = tensor
        elif kind == "vocabulary":
            protos[rest] = tensor.numpy().tobytes()
    if "source" not in protos:
        raise NmtError(f"{path}: holds no vocabulary: not a whole nmt model file")
    source = Tokenizer(protos["source"], f"{path}: vocabulary")
    target = Tokenizer(protos["target"], f"{path}: target vocabulary") if "target" in protos else source
    settings_ = config.parse(metadata["config"], f"{path}: settings inside")
    return Checkpoint(settings_, Vocabulary(source, target), weights, json.loads(metadata["provenance"]))


def load_provenance(path: Path) -> dict[str, Any]:
    """A model file's provenance without its weights. Raises NmtError as `load` does."""
    try:
        provenance: dict[str, Any] = json.loads(_our_metadata(path)["provenance"])
    except (KeyError, ValueError):
        raise NmtError(f"{path}: damaged: its provenance cannot be read: use another copy or checkpoint") from None
    return provenance


def load_config(path: Path) -> Config:
    """A model file's settings without its weights. Raises NmtError as `load` does."""
    return config.parse(_our_metadata(path)["config"], f"{path}: settings inside")


def origin(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Of a provenance, what holds for other weights of the same training too: not the scores of just these."""
    return {key: value for key, value in provenance.items() if key in ("nmt", "torch", "run_dir", "step")}


def _our_metadata(path: Path) -> dict[str, str]:
    metadata = tensor_file.read_metadata(path)
    if metadata.get("format") != FORMAT:
        raise NmtError(f"{path}: a safetensors file, but not an nmt model: give one that `nmt train` wrote")
    if metadata.get("version") != str(VERSION):
        raise NmtError(
            f"{path}: model file of version {metadata.get('version')}; this nmt reads version {VERSION}: "
            "use the nmt that wrote it, or a newer one"
        )
    return metadata


def checkpoint_path(run: Path, step: int) -> Path:
    """Where the checkpoint of a step is."""
    return run / "checkpoints" / f"step-{step:08d}.safetensors"


def run_folder(path: Path) -> Path:
    """The run's folder that a path stands for: RUN/checkpoints stands for RUN, any other path for itself."""
    whole = path.resolve() if path.is_dir() else path
    if whole.name == "checkpoints" and any(whole.glob(_CHECKPOINTS)):
        return path.parent if path.name == whole.name else whole.parent
    return path


def checkpoints(run: Path) -> list[Path]:
    """The run's checkpoints, oldest first."""
    return sorted((run / "checkpoints").glob(_CHECKPOINTS), key=lambda path: (len(path.name), path.name))


def last(run: Path, count: int) -> list[Path]:
    """The newest `count` checkpoints (fewer where there are fewer), oldest first."""
    return checkpoints(run)[-count:]


def best(run: Path, count: int) -> list[Path]:
    """The `count` checkpoints that validated best (fewer where there are fewer), best first; none that is damaged.

    Of those that were validated as the newest was: other scores do not compare.
    """
    scored = []
    for path in checkpoints(run):
        try:
            provenance = load_provenance(path)
        except NmtError as error:  # one bad file must not stop what concerns the others
            log.warning("%s; passed over", error)
            continue
        metric = provenance.get("best_metric")
        if metric in provenance:
            key = metric, provenance.get("validation_key")
            scored.append((key, provenance[metric] * (1 if metric == "validation_loss" else -1), path))
    return [path for _, path in sorted((score, path) for key, score, path in scored if key == scored[-1][0])][:count]


def locate(model: Path) -> Path:
    """The model file that a path stands for: itself, or the best (else the newest) of a run's folder.

    Raises NmtError for a folder without one.
    """
    if not model.is_dir():
        return model
    run = run_folder(model)
    if (run / BEST).is_file():
        return run / BEST
    if found := checkpoints(run):
        return found[-1]
    if (model / "tokenizer_config.json").is_file():
        raise NmtError(f"{model}: a folder for transformers, not for nmt: give the model file it was exported from")
    if (model / "config.yaml").is_file():
        raise _without_checkpoints(model)
    raise NmtError(f"{model}: no {BEST} and no checkpoints in this folder: give a model file or a run's folder")


def _without_checkpoints(run: Path) -> NmtError:
    """The error of a run that has not come to its first checkpoint; raises it where the settings cannot be read."""
    training = config.load(run / "config.yaml").training
    steps = [path.stem.removeprefix("step-") for path in (run / "state").glob(_CHECKPOINTS)]
    step = max((int(digits) for digits in steps if digits.isdecimal()), default=0)
    every = training.checkpoint_every, training.validate_every
    due = min(training.max_steps, *(step - step % interval + interval for interval in every))
    saved = f"stopped at step {step:,}" if step else "nothing of it is saved so far"
    return NmtError(
        f"{run}: the run has no checkpoint yet ({saved}): its next one is due at step {due:,} "
        f"(training.checkpoint_every: {every[0]}, training.validate_every: {every[1]}): run nmt train again to go on, "
        "with a lower training.checkpoint_every to have one earlier"
    )
