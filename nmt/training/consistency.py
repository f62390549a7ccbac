"""Consistency training: two passes over the same text must give similar distributions.

The passes differ in their dropout masks and in the tokens that are cut off (`nmt.data.batches.token_cutoff`). P1 and
P2 are the distributions of the next token in each pass, and CE is the label-smoothed cross-entropy:

    R-Drop (Liang et al. 2021, "R-Drop: Regularized Dropout for Neural Networks", equations 2 to 4; the loss is halved
    here, to be comparable with other losses):  (CE(P1) + CE(P2)) / 2 + weight / 2 · (KL(P1 ‖ P2) + KL(P2 ‖ P1)) / 2

    SimCut (Gao et al. 2022, "Bi-SimCut: A Simple Strategy for Boosting Neural Machine Translation", equation 8; the
    second pass has cut tokens, and the gradient flows through both):  CE(P1) + weight · KL(P1 ‖ P2)

With l = log P, the gradients of KL(P1 ‖ P2) with respect to the logits of the first and of the second pass are
P1 · (l1 - l2 - KL(P1 ‖ P2)) and P2 - P1. Shapes: N tokens (no padding), D d_model, V subwords.
"""

from typing import Any, NamedTuple, assert_never

import torch
from torch import Tensor

from nmt.config.schema import TrainingConfig
from nmt.models.linear import product
from nmt.training import loss as plain


class ConsistencyWeights(NamedTuple):
    """The weights of the terms of the loss: the cross-entropy of each pass, KL(P1 ‖ P2) and KL(P2 ‖ P1)."""

    first: float
    second: float
    first_second: float
    second_first: float

    @classmethod
    def from_config(cls, training: TrainingConfig) -> "ConsistencyWeights":
        """The weights for training.consistency."""
        weight = training.weight_of_consistency
        match training.consistency:
            case "rdrop":
                return cls(0.5, 0.5, weight / 4, weight / 4)
            case "simcut" | "none":
                return cls(1.0, 0.0, weight, 0.0)
            case _:
                assert_never(training.consistency)


def described(training: TrainingConfig) -> str:
    """A short description of the passes over each batch, with default values filled in; empty for plain training."""
    if training.passes == 1:
        return f"token cutoff {training.cutoff[0]:g}" if training.cutoff else ""
    method = f"{training.consistency}, weight {training.weight_of_consistency:g}"
    if not training.cutoff:
        return method
    return f"{method}, token cutoff {' and '.join(f'{rate:g}' for rate in training.cutoff)} in its two passes"


class _ConsistentCrossEntropy(plain.LossWithGradients):
    """Computes the loss and its gradients in the same pass over the logits, as in `nmt.training.loss`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        weights: ConsistencyWeights,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        tokens, vocabulary, wide = len(target), weight.shape[0], torch.promote_types(dtype, torch.float32)
        h_all, w, needed = hidden.to(dtype), weight.to(dtype), any(ctx.needs_input_grad)
        grad_hidden = torch.empty_like(hidden, dtype=wide) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        loss = hidden.new_zeros((), dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32)
        nll = hidden.new_empty(tokens, dtype=wide)
        rows = plain.rows_at_once(hidden.device, 2 * vocabulary)
        for start in range(0, tokens, rows):
            y = target[start : start + rows]
            pass_rows = [slice(first, first + len(y)) for first in (start, tokens + start)]
            logits = [product(h_all[part], w.t()).to(wide) for part in pass_rows]
            losses, nll[start : start + rows], differences = _parts(logits, y, smoothing, weights, needed)
            loss += losses.sum(dtype=loss.dtype)
            for part, difference in zip(pass_rows, differences, strict=needed):
                row_sum = difference.abs().sum(dim=1).amax() if dtype == torch.float16 else 0.0
                difference, unit = plain.rounded(difference, h_all[part], w, row_sum)
                if grad_hidden is not None:
                    grad_hidden[part] = plain.scaled_product(difference, w, unit)
                if grad_weight is not None:
                    plain.add_scaled_product(grad_weight, difference.t(), h_all[part], unit)
        ctx.gradients, ctx.hidden_dtype = (grad_hidden, grad_weight), hidden.dtype
        ctx.mark_non_differentiable(nll)
        return loss.to(wide), nll


class _Pass(NamedTuple):
    """The values of one pass that the loss needs, for each of n tokens."""

    p: Tensor  # [n, V]
    log_sum: Tensor  # [n]: log Σ exp z over the logits z
    target_logit: Tensor  # [n]
    mean: Tensor  # [n]: the mean logit

    @classmethod
    def from_logits(cls, logits: Tensor, target: Tensor) -> "_Pass":
        """logits [n, V] are overwritten; target [n]: ids."""
        target_logit, mean = logits.gather(1, target[:, None])[:, 0], logits.mean(dim=1)
        return cls(*plain.softmax_in_place(logits), target_logit, mean)


def _parts(
    logits: list[Tensor], target: Tensor, smoothing: float, weights: ConsistencyWeights, needed: bool
) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Logits z of both passes [n, V], which are overwritten, and ids [n] → the loss and -log p of each token [n], and
    if `needed`, the gradients with respect to the logits [n, V].

    Exponentials take most of the time here. As l1 - l2 = (z1 - z2) - (log Σ exp z1 - log Σ exp z2), only the softmax
    computes them.
    """
    logit_difference = logits[0] - logits[1]
    first, second = (_Pass.from_logits(z, target) for z in logits)
    log_sums = first.log_sum - second.log_sum
    loss, nll, gradients = torch.zeros_like(log_sums), torch.zeros_like(log_sums), []
    # kl_weight: of KL(own ‖ other); reverse_weight: of KL(other ‖ own)
    for own, other, sign, weight, kl_weight, reverse_weight in (
        (first, second, 1.0, weights.first, weights.first_second, weights.second_first),
        (second, first, -1.0, weights.second, weights.second_first, weights.first_second),
    ):
        weighted = own.p * logit_difference if kl_weight else logit_difference.new_zeros(len(target), 1)
        mean = sign * weighted.sum(dim=1)  # the expected difference between the logits under P of this pass
        nll += weight * (own.log_sum - own.target_logit)
        loss += weight * (own.log_sum - (1 - smoothing) * own.target_logit - smoothing * own.mean)
        loss += kl_weight * (mean - sign * log_sums)
        if needed:
            gradient = own.p * (weight + reverse_weight - kl_weight * mean)[:, None]
            if kl_weight:
                gradient.add_(weighted, alpha=sign * kl_weight)
            if reverse_weight:
                gradient.sub_(other.p, alpha=reverse_weight)
            if weight:
                gradient.sub_(weight * smoothing / gradient.shape[1])
                target_gradient = gradient.new_full((len(target), 1), -weight * (1 - smoothing))
                gradient.scatter_add_(1, target[:, None], target_gradient)
            gradients.append(gradient)
    return loss, nll, gradients


def consistent_cross_entropy(
    hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float, weights: ConsistencyWeights
) -> tuple[Tensor, Tensor]:
    """The loss summed over the tokens, and -log p(y) of each token [N], weighted like the cross-entropies; in nats.

    hidden [2N, D]: the decoder states of the first pass, then of the second; weight, target, smoothing and the
    gradients: as in `nmt.training.loss.smoothed_cross_entropy`. Only a part of the logits is in memory at a time.
    """
    if not torch.is_grad_enabled():
        hidden, weight = hidden.detach(), weight.detach()
    dtype = plain.dtype_of_products(weight)
    with torch.autocast(hidden.device.type, enabled=False):
        return _ConsistentCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, target, smoothing, weights, dtype
        )
