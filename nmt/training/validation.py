"""Validation: scores a model on the validation sets by its loss and by its translations."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from nmt.config.metrics import METRICS
from nmt.config.schema import TrainingConfig
from nmt.data.batches.batching import Batches
from nmt.models.translation_model import TranslationModel
from nmt.training.data import Translated, TranslationScores
from nmt.training.train_step import TrainStep

SINCE_START = "_since_start"  # a score's suffix: its difference from the score of the model in training.start_from


@dataclass(frozen=True)
class Validation:
    """The result of a validation."""

    names: Sequence[str]  # of the sets, in the order of data.validation
    set_scores: Sequence[dict[str, float]]  # for each set: scores by their names
    translated: Sequence[TranslationScores]  # for each set, what `translate` returned; empty without `translate`
    calibration: Mapping[str, Any]  # an entry for the provenance (see nmt.decoding.confidence), or nothing

    @property
    def scores(self) -> dict[str, float]:
        """The mean of each score over the sets."""
        means = {}
        for name in self.set_scores[0]:
            means[name] = math.fsum(scores[name] for scores in self.set_scores) / len(self.set_scores)
        return means

    @property
    def row(self) -> dict[str, Any]:
        """A row of metrics.jsonl and of the provenance: the means, and with several sets also the scores of each."""
        if len(self.set_scores) == 1:
            return self.scores
        sets = [{"name": name, **scores} for name, scores in zip(self.names, self.set_scores, strict=True)]
        return {**self.scores, "validation": sets}

    @property
    def provenance(self) -> dict[str, Any]:
        """The row, the `translated` text of each set, the `signatures` of the scores, and the calibration."""
        provenance = {**self.row, "signatures": self.signatures, **self.calibration}
        if self.translated:
            texts = [{**asdict(scores.text), "signatures": scores.signatures} for scores in self.translated]
            provenance["translated"] = texts
        return provenance

    @property
    def signatures(self) -> dict[str, str]:
        """sacreBLEU's signatures by the score's name. A score has several if languages have their own tokenizers."""
        by_score: dict[str, dict[str, None]] = {}
        for translation_scores in self.translated:
            for name, signature in translation_scores.signatures.items():
                by_score.setdefault(name, {})[signature] = None
        return {name: ", ".join(signatures) for name, signatures in by_score.items()}

    def value(self, training: TrainingConfig) -> float:
        """The value that decides on the best checkpoint; higher is better. It is training.best_metric of
        training.best_set, or the mean over the sets."""
        scores_by_set = dict(zip(self.names, self.set_scores, strict=True))
        score = scores_by_set.get(training.best_set or "", self.scores)[training.best_metric]
        return METRICS[training.best_metric].gain(score)

    def since(self, start: Collection[Mapping[str, float]]) -> "Validation":
        """A copy with the differences from the scores at the start as additional scores, such as `bleu_since_start`.
        start: the scores of each set in the same order (a set may have been renamed); empty if there are none."""
        if not start:
            return self
        set_scores = []
        for scores, before in zip(self.set_scores, start, strict=True):
            changes = {f"{key}{SINCE_START}": scores[key] - before[key] for key in scores if key in before}
            set_scores.append(scores | changes)
        return replace(self, set_scores=set_scores)

    def lines(self) -> list[str]:
        """Lines for the log: the means, and with several sets one line for each."""
        if len(self.set_scores) == 1:
            return [_line(self.scores)]
        lines = [f"{_line(self.scores)}  (mean of {len(self.set_scores)} sets)"]
        lines += [f"{name}  {_line(scores)}" for name, scores in zip(self.names, self.set_scores, strict=True)]
        return lines


def _line(scores: dict[str, float]) -> str:
    now, changes = [], []
    for name, metric in METRICS.items():
        if name in scores:
            now.append(f"{metric.label} {scores[name]:.{metric.decimals}f}")
        if (change := scores.get(f"{name}{SINCE_START}")) is not None:
            changes.append(f"{metric.label} {change:+.{metric.decimals}f}")
    return "  ".join(now) + (f"  (since the start: {', '.join(changes)})" if changes else "")


@torch.no_grad()
def validate(
    train_step: TrainStep,
    sets: Sequence[tuple[str, Batches]],
    translate: Callable[[TranslationModel], Translated] | None,
) -> Validation:
    """Score the model on sets, given as (name, batches). Collective; leaves the model in eval mode.

    validation_loss is the mean of -log p in nats per target token. The other scores need `translate`.
    """
    train_step.objective.eval()
    scores = [{"validation_loss": _loss(train_step, batches)} for _, batches in sets]
    if train_step.sharded:  # without a backward pass the embeddings are still gathered
        train_step.objective.reshard()  # type: ignore[operator]
    translated, calibration = translate(train_step.unsharded_model()) if translate else ([], {})
    for set_scores, translation_scores in zip(scores, translated, strict=bool(translated)):
        set_scores |= translation_scores.scores
    return Validation([name for name, _ in sets], train_step.ranks.broadcast(scores), translated, calibration)


def _loss(train_step: TrainStep, batches: Batches) -> float:
    nll, tokens = torch.zeros((), dtype=torch.float64), 0
    for step in batches.epoch(0):
        nll += sum(float(train_step.objective(batch.to(train_step.device))[1].sum()) for batch in step.micro_batches)
        tokens += step.target_tokens  # of all ranks
    return float(train_step.ranks.all_reduce_sum(nll)) / tokens
