"""Label-smoothed cross-entropy as a sum and, beside it, the plain negative log-likelihood.

Shapes: N tokens (padding left out), D d_model, V subwords.
"""

from typing import Any

import torch
from torch import Tensor

# Rows of logits held at once: the part that is being worked on stays near the processor's caches,
# and no [N, V] matrix is ever held.
_CHUNK_ELEMENTS = {"cpu": 1 << 24}
_DEFAULT_CHUNK_ELEMENTS = 1 << 28
_LEAST_LOGIT = 80.0  # below the largest: e^-80 of its probability, 2e-35, adds nothing to a sum in float32


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss and, in the same pass over the logits, its gradients.

    With p = softmax(h Wᵀ) and the smoothed target q = (1-ε) δ_y + ε/V, the gradient of the loss for the
    logits is p - q. Only p is dense: the products of q with W and h are a row of W, a row of h and two
    sums, so p overwrites the logits and is used as it is.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.shape[0]
        h_all, w = hidden.to(dtype), weight.to(dtype)
        wide = torch.promote_types(dtype, torch.float32)
        row_sum = weight.sum(dim=0)  # [D]: the mean logit over the vocabulary is h · row_sum / V
        grad_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        loss = hidden.new_zeros((), dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32)
        nll = loss.clone()
        rows = max(1, _CHUNK_ELEMENTS.get(hidden.device.type, _DEFAULT_CHUNK_ELEMENTS) // vocabulary)
        for start in range(0, hidden.shape[0], rows):
            h, y = h_all[start : start + rows], target[start : start + rows]
            logits = (h @ w.t()).to(wide)  # [n, V]
            of_target = logits.gather(1, y[:, None])[:, 0]
            largest = logits.amax(dim=1)
            # Probabilities too small for a normal float32 would slow a CPU's products down many times.
            torch.maximum(logits, (largest - _LEAST_LOGIT)[:, None], out=logits)
            p = torch.softmax(logits, dim=1, out=logits)
            # p at the largest logit is at least 1/V, so its logarithm is safe where p's at y may not be.
            log_z = largest - p.amax(dim=1).log()
            mean_logit = hidden[start : start + rows].to(wide) @ (row_sum / vocabulary)
            nll += (log_z - of_target).sum(dtype=nll.dtype)
            loss += (log_z - (1 - smoothing) * of_target - smoothing * mean_logit).sum(dtype=loss.dtype)
            p = p.to(dtype)
            if grad_hidden is not None:
                g = (p @ w).to(hidden.dtype)
                g.sub_((row_sum * (smoothing / vocabulary)).to(g.dtype))
                grad_hidden[start : start + rows] = g.sub_(weight[y].to(g.dtype), alpha=1 - smoothing)
            if grad_weight is not None:
                if dtype == grad_weight.dtype:
                    grad_weight.addmm_(p.t(), h)
                else:
                    grad_weight += p.t() @ h
        if grad_weight is not None:
            grad_weight.sub_(hidden.sum(dim=0) * (smoothing / vocabulary))
            grad_weight.index_add_(0, target, hidden.to(grad_weight.dtype), alpha=-(1 - smoothing))
        ctx.gradients = (grad_hidden, grad_weight)
        loss, nll = loss.to(wide), nll.to(wide)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:  # scaled in place by the first
            raise RuntimeError("a second backward pass through one loss: compute the loss again")
        scaled = tuple(g if g is None else g.mul_(gradient) for g in ctx.gradients)
        ctx.gradients = None
        return (*scaled, None, None, None)


def smoothed_cross_entropy(hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sum over the tokens of the cross-entropy with smoothed targets, and of -log p(y); both in nats.

    hidden [N, D] are the decoder's states where there are tokens, weight [V, D] the output layer, target
    [N] the right ids. The target distribution is Szegedy et al.'s (2015), whom section 5.4 cites: 1-ε on
    the right subword and ε spread evenly over all V subwords, the right one among them; up to the
    constant entropy of that distribution the sum is its KL divergence from the model's. Divide by the
    token count of the whole step, once. The second value carries no gradient.
    """
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    if not torch.is_grad_enabled():  # what requires a gradient would have it computed even here
        hidden, weight = hidden.detach(), weight.detach()
    with torch.autocast(kind, enabled=False):
        loss, nll = _SmoothedCrossEntropy.apply(hidden, weight, target, smoothing, dtype)  # type: ignore[no-untyped-call]
    return loss, nll
