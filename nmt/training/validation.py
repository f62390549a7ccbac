"""Scoring a model on the validation set: its loss, and the scores of its translations."""

from collections.abc import Callable

import torch

from nmt.data.batching import Batches
from nmt.models.interface import TranslationModel
from nmt.training.data import TranslationScores
from nmt.training.train_step import TrainStep


@torch.no_grad()
def validate(
    train_step: TrainStep, batches: Batches, translate: Callable[[TranslationModel], TranslationScores] | None
) -> tuple[dict[str, float], TranslationScores | None]:
    """The scores by name, and what `translate` returned. Collective; leaves the model in eval mode.

    validation_loss is the mean of -log p in nats per target token; bleu and chrf are there with `translate` only.
    """
    train_step.objective.eval()
    nll, tokens = torch.zeros((), dtype=torch.float64), 0
    for step in batches.epoch(0):
        nll += sum(float(train_step.objective(batch.to(train_step.device))[1].sum()) for batch in step.micro_batches)
        tokens += step.target_tokens  # of all ranks
    if train_step.sharded:  # without a backward pass the embeddings are still gathered
        train_step.objective.reshard()  # type: ignore[operator]
    scores = {"validation_loss": float(train_step.ranks.all_reduce_sum(nll)) / tokens}
    translated = translate(train_step.unsharded_model()) if translate else None
    if translated:
        scores |= {"bleu": translated.bleu, "chrf": translated.chrf}
    return train_step.ranks.broadcast(scores), translated
