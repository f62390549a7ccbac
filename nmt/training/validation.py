"""Scoring a model on the validation sets: its loss, and the scores of its translations."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from nmt.config.metrics import METRICS
from nmt.config.schema import TrainingConfig
from nmt.data.batches.batching import Batches
from nmt.models.translation_model import TranslationModel
from nmt.training.data import TranslationScores
from nmt.training.train_step import TrainStep

SINCE_START = "_since_start"  # after the name of a score: its difference from that of the model in training.start_from


@dataclass(frozen=True)
class Validation:
    """The result. of_sets: the scores of each set by name, in the order of data.validation; translated: what
    `translate` returned, for each set, or nothing."""

    names: Sequence[str]
    of_sets: Sequence[dict[str, float]]
    translated: Sequence[TranslationScores]

    @property
    def scores(self) -> dict[str, float]:
        """The mean of each score over the sets."""
        count = len(self.of_sets)
        return {name: math.fsum(of[name] for of in self.of_sets) / count for name in self.of_sets[0]}

    @property
    def row(self) -> dict[str, Any]:
        """For metrics.jsonl and the provenance: the means, and if there are several sets those of each."""
        if len(self.of_sets) == 1:
            return self.scores
        sets = [{"name": name, **scores} for name, scores in zip(self.names, self.of_sets, strict=True)]
        return {**self.scores, "validation": sets}

    @property
    def provenance(self) -> dict[str, Any]:
        """The row, and what its scores are of: the `translated` text of each set, and the `signatures`."""
        texts = [{**asdict(of.text), "signatures": of.signatures} for of in self.translated]
        return {**self.row, "signatures": self.signatures, **({"translated": texts} if texts else {})}

    @property
    def signatures(self) -> dict[str, str]:
        """Those of sacreBLEU by the score's name; several where languages have tokenizers of their own."""
        found: dict[str, dict[str, None]] = {}
        for of in self.translated:
            for name, signature in of.signatures.items():
                found.setdefault(name, {})[signature] = None
        return {name: ", ".join(signatures) for name, signatures in found.items()}

    def value(self, training: TrainingConfig) -> float:
        """What decides on the best checkpoint, higher is better: training.best_metric of training.best_set, or the
        mean."""
        of_sets = dict(zip(self.names, self.of_sets, strict=True))
        score = of_sets.get(training.best_set or "", self.scores)[training.best_metric]
        return METRICS[training.best_metric].gain(score)

    def since(self, start: Collection[Mapping[str, float]]) -> "Validation":
        """With the differences from the scores of each set at the start, as further scores: `bleu_since_start`.
        start: of each set, in the same order, as a set may have another name by now; empty for none."""
        if not start:
            return self
        of_sets = [
            scores | {f"{key}{SINCE_START}": scores[key] - before[key] for key in scores if key in before}
            for scores, before in zip(self.of_sets, start, strict=True)
        ]
        return replace(self, of_sets=of_sets)

    def lines(self) -> list[str]:
        """For the log: the means, and if there are several sets a line for each."""
        several = len(self.of_sets) > 1
        lines = [_line(self.scores) + (f"  (mean of {len(self.of_sets)} sets)" if several else "")]
        if several:
            lines += [f"{name}  {_line(scores)}" for name, scores in zip(self.names, self.of_sets, strict=True)]
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
    translate: Callable[[TranslationModel], Sequence[TranslationScores]] | None,
) -> Validation:
    """Score the model on sets, each with its name. Collective; leaves the model in eval mode.

    validation_loss is the mean of -log p in nats per target token; the other scores are there with `translate` only.
    """
    train_step.objective.eval()
    scores = [{"validation_loss": _loss(train_step, batches)} for _, batches in sets]
    if train_step.sharded:  # without a backward pass the embeddings are still gathered
        train_step.objective.reshard()  # type: ignore[operator]
    translated = translate(train_step.unsharded_model()) if translate else []
    for of, found in zip(scores, translated, strict=True) if translated else ():
        of |= found.scores
    return Validation([name for name, _ in sets], train_step.ranks.broadcast(scores), translated)


def _loss(train_step: TrainStep, batches: Batches) -> float:
    nll, tokens = torch.zeros((), dtype=torch.float64), 0
    for step in batches.epoch(0):
        nll += sum(float(train_step.objective(batch.to(train_step.device))[1].sum()) for batch in step.micro_batches)
        tokens += step.target_tokens  # of all ranks
    return float(train_step.ranks.all_reduce_sum(nll)) / tokens
