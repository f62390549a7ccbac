"""Label-smoothed cross-entropy, and the negative log-likelihood, as sums over tokens.

Shapes: N tokens (no padding), D d_model, V subwords.
"""

from typing import Any

import torch
from torch import Tensor

# Logits computed at once: a part that stays near the processor's caches. The [N, V] matrix is never held.
CHUNK_ELEMENTS = {"cpu": 1 << 24}
_DEFAULT_CHUNK_ELEMENTS = 1 << 28
_LEAST_LOGIT = 80.0  # below the largest: e^-80 = 2e-35 of its probability adds nothing to a float32 sum


class _SmoothedCrossEntropy(torch.autograd.Function):
    """The loss and, in the same pass over the logits, its gradients.

    With p = softmax(h Wᵀ) and the smoothed target q = (1-ε) δ_y + ε/V, the gradient of the loss with respect to the
    logits is p - q. It is computed in float32, in place of the logits, and then rounded to `dtype`: if p were rounded
    first, little but rounding error would be left where p is near q. In float32 nothing is rounded, and the products
    of the constant ε/V with W and h, which are two sums, are subtracted afterwards, because that is faster.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float, dtype: torch.dtype
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.shape[0]
        h_all, w = hidden.to(dtype), weight.to(dtype)
        wide = torch.promote_types(dtype, torch.float32)
        row_sum = weight.sum(dim=0)  # [D]: the mean logit over the vocabulary is h · row_sum / V
        mean_target = smoothing / vocabulary
        # Always in float32: the loss scale of float16 is applied in the backward pass.
        grad_hidden = torch.empty_like(hidden, dtype=wide) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        loss = hidden.new_zeros((), dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32)
        nll = loss.clone()
        rows = max(1, CHUNK_ELEMENTS.get(hidden.device.type, _DEFAULT_CHUNK_ELEMENTS) // vocabulary)
        for start in range(0, hidden.shape[0], rows):
            h, y = h_all[start : start + rows], target[start : start + rows]
            logits = (h @ w.t()).to(wide)  # [n, V]
            of_target = logits.gather(1, y[:, None])[:, 0]
            largest = logits.amax(dim=1)
            # Denormal probabilities would make a CPU's products many times slower.
            torch.maximum(logits, (largest - _LEAST_LOGIT)[:, None], out=logits)
            p = torch.softmax(logits, dim=1, out=logits)
            # p at the largest logit is at least 1/V, so its logarithm is finite; p at y may be 0.
            log_z = largest - p.amax(dim=1).log()
            mean_logit = hidden[start : start + rows].to(wide) @ (row_sum / vocabulary)
            nll += (log_z - of_target).sum(dtype=nll.dtype)
            loss += (log_z - (1 - smoothing) * of_target - smoothing * mean_logit).sum(dtype=loss.dtype)
            at_target = y[:, None]
            difference = p.scatter_(1, at_target, p.gather(1, at_target) - (1 - smoothing))
            unit = None
            if dtype != wide:
                difference, unit = _rounded(difference.sub_(mean_target), h, w)
            if grad_hidden is not None:
                grad_hidden[start : start + rows] = _product(difference, w, unit)
            if grad_weight is not None:
                if dtype == wide:
                    grad_weight.addmm_(difference.t(), h)
                else:
                    grad_weight += _product(difference.t(), h, unit)
            del logits, p, difference  # before the next rows need the memory
        if dtype == wide:
            if grad_hidden is not None:
                grad_hidden.sub_(row_sum * mean_target)
            if grad_weight is not None:
                grad_weight.sub_(hidden.sum(dim=0) * mean_target)
        ctx.gradients, ctx.hidden_dtype = (grad_hidden, grad_weight), hidden.dtype
        loss, nll = loss.to(wide), nll.to(wide)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:  # the first backward pass has scaled them in place
            raise RuntimeError("a second backward pass through one loss: compute the loss again")
        grad_hidden, grad_weight = (g if g is None else g.mul_(gradient) for g in ctx.gradients)
        ctx.gradients = None
        return grad_hidden if grad_hidden is None else grad_hidden.to(ctx.hidden_dtype), grad_weight, None, None, None


def _rounded(difference: Tensor, h: Tensor, w: Tensor) -> tuple[Tensor, Tensor | None]:
    """Rows [n, V] divided by a unit, in the dtype of h [n, D] and w [V, D]; and the unit, None for 1.

    float16 has no numbers below 6e-8 and few digits below 6e-5: for it the unit is the smallest power of two with which
    no product with h or w can exceed 2^15, half of float16's largest number.
    """
    if h.dtype != torch.float16:
        return difference.to(h.dtype), None
    of_weight = torch.linalg.vector_norm(difference, 1, dim=0).amax() * h.abs().amax()
    of_hidden = 2 * w.abs().amax()  # a row's absolute values sum to at most 2
    unit = torch.exp2(torch.maximum(of_weight, of_hidden).clamp(min=1).log2().ceil() - 15)
    return difference.div_(unit).to(h.dtype), unit


def _product(a: Tensor, b: Tensor, unit: Tensor | None) -> Tensor:
    """a b, multiplied by the unit in float32: in float16 small values would be lost again."""
    return a @ b if unit is None else (a @ b).to(unit.dtype).mul_(unit)


def smoothed_cross_entropy(hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
    """Sum over the tokens of the cross-entropy with smoothed targets, and of -log p(y); both in nats.

    hidden [N, D]: decoder states at tokens; weight [V, D]: the output layer; target [N]: the reference ids. The
    target distribution is that of Szegedy et al. (2015), cited in section 5.4: 1-ε on the reference and ε spread evenly
    over all V subwords, including the reference. The sum is the KL divergence from the model's distribution plus a
    constant, the entropy. Divide it once, by the token count of the complete step. The second value has no gradient.
    """
    kind = hidden.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    if not torch.is_grad_enabled():  # otherwise gradients would be computed even without grad mode
        hidden, weight = hidden.detach(), weight.detach()
    with torch.autocast(kind, enabled=False):
        return _SmoothedCrossEntropy.apply(hidden, weight, target, smoothing, dtype)  # type: ignore[no-untyped-call]
