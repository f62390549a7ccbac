"""The model that a run starts from: training.start_from.

It is read once, when the run begins. Its vocabulary and where it is from are then in the run's saved states, and it may
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

# Of its provenance; `start_from` is there if it was started from a model itself.
_ORIGIN = (
    "nmt", "run_dir", "step", "averaged", "selected", "ema_decay", "best_metric", "best_set", *METRICS,
    "start_from", "imported_from", "license",
)  # fmt: skip
# Settings by which a vocabulary is learned: where the model's is taken, the run has those that it was learned with.
_OF_LEARNING = ("size", "character_coverage", "byte_fallback", "normalization", "sample_sentences")


@dataclass(frozen=True)
class Start:
    """origin: where the model is from, as JSON values: `file`, `sha256`, and of its provenance what describes it.
    vocabulary: its own, None if the run has another one."""

    origin: Mapping[str, Any]
    vocabulary: Vocabulary | None

    def to_json(self) -> str:
        """As text, for the metadata of a file: there it is read without the tensors."""
        subwords = self.vocabulary
        protos = [] if subwords is None else list(subwords.protos)[: 1 if subwords.source is subwords.target else 2]
        same = subwords is not None and subwords.same_subwords
        files = [base64.b64encode(proto).decode() for proto in protos]
        return json.dumps({"origin": self.origin, "vocabulary": files, "same_subwords": same})

    @staticmethod
    def from_json(text: str) -> "Start":
        """Raises ValueError, KeyError, TypeError or NmtError for another text."""
        fields = json.loads(text)
        sides = [Tokenizer(base64.b64decode(proto)) for proto in fields["vocabulary"]]
        vocabulary = Vocabulary(sides[0], sides[-1], fields["same_subwords"]) if sides else None
        return Start(fields["origin"], vocabulary)


def with_recorded_start(config: Config, saved: Config, start: Start | None) -> Config:
    """The settings of a run that goes on, with the training.start_from and the vocabulary.relearn that it began with,
    where they are left out or name the same model in another place: once it has begun they have no effect, so that
    they may be removed. saved: its settings so far; start: its model."""
    given, before = config.training.start_from, saved.training.start_from
    if given is None or (start is not None and _is_the_model(given, before, start)):
        config = replace(config, training=replace(config.training, start_from=before))
    relearn = config.vocabulary.relearn or saved.vocabulary.relearn
    config = replace(config, vocabulary=replace(config.vocabulary, relearn=relearn))
    return config if start is None or start.vocabulary is None else _with_vocabulary_of(config, saved)


def _with_vocabulary_of(config: Config, other: Config) -> Config:
    """The settings, with those by which the vocabulary of another run was learned."""
    learned = {name: getattr(other.vocabulary, name) for name in _OF_LEARNING}
    return replace(config, vocabulary=replace(config.vocabulary, **learned))


def _is_the_model(given: str, before: str | None, start: Start) -> bool:
    """Whether `given` is the place `before`, written otherwise, or holds the model that a run started from."""
    if before is not None and os.path.realpath(given) == os.path.realpath(before):  # unlike Path.resolve, for loops too
        return True
    with contextlib.suppress(NmtError):
        return file_digest(model_file.locate(Path(given))) == start.origin["sha256"]
    return False


def read(config: Config) -> tuple[Config, Start | None]:
    """The settings of a new run, and the model that training.start_from names; None if it names none. If the run takes
    the model's vocabulary, it also takes the settings by which that was learned; the log names those that differ.

    Raises NmtError if it cannot be read, or if its settings make another model than those of the run.
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
    known = {key: checkpoint.provenance[key] for key in _ORIGIN if key in checkpoint.provenance}
    log.info("training.start_from: %s%s", path, f", step {known['step']:,}" if "step" in known else "")
    expected, given = checkpoint.config.data.language_pairs, config.data.language_pairs
    if own and expected.has_tags and given.has_tags and "sides" in {expected.tagged, given.tagged} != {"sides"}:
        raise NmtError(
            f"training.start_from: {path}: its tokens of languages are those of data.language_tags: {expected.tagged}: "
            f"set data.language_tags={expected.tagged}"
        )
    if own and expected.has_tags and given.has_tags:
        _check_codes(expected, given)
    if own and expected.has_tags and not given.has_tags:
        log.warning(
            "training.start_from: that model expects a token such as %s before each source; this run is of one pair of "
            "languages, and gives none%s",
            expected.tags(next((pair for pair in expected.pairs if given.has(pair)), expected.pairs[0]))[-1],
            "" if (fitting := expected.tags_for_one) is None else f": set data.language_tags={fitting}",
        )
    if new := [str(pair) for pair in given.pairs if not expected.has(pair)]:
        log.log(
            logging.WARNING if own else logging.INFO,  # with another vocabulary it is meant for other languages
            "training.start_from: that model was not trained for %s, but for %s",
            ", ".join(new),
            ", ".join(map(str, expected.pairs)),
        )
    if own:
        before, config = config, _with_vocabulary_of(config, checkpoint.config)
        for name, (here, there) in writer.differences(before, config).items():
            log.info("training.start_from: %s: %s, as the vocabulary of the model has it, not %s", name, there, here)
    origin = {"file": str(path), "sha256": file_digest(path), **known}
    return config, Start(origin, checkpoint.vocabulary if own else None)


def _check_codes(expected: LanguagePairs, given: LanguagePairs) -> None:
    """Raises NmtError for a language that the model writes otherwise, as the tokens of languages are named by it."""
    for known, codes in ((expected.sources, given.sources), (expected.targets, given.targets)):
        for code in codes:
            if code not in known and (meant := matching(code, known)):
                raise NmtError(
                    f"training.start_from: that model writes the language {code} as {meant}: write it so too"
                )


def _takes_vocabulary(config: Config) -> bool:
    """Whether the settings name no SentencePiece model for at least one side."""
    given = config.vocabulary.source_model, config.vocabulary.target_model
    return None in given if not config.vocabulary.shared else given == (None, None)


def _check_settings(path: Path, checkpoint: Checkpoint, config: Config, *, own: bool) -> None:
    """Raises NmtError naming all settings in which the models differ. own: the run takes the model's vocabulary."""
    changed = schema.differences_of_models(checkpoint.config, config)
    wanted = {name: there for name, (there, _) in changed.items()}
    if own and checkpoint.vocabulary.shared != config.vocabulary.shared:
        there, here = (str(shared).lower() for shared in (checkpoint.vocabulary.shared, config.vocabulary.shared))
        changed["vocabulary.shared"] = there, here
        wanted["vocabulary.shared"] = there
    elif "model.tie" in changed and changed["model.tie"][0] == "all" and not config.vocabulary.shared:
        wanted["vocabulary.shared"] = "true"  # which tie=all needs
    if changed:
        rows = [f"{name}: {there} there, {here} here" for name, (there, here) in changed.items()]
        raise NmtError(
            f"training.start_from: {path}: a model of other settings than this run has ({'; '.join(rows)}): set "
            f"{' '.join(shlex.quote(f'{name}={value}') for name, value in wanted.items())}"
        )


def load(start: Start, train_step: TrainStep, vocabulary: Vocabulary, ranks: Ranks) -> None:
    """Copy the weights into a TrainStep with this vocabulary. Logs how many rows are kept of matrices with a row for
    each subword, if it is another vocabulary.

    Only the first rank reads the file. Raises NmtError if it has changed since `read`. Collective.
    """
    model, weights = train_step.model, dict[str, Tensor]()
    initial = {name: sharding.gather(model.get_parameter(name).detach()).cpu() for name in model.subword_rows()}
    if ranks.first:
        path = Path(start.origin["file"])
        checkpoint = model_file.load(path)
        if file_digest(path) != start.origin["sha256"]:
            raise NmtError(f"training.start_from: {path}: has changed since this command was started: start it again")
        weights |= checkpoint.weights
        for name, side in model.subword_rows().items():
            old, new = getattr(checkpoint.vocabulary, side), getattr(vocabulary, side)
            if old.proto != new.proto:
                weights[name], kept = with_known_rows(initial[name], weights[name], old, new)
                log.info("training.start_from: %s: %s of %s rows kept", name, f"{kept:,}", f"{len(new):,}")
    train_step.load_weights(ranks.broadcast_tensors(weights))


def with_known_rows(initial: Tensor, trained: Tensor, old: Tokenizer, new: Tokenizer) -> tuple[Tensor, int]:
    """The initial rows [V', D], with the trained rows [V, D] of the subwords that both vocabularies have, and how many
    these are. A subword is the same if its text and its kind, text or special, are."""
    places = {subword: row for row, subword in enumerate(zip(old.every_piece(), old.are_text(), strict=True))}
    subwords = enumerate(zip(new.every_piece(), new.are_text(), strict=True))
    pairs = [(row, places[subword]) for row, subword in subwords if subword in places]
    to, from_ = torch.tensor(pairs).T
    return initial.index_copy(0, to, trained[from_].to(initial.dtype)), len(pairs)
