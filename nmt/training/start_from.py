"""The model that a run starts from: training.start_from.

It is read once, when the run begins. The run's saved states contain its vocabulary and its origin, so that the file may
be deleted.
"""

import base64
import contextlib
import json
import logging
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nmt.checkpoints import model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.config import schema, writer
from nmt.config.language_codes import matching
from nmt.config.language_pairs import LanguagePairs
from nmt.config.metrics import METRICS
from nmt.config.schema import Config
from nmt.data.subwords.vocabulary import Tokenizer, Vocabulary
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.files.text import file_digest
from nmt.training import sharding
from nmt.training.train_step import TrainStep

log = logging.getLogger("nmt")

# The recorded keys of the model's provenance. `start_from` is among them if the model itself started from another one.
_ORIGIN = (
    "nmt", "run_dir", "step", "averaged", "selected", "ema_decay", "best_metric", "best_set", *METRICS,
    "start_from", "imported_from", "license",
)  # fmt: skip
# Settings of learning a vocabulary. A run that takes the model's vocabulary also takes these settings of the model.
_LEARNING_SETTINGS = ("size", "character_coverage", "byte_fallback", "normalization", "sample_sentences")


@dataclass(frozen=True)
class Start:
    """The model that a run starts from.

    origin: JSON values: `file`, `sha256`, and the descriptive part of its provenance. vocabulary: the model's, or None
    if the run has another one.
    """

    origin: Mapping[str, Any]
    vocabulary: Vocabulary | None

    def to_json(self) -> str:
        """JSON for the metadata of a state, where it can be read without the tensors."""
        subwords = self.vocabulary
        protos = [] if subwords is None else list(subwords.protos)[: 1 if subwords.source is subwords.target else 2]
        same = subwords is not None and subwords.same_subwords
        files = [base64.b64encode(proto).decode() for proto in protos]
        return json.dumps({"origin": self.origin, "vocabulary": files, "same_subwords": same})

    @staticmethod
    def from_json(text: str) -> "Start":
        """The reverse of `to_json`. Raises ValueError, KeyError, TypeError or NmtError for any other text."""
        fields = json.loads(text)
        sides = [Tokenizer(base64.b64decode(proto)) for proto in fields["vocabulary"]]
        vocabulary = Vocabulary(sides[0], sides[-1], fields["same_subwords"]) if sides else None
        return Start(fields["origin"], vocabulary)


def with_recorded_start(config: Config, saved: Config, start: Start | None) -> Config:
    """The settings of a resumed run, with the training.start_from and vocabulary.relearn of its beginning if they are
    omitted or name the same model by another path. Both have no effect after the first step, so that users may remove
    them. saved: the settings in the saved state; start: the model in the saved state."""
    path, saved_path = config.training.start_from, saved.training.start_from
    if path is None or (start is not None and _is_same_model(path, saved_path, start)):
        config = replace(config, training=replace(config.training, start_from=saved_path))
    relearn = config.vocabulary.relearn or saved.vocabulary.relearn
    config = replace(config, vocabulary=replace(config.vocabulary, relearn=relearn))
    return config if start is None or start.vocabulary is None else _with_vocabulary_of(config, saved)


def _with_vocabulary_of(config: Config, other: Config) -> Config:
    """The settings, with the other's settings of learning a vocabulary."""
    learned = {name: getattr(other.vocabulary, name) for name in _LEARNING_SETTINGS}
    return replace(config, vocabulary=replace(config.vocabulary, **learned))


def _is_same_model(path: str, saved_path: str | None, start: Start) -> bool:
    """Whether the path is the saved one in another form, or contains the model that the run started from."""
    # Unlike Path.resolve, os.path.realpath accepts loops of links.
    if saved_path is not None and os.path.realpath(path) == os.path.realpath(saved_path):
        return True
    with contextlib.suppress(NmtError):
        return file_digest(model_file.locate(Path(path))) == start.origin["sha256"]
    return False


def read(config: Config) -> tuple[Config, Start | None]:
    """The settings of a new run, and the model of training.start_from, or None if that is not set. If the run takes
    the model's vocabulary, it also takes the settings of learning it; the log names those that differ.

    Raises NmtError if the model cannot be read, or if its model settings differ from the run's.
    """
    if config.training.start_from is None:
        return config, None
    try:
        path = model_file.locate(Path(config.training.start_from))
        checkpoint = model_file.load(path)
    except NmtError as error:
        raise NmtError(f"training.start_from: {error}") from None
    own = not config.vocabulary.relearn and _takes_vocabulary(config)
    if own:
        checkpoint.vocabulary.check_installed()
    _check_settings(path, checkpoint, config, own=own)
    recorded = {key: checkpoint.provenance[key] for key in _ORIGIN if key in checkpoint.provenance}
    log.info("training.start_from: %s%s", path, f", step {recorded['step']:,}" if "step" in recorded else "")
    _check_languages(path, checkpoint.config.data.language_pairs, config.data.language_pairs, own=own)
    if own:
        before, config = config, _with_vocabulary_of(config, checkpoint.config)
        for name, (run_value, model_value) in writer.differences(before, config).items():
            log.info(
                "training.start_from: %s: %s, as in the model's vocabulary, instead of %s", name, model_value, run_value
            )
    origin = {"file": str(path), "sha256": file_digest(path), **recorded}
    return config, Start(origin, checkpoint.vocabulary if own else None)


def _check_languages(path: Path, model_pairs: LanguagePairs, run_pairs: LanguagePairs, *, own: bool) -> None:
    """Warn about language pairs that the model was not trained for. own: the run takes the model's vocabulary; then
    also raises NmtError if the run's language tags do not fit it."""
    if own and model_pairs.has_tags and run_pairs.has_tags:
        if "sides" in {model_pairs.tagged, run_pairs.tagged} != {"sides"}:
            raise NmtError(
                f"training.start_from: {path}: its language tags follow data.language_tags: {model_pairs.tagged}: "
                f"set data.language_tags={model_pairs.tagged}"
            )
        _check_codes(model_pairs, run_pairs)
    if own and model_pairs.has_tags and not run_pairs.has_tags:
        shared_pair = next((pair for pair in model_pairs.pairs if run_pairs.has(pair)), model_pairs.pairs[0])
        fitting = model_pairs.tags_for_one
        log.warning(
            "training.start_from: this model expects a token such as %s before each source, but this run has one "
            "language pair, and adds no token%s",
            model_pairs.tags(shared_pair)[-1],
            "" if fitting is None else f": set data.language_tags={fitting}",
        )
    if new := [str(pair) for pair in run_pairs.pairs if not model_pairs.has(pair)]:
        log.log(
            logging.WARNING if own else logging.INFO,  # another vocabulary means that other languages are intended
            "training.start_from: this model was not trained for %s, but for %s",
            ", ".join(new),
            ", ".join(map(str, model_pairs.pairs)),
        )


def _check_codes(model_pairs: LanguagePairs, run_pairs: LanguagePairs) -> None:
    """Raises NmtError if the model uses another code for one of the run's languages: language tags contain the code."""
    sides = (model_pairs.sources, run_pairs.sources), (model_pairs.targets, run_pairs.targets)
    for model_codes, run_codes in sides:
        for code in run_codes:
            if code not in model_codes and (meant := matching(code, model_codes)):
                raise NmtError(
                    f"training.start_from: this model uses the language code {meant} for {code}: use {meant} too"
                )


def _takes_vocabulary(config: Config) -> bool:
    """Whether the settings name no SentencePiece model for at least one side."""
    models = config.vocabulary.source_model, config.vocabulary.target_model
    return models == (None, None) if config.vocabulary.shared else None in models


def _check_settings(path: Path, checkpoint: Checkpoint, config: Config, *, own: bool) -> None:
    """Raises NmtError naming all settings in which the models differ. own: the run takes the model's vocabulary."""
    changed = schema.differences_of_models(checkpoint.config, config)
    remedy = {name: model_value for name, (model_value, _) in changed.items()}
    if own and checkpoint.vocabulary.shared != config.vocabulary.shared:
        model_value, run_value = str(checkpoint.vocabulary.shared).lower(), str(config.vocabulary.shared).lower()
        changed["vocabulary.shared"] = model_value, run_value
        remedy["vocabulary.shared"] = model_value
    elif "model.tie" in changed and changed["model.tie"][0] == "all" and not config.vocabulary.shared:
        remedy["vocabulary.shared"] = "true"  # tie=all requires it
    if changed:
        rows = [f"{name}: {model_value} there, {run_value} here" for name, (model_value, run_value) in changed.items()]
        raise NmtError(
            f"training.start_from: {path}: the model's settings differ from this run's ({'; '.join(rows)}): set "
            f"{' '.join(shlex.quote(f'{name}={value}') for name, value in remedy.items())}"
        )


def load(start: Start, train_step: TrainStep, vocabulary: Vocabulary, ranks: Ranks) -> None:
    """Copy the weights into a TrainStep with this vocabulary. If the vocabulary is not the model's, logs how many rows
    are kept of each matrix with a row for each subword.

    Only the first rank reads the file. Raises NmtError if it has changed since `read`. Collective.
    """
    model, weights = train_step.model, dict[str, Tensor]()
    initial = {name: sharding.gather(model.get_parameter(name).detach()).cpu() for name in model.subword_rows()}
    if ranks.first:
        path = Path(start.origin["file"])
        checkpoint = model_file.load(path)
        if file_digest(path) != start.origin["sha256"]:
            raise NmtError(f"training.start_from: {path}: has changed since this command started: start it again")
        weights |= checkpoint.weights
        for name, side in model.subword_rows().items():
            old, new = getattr(checkpoint.vocabulary, side), getattr(vocabulary, side)
            if old.proto != new.proto:
                weights[name], kept = with_trained_rows(initial[name], weights[name], old, new)
                log.info("training.start_from: %s: %s of %s rows kept", name, f"{kept:,}", f"{len(new):,}")
    train_step.load_weights(ranks.broadcast_tensors(weights))


def with_trained_rows(initial: Tensor, trained: Tensor, old: Tokenizer, new: Tokenizer) -> tuple[Tensor, int]:
    """The initial rows [V', D], with the trained rows [V, D] of the subwords that both vocabularies contain, and the
    number of these subwords. Subwords are equal if their text and their kind (text or special) are equal.

    New tags get the mean row of text. In the output layer, exp(mean logit) is at most the mean of exp(logit), so that
    a new tag is at most as probable as an average subword, and the other probabilities hardly change (Hewitt 2021,
    Initializing New Word Embeddings for Pretrained Language Models). Equal rows of several tags do not stay equal: each
    tag is read in other places.
    """
    old_rows = {subword: row for row, subword in enumerate(zip(old.every_piece(), old.are_text(), strict=True))}
    subwords = list(zip(new.every_piece(), new.are_text(), strict=True))
    pairs = [(row, old_rows[subword]) for row, subword in enumerate(subwords) if subword in old_rows]
    new_tags = [i for i, subword in enumerate(subwords) if subword not in old_rows and new.tag(subword[0]) is not None]
    text = trained[torch.tensor(old.are_text())].to(initial.dtype)
    to, from_ = torch.tensor(pairs).T
    rows = initial.index_copy(0, to, trained[from_].to(initial.dtype))
    # Of biases the median, because in imported models those of subwords that are never written are far below the rest.
    rows[new_tags] = text.mean(dim=0) if text.dim() > 1 else text.median()
    return rows, len(pairs)
