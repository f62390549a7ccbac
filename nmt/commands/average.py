"""Averages checkpoints, and selects the average with the highest BLEU on the run's validation set.

Section 6.1 of the paper averages the last 5 (base) or 20 (big) checkpoints. The best number depends on the run.
"""

import dataclasses
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from nmt import device as devices
from nmt.checkpoints import averaging, model_file
from nmt.checkpoints.model_file import Checkpoint
from nmt.commands.validate import Validator, score_all
from nmt.config import schema
from nmt.config.metrics import METRICS
from nmt.data.batches.token_store import TokenStore
from nmt.data.prepare import ValidationSet, read_validation, validation_sets
from nmt.decoding.engine_protocol import Searcher, batch_tokens
from nmt.errors import NmtError, current_folder
from nmt.files import json_lines, outputs
from nmt.files.table import table
from nmt.machine import prepare_memory
from nmt.training.validation import Validation
from nmt.training.validation_key import recorded_text_key, text_key

log = logging.getLogger("nmt")

_COUNTS = (1, 3, 5, 10, 20)


@dataclass(frozen=True)
class Candidate:
    """A mean that was tried, and its scores.

    name: `last 5`, or `last 5, best 5` if both are the same files; paths: the files of the mean; validation: the scores
    on the validation sets, by their names in METRICS, with the loss in nats per target subword.
    """

    name: str
    paths: Sequence[Path]
    validation: Validation

    @property
    def scores(self) -> dict[str, float]:
        return self.validation.scores


def candidates(run: Path, last: Sequence[int] = _COUNTS, best: Sequence[int] = _COUNTS) -> dict[str, list[Path]]:
    """The files of each candidate, by its name: the last N and the best N checkpoints, for each N up to the number of
    checkpoints, and the moving average. Each set of files is there once. Raises NmtError if there are no files.
    """
    if not run.is_dir():
        raise NmtError(f"{run}: {'not a' if run.exists() else 'no such'} folder: give the folder of a run")
    readable = model_file.provenances(run)
    newest, ranked = list(readable)[-max(last) :], model_file.ranked(readable)
    chosen = [(f"last {count}", newest[-count:]) for count in last if count <= len(newest)]
    chosen += [(f"best {count}", ranked[:count]) for count in best if count <= len(ranked)]
    names_of: dict[frozenset[Path], list[str]] = {}
    for name, paths in chosen:
        names_of.setdefault(frozenset(paths), []).append(name)
    average = run / model_file.EMA
    if average.is_file():
        steps = {model_file.load_provenance(path).get("step") for path in (average, *newest[-1:])}
        if len(steps) == 1:  # else it is older than the checkpoints, because training.ema_decay was switched off
            names_of[frozenset([average])] = ["moving average"]
    if not names_of:
        model_file.locate(run)  # raises NmtError that says when the first one is due
        raise NmtError(f"{run}: no checkpoints to choose from: give the folder of a run that has some")
    return {", ".join(names): sorted(files) for files, names in names_of.items()}


def select(run: Path, device_name: str) -> tuple[Checkpoint, list[Candidate]]:
    """The mean with the highest BLEU on the run's validation set, and the scores of all candidates.

    If several are equal, the mean of the fewest files is selected. Candidates translate the text that RUN/config.yaml
    names, with the `decoding` settings of the newest checkpoint. The provenance of the result gets its scores. Raises
    NmtError if the run has no checkpoints, if its validation text is missing or differs from the text in training, and
    for a device that does not exist.
    """
    device = devices.choose(device_name)
    paths_of = candidates(run)
    newest = model_file.load(next(iter(paths_of.values()))[-1])
    sets = _validation(run, schema.load(run / "config.yaml").data, newest)
    source_text = model_file.source_text(newest.provenance)
    validators = [Validator(held_out, newest.vocabulary, newest.config, source_text=source_text) for held_out in sets]
    lines = sum(len(validator.sources) for validator in validators)
    log.info("%d candidates, each translates %s validation lines", len(paths_of), f"{lines:,}")
    prepare_memory()
    tried = []
    for name, paths in tqdm(paths_of.items(), "validating", unit=" candidates", disable=None, leave=False):
        tried.append(_score(name, paths, validators, device))
        log.info("%s: BLEU %.2f", name, tried[-1].scores["bleu"])
    best = min(tried, key=lambda candidate: (-candidate.scores["bleu"], len(candidate.paths)))
    mean = averaging.average(best.paths)
    provenance = {**mean.provenance, **best.validation.provenance, "selected": best.name}
    return dataclasses.replace(mean, provenance=provenance), tried


def write(
    sources: Sequence[Path], output: Path, last: int | None, best: int | None, by_score: bool, device: str
) -> str | None:
    """Write the mean of a run's newest or best checkpoints, of the candidate with the best score, or of the named
    files.

    Returns the table of the candidates if they were scored. Raises NmtError for options that do not belong together,
    and for files that cannot be read or written.
    """
    sources = [model_file.run_folder(path) for path in sources]
    folders = [path for path in sources if path.is_dir()]
    if folders and len(sources) > 1:
        raise NmtError(f"{folders[0]}: a run folder: give one run only, or model files only")
    if folders and sum([last is not None, best is not None, by_score]) != 1:
        raise NmtError(f"{folders[0]}: for a run folder, give exactly one of --last N, --best N and --select")
    if not folders and (last or best or by_score):
        option = "select" if by_score else "last" if last else "best"
        problem = "is not a folder" if sources[0].exists() else "does not exist"
        raise NmtError(f"--{option} chooses from a run folder, and {sources[0]} {problem}")
    if outputs.is_special(output):
        problem = "a folder" if output.is_dir() else "a device or a pipe"
        raise NmtError(f"{output}: {problem}: name the model file to write")
    real_paths = list(map(os.path.realpath, sources))
    if twice := [path for i, path in enumerate(sources) if real_paths[i] in real_paths[:i]]:
        raise NmtError(f"{twice[0]}: named twice, and would count twice in the mean: name each file once")
    outputs.check_output(output, model_file.checkpoints(sources[0]) if folders else sources)
    if by_score:
        winner, tried = select(sources[0], device)
        model_file.save(output, winner)
        return to_text(tried, winner.provenance["selected"])
    paths = averaging.select_checkpoints(sources[0], last=last, best=best) if folders else sources
    model_file.save(output, averaging.average(paths))
    log.info("mean of %d: %s", len(paths), ", ".join(path.name for path in paths))
    return None


def to_text(tried: Sequence[Candidate], kept: str) -> str:
    """A table with a row for each candidate. kept: the name of the candidate that gets a star."""
    rows = [["candidate", "files", *(metric.label for metric in METRICS.values())]]
    for candidate in tried:
        scores = (f"{candidate.scores[name]:.{metric.decimals}f}" for name, metric in METRICS.items())
        rows.append([candidate.name, str(len(candidate.paths)), *scores])
    return table(rows, mark=[candidate.name for candidate in tried].index(kept) + 1)


def _validation(run: Path, data: schema.DataConfig, newest: Checkpoint) -> tuple[ValidationSet, ...]:
    """The validation sets of the run. newest: its newest checkpoint.

    Raises NmtError, which names the setting, if they cannot be read or differ from those in training.
    """
    setting = f"{run}/config.yaml: data.validation"
    if not data.held_out:
        raise NmtError(f"{setting} is not set: --select needs a text to validate on")
    sessions, _ = json_lines.read(run / "sessions.jsonl")
    folder = next((row["folder"] for row in reversed(sessions) if isinstance(row.get("folder"), str)), None)
    where = "in which training was started" if folder is None else f"{folder}, in which training was started"
    remedy = "put the text back" if folder == current_folder() else f"run this command in the folder {where}"
    remedy += ", or correct the path there"
    try:
        sets = validation_sets(data, [read_validation(corpus, data) for corpus in data.held_out], newest.vocabulary)
    except NmtError as error:
        raise NmtError(f"{setting}: {error}: {remedy}") from None
    labels = ", ".join(corpus.label for corpus in data.held_out)
    if recorded_text_key(newest.provenance.get("validation_key", "")) != text_key(sets):
        raise NmtError(
            f"{setting}: {labels}, read in {current_folder()}, differs from the text that the newest checkpoint "
            f"was validated on: {remedy}"
        )
    return sets


def _score(name: str, paths: Sequence[Path], validators: Sequence[Validator], device: torch.device) -> Candidate:
    """Score the mean of files on the sets. The loss is computed on all pairs, as in training; translations are scored
    on the first training.validation_sentences pairs."""
    model = averaging.average(paths).build().to(device)
    engine = validators[0].engine(model)
    translated, calibration = score_all(validators, engine)
    sets, set_scores = [validator.held_out for validator in validators], []
    for held_out, translation_scores in zip(sets, translated, strict=True):
        loss = _loss(engine, held_out.ids, validators[0].search)
        set_scores.append({"validation_loss": loss} | translation_scores.scores)
    return Candidate(name, paths, Validation([one.name for one in sets], set_scores, translated, calibration))


def _loss(engine: Searcher, ids: TokenStore, search: schema.DecodingConfig) -> float:
    """The mean of -log p in nats per target token, EOS included."""
    sides = ids.pairs(np.arange(len(ids)))
    pairs = [(source[:-1].tolist(), target[:-1].tolist()) for source, target in zip(*sides, strict=True)]
    log_probabilities = list(chain.from_iterable(engine.score(pairs, batch_tokens(engine, search))))
    return -math.fsum(log_probabilities) / len(log_probabilities)
