"""Averages of a run's checkpoints tried on its validation set: the last ones, the best ones, the moving average.

Section 6.1 of the paper averages the last 5 (base) or 20 (big); which number is best depends on the run.
"""

import dataclasses
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tqdm import tqdm

from nmt import device as devices
from nmt.checkpoints import averaging, model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.validate import Validator, is_validated_on
from nmt.config import schema
from nmt.data import corpus
from nmt.data.cleaning import without_empty
from nmt.data.corpus import Pair
from nmt.decoding.engine import TransformerEngine
from nmt.errors import NmtError, current_folder
from nmt.files import json_lines
from nmt.files.table import table

log = logging.getLogger("nmt")

_COUNTS = (1, 3, 5, 10, 20)


@dataclass(frozen=True)
class Candidate:
    """One or more files whose mean is tried, and what to call it: `last 5`, or `last 5, best 5` where these are one."""

    name: str
    paths: tuple[Path, ...]


@dataclass(frozen=True)
class Tried:
    """A candidate's scores on the validation set: the loss in nats a target subword, BLEU and chrF of its search."""

    candidate: Candidate
    loss: float
    bleu: float
    chrf: float


def candidates(run: Path, last: Sequence[int] = _COUNTS, best: Sequence[int] = _COUNTS) -> list[Candidate]:
    """The last and the best so many checkpoints, as far as there are so many, and the moving average.

    Each set of files once. Raises NmtError where there are none.
    """
    if not run.is_dir():
        raise NmtError(f"{run}: {'not a' if run.exists() else 'no such'} folder: give the folder of a run")
    newest, ranked = model_file.last(run, max(last)), model_file.best(run, max(best))
    chosen = [(f"last {count}", newest[-count:]) for count in last if count <= len(newest)]
    chosen += [(f"best {count}", ranked[:count]) for count in best if count <= len(ranked)]
    named: dict[frozenset[Path], list[str]] = {}
    for name, paths in chosen:
        named.setdefault(frozenset(paths), []).append(name)
    if (run / model_file.EMA).is_file():
        named[frozenset([run / model_file.EMA])] = ["moving average"]
    if not named:
        raise NmtError(f"{run}: no checkpoints to choose from: give the folder of a run that has some")
    return [Candidate(", ".join(names), tuple(sorted(files))) for files, names in named.items()]


def select(run: Path, device_name: str) -> tuple[Checkpoint, list[Tried]]:
    """The mean with the highest BLEU on the run's validation set (of equal ones, of the fewest files), and all tried.

    They are searched with the `decoding` settings of the newest checkpoint. The text is the one that RUN/config.yaml
    names. The provenance of the winner has its scores. Raises NmtError where the run has no checkpoints, its
    validation text is not there or is not the one that the run was validated on, or the device is not there.
    """
    device = devices.choose(device_name)
    among = candidates(run)
    newest = model_file.load(among[0].paths[-1])
    pairs = _validation(run, schema.load(run / "config.yaml"), newest.provenance.get("validation_key"))
    validator = Validator(newest.vocabulary, pairs, newest.config)
    log.info("%d candidates, each to translate %s validation lines", len(among), f"{len(validator.sources):,}")
    devices.keep_freed_memory()
    tried = []
    for candidate in tqdm(among, "trying", unit=" candidates", disable=None, leave=False):
        tried.append(_try(candidate, validator, pairs, device))
        log.info("%s: BLEU %.2f", candidate.name, tried[-1].bleu)
    best = min(tried, key=lambda one: (-one.bleu, len(one.candidate.paths)))
    mean = averaging.average(best.candidate.paths)
    scores = {"validation_loss": best.loss, "bleu": best.bleu, "chrf": best.chrf, "selected": best.candidate.name}
    return dataclasses.replace(mean, provenance={**mean.provenance, **scores}), tried


def to_text(tried: Sequence[Tried], kept: str) -> str:
    """A row for each candidate, with a star at the one named `kept`."""
    rows = [["candidate", "files", "loss", "BLEU", "chrF"]]
    for one in tried:
        scores = [f"{one.loss:.4f}", f"{one.bleu:.2f}", f"{one.chrf:.2f}"]
        rows.append([one.candidate.name, str(len(one.candidate.paths)), *scores])
    return table(rows, mark=[one.candidate.name for one in tried].index(kept) + 1)


def _validation(run: Path, settings: schema.Config, recorded: str | None) -> list[Pair]:
    """The pairs that the run was validated on; `recorded` is the validation key in its newest checkpoint.

    NmtError naming the setting where they cannot be read, or are others.
    """
    given, place = settings.data.validation, f"{run}/config.yaml: data.validation"
    if given is None:
        raise NmtError(f"{place} is not set: --select needs a text to choose by")
    how = f"{_where_to_run(run)}, or correct the path there"
    try:
        pairs = without_empty(list(corpus.read_pairs(given, settings.data, "validation")))
    except NmtError as error:
        raise NmtError(f"{place}: {error}: {how}") from None
    if not pairs:
        raise NmtError(f"{place}: every pair has an empty side: it needs some text")
    if recorded is None:
        log.warning("%s: the checkpoints do not say on which text they were validated: %s is used", run, given.label)
    elif not is_validated_on(recorded, pairs):
        raise NmtError(
            f"{place}: {given.label}, read in {current_folder()}, is not the text that the newest checkpoint was "
            f"validated on: {how}"
        )
    return pairs


def _where_to_run(run: Path) -> str:
    """In which folder the relative paths of a run's settings lead to its files."""
    sessions, _ = json_lines.read(run / "sessions.jsonl")
    folders = [row["folder"] for row in sessions if isinstance(row.get("folder"), str)]
    started = "in which training was started" if not folders else f"{folders[-1]}, in which training was started"
    return f"run this command in the folder {started}"


def _try(candidate: Candidate, validator: Validator, pairs: Sequence[Pair], device: torch.device) -> Tried:
    """The loss over all pairs, as in training; the search over those of training.validation_sentences."""
    model = averaging.average(candidate.paths).build().to(device)
    scores = validator(model)
    engine = TransformerEngine([model], device, validator.config.training.precision)
    tokenizers = validator.vocabulary.source, validator.vocabulary.target
    ids = [tokenizer.encode(list(side)) for tokenizer, side in zip(tokenizers, zip(*pairs, strict=True), strict=True)]
    found = engine.score(list(zip(*ids, strict=True)), validator.config.search.batch_tokens)
    log_probabilities = [one for line in found for one in line]
    return Tried(candidate, -math.fsum(log_probabilities) / len(log_probabilities), scores.bleu, scores.chrf)
