"""Label-smoothed cross-entropy as a sum over tokens, and the negative log-likelihood of each token.

Shapes: N tokens (no padding), D d_model, V subwords.
"""

import functools
import logging
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.errors import first_line
from nmt.models.linear import add_product, product

log = logging.getLogger("nmt")

# The number of logits computed at once: a part that stays in a CPU's caches, so that the [N, V] matrix is never in
# memory. Each part reads the weights and writes their gradient again: with too few rows this takes most of the time.
_CHUNK_ELEMENTS = {"cpu": 1 << 21}
_DEFAULT_CHUNK_ELEMENTS = 1 << 28
_LEAST_ROWS = 256
_BIAS_COLUMNS = 8
_LEAST_LOGIT = 80.0  # below the largest: e^-80 = 2e-35 of its probability adds nothing to a float32 sum
# Whether PyTorch adds a product of 16-bit matrices to a float32 matrix. If not, the product is rounded before.
_ADDS_IN_FLOAT32 = torch.version.cuda is not None and torch.__version__ >= (2, 10)  # type: ignore[operator]

_Difference = Callable[[Tensor, Tensor, float, float, bool], tuple[Tensor, Tensor, Tensor]]  # see `_difference`


class LossWithGradients(torch.autograd.Function):
    """The base of losses whose forward pass computes the gradients too.

    `forward` takes hidden, weight and arguments without gradients, and returns (loss, -log p of each token). It stores
    the gradients of hidden and weight (None if not needed) in `ctx.gradients`, and hidden's dtype in
    `ctx.hidden_dtype`.
    """

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:  # the first backward pass has scaled them in place
            raise RuntimeError("a second backward pass through one loss: compute the loss again")
        grad_hidden, grad_weight = (g if g is None else g.mul_(gradient) for g in ctx.gradients)
        ctx.gradients = None
        others = [None] * (len(ctx.needs_input_grad) - 2)
        return grad_hidden if grad_hidden is None else grad_hidden.to(ctx.hidden_dtype), grad_weight, *others


class _SmoothedCrossEntropy(LossWithGradients):
    """Computes the loss and its gradients in the same pass over the logits.

    With p = softmax(h Wᵀ) and the smoothed target q = (1-ε) δ_y + ε/V, the gradient of the loss with respect to the
    logits is p - q. It is computed in float32, in place of the logits, and then rounded to `dtype`. Rounding p first
    would leave mostly rounding error where p is near q. In float32 nothing is rounded; the products of the constant
    ε/V with W and h are then two sums, which are subtracted afterwards, because that is faster.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        target: Tensor,
        smoothing: float,
        counted: Tensor | None,
        dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        vocabulary = weight.shape[0]
        h_all, w = hidden.to(dtype), weight.to(dtype)
        wide = torch.promote_types(dtype, torch.float32)
        row_sum = weight.sum(dim=0)  # [D]: the mean logit over the vocabulary is h · row_sum / V
        mean_target = smoothing / vocabulary
        uniform = 0.0 if dtype == wide else mean_target
        difference_of, needed = _in_triton(hidden.device, dtype) or _difference, any(ctx.needs_input_grad)
        # Always in float32: the loss scale of float16 is applied in the backward pass.
        grad_hidden = torch.empty_like(hidden, dtype=wide) if ctx.needs_input_grad[0] else None
        grad_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
        loss = hidden.new_zeros((), dtype=torch.float64 if hidden.device.type == "cpu" else torch.float32)
        nll = hidden.new_empty(len(hidden), dtype=wide)
        rows = rows_at_once(hidden.device, vocabulary)
        for start in range(0, hidden.shape[0], rows):
            h, y = h_all[start : start + rows], target[start : start + rows]
            nlls, target_logit, difference = difference_of(product(h, w.t()), y, 1 - smoothing, uniform, needed)
            # Not a matrix-vector product: its sums depend on the number of threads.
            mean_logit = (hidden[start : start + rows].to(wide) * (row_sum / vocabulary)).sum(dim=1)
            smoothed = smoothing * (target_logit - mean_logit)
            if counted is not None:
                nlls, smoothed = (x * counted[start : start + rows] for x in (nlls, smoothed))
            nll[start : start + rows] = nlls
            loss += (nlls + smoothed).sum(dtype=loss.dtype)
            del smoothed
            unit = None
            if needed and difference.dtype != dtype:
                difference, unit = rounded(difference, h, w)
            if grad_hidden is not None:
                grad_hidden[start : start + rows] = scaled_product(difference, w, unit)
            if grad_weight is not None:
                add_scaled_product(grad_weight, difference.t(), h, unit)
            del difference  # frees the memory for the next rows
        if dtype == wide:
            if grad_hidden is not None:
                grad_hidden.sub_(row_sum * mean_target)
            if grad_weight is not None:
                grad_weight.sub_(hidden.sum(dim=0) * mean_target)
        ctx.gradients, ctx.hidden_dtype = (grad_hidden, grad_weight), hidden.dtype
        ctx.mark_non_differentiable(nll)
        return loss.to(wide), nll


def rows_at_once(device: torch.device, vocabulary: int) -> int:
    """The number of tokens whose logits are computed at once."""
    return max(_LEAST_ROWS, _CHUNK_ELEMENTS.get(device.type, _DEFAULT_CHUNK_ELEMENTS) // vocabulary)


def _difference(
    logits: Tensor, target: Tensor, confidence: float, uniform: float, needed: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [n, V], which are overwritten, and ids [n] → -log p(target) [n], the targets' logits [n], and if `needed`,
    p - q [n, V], where q is `uniform`, plus `confidence` at the target; float32 or wider."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    at_target = target[:, None]
    target_logit = logits.gather(1, at_target)[:, 0]
    p, log_sum = softmax_in_place(logits)
    nll = log_sum - target_logit  # not -log p: p at the target may be 0
    if needed:
        p.scatter_(1, at_target, p.gather(1, at_target) - confidence)
        if uniform:
            p.sub_(uniform)
    return nll, target_logit, p


def softmax_in_place(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Logits z [n, V], which are overwritten → p [n, V] and log Σ exp z [n]."""
    largest = logits.amax(dim=1)
    if logits.device.type == "cpu":  # denormal probabilities make products on a CPU many times slower
        torch.maximum(logits, (largest - _LEAST_LOGIT)[:, None], out=logits)
    p = torch.softmax(logits, dim=1, out=logits)
    return p, largest - p.amax(dim=1).log()  # p at the largest logit is at least 1/V, so its logarithm is finite


@functools.cache
def _in_triton(device: torch.device, dtype: torch.dtype) -> _Difference | None:
    """`_difference` as one kernel, on GPUs where Triton and its C compiler work; None elsewhere."""
    if device.type != "cuda" or dtype == torch.float64:
        return None
    try:
        from nmt.training.triton_loss import difference

        difference(torch.zeros(1, 16, device=device, dtype=dtype), torch.zeros(1, device=device).long(), 1.0, 0.0, True)
    except Exception as error:  # of many types: no Triton, no C compiler, a GPU that is too old
        log.warning("Triton does not work here, so computing the loss takes longer (%s)", first_line(error))
        return None
    return difference


def rounded(difference: Tensor, h: Tensor, w: Tensor, row_sum: float | Tensor = 2.0) -> tuple[Tensor, Tensor | None]:
    """Rows [n, V] divided by a unit, in the dtype of h [n, D] and w [V, D]; and the unit, None for 1. row_sum: the
    largest possible sum of a row's absolute values; 2 for p - q.

    float16 has no numbers below 6e-8 and few digits below 6e-5. Its unit is the smallest power of two that keeps every
    product with h or w below 2^15, half of float16's largest number.
    """
    if h.dtype != torch.float16:
        return difference.to(h.dtype), None
    weight_limit = torch.linalg.vector_norm(difference, 1, dim=0).amax() * h.abs().amax()
    hidden_limit = row_sum * w.abs().amax()
    unit = torch.exp2(torch.maximum(weight_limit, hidden_limit).clamp(min=1).log2().ceil() - 15)
    return difference.div_(unit).to(h.dtype), unit


def scaled_product(a: Tensor, b: Tensor, unit: Tensor | None) -> Tensor:
    """a b, multiplied by the unit in float32, because float16 would lose small values again."""
    return product(a, b) if unit is None else (a @ b).to(unit.dtype).mul_(unit)


def add_scaled_product(total: Tensor, a: Tensor, b: Tensor, unit: Tensor | None) -> None:
    """total += a b, multiplied by the unit."""
    if unit is None and a.dtype == total.dtype:
        add_product(total, a, b)
    elif unit is None and total.dtype == torch.float32 and a.is_cuda and _ADDS_IN_FLOAT32:
        torch.addmm(total, a, b, out_dtype=torch.float32, out=total)
    else:
        total += scaled_product(a, b, unit)


def smoothed_cross_entropy(
    hidden: Tensor, weight: Tensor, target: Tensor, smoothing: float, counted: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The cross-entropy with smoothed targets, summed over the tokens, and -log p(y) of each token [N]; in nats.

    hidden [N, D]: decoder states at tokens; weight [V, D]: the output layer; target [N]: the reference ids. The
    target distribution follows Szegedy et al. (2015), cited in section 5.4: 1-ε on the reference and ε spread evenly
    over all V subwords, including the reference. The sum is the KL divergence from the model's distribution plus a
    constant, the entropy. Divide it once, by the token count of the complete step. The second value has no gradient.
    counted [N]: false for tokens that are left out, for which both values and the gradients are 0; None: all count.
    """
    if counted is not None:  # a state of 0 adds 0 to the gradient of the weight
        hidden = hidden * counted[:, None]
    if not torch.is_grad_enabled():  # otherwise gradients would be computed even without grad mode
        hidden, weight = hidden.detach(), weight.detach()
    dtype = dtype_of_products(weight)
    with torch.autocast(hidden.device.type, enabled=False):
        return _SmoothedCrossEntropy.apply(hidden, weight, target, smoothing, counted, dtype)  # type: ignore[no-untyped-call]


def with_bias(hidden: Tensor, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """States and a matrix whose product is h Wᵀ + b, for losses without a bias: the bias [V] becomes a column of the
    matrix [V, D], and the states get a column of ones. Columns of zeros follow, because products are slower if the
    width is not a multiple of 8."""
    if bias is None:
        return hidden, weight
    columns = F.pad(bias[:, None], (0, _BIAS_COLUMNS - 1))
    ones = F.pad(hidden.new_ones(len(hidden), 1), (0, _BIAS_COLUMNS - 1))
    return torch.cat([hidden, ones], dim=1), torch.cat([weight, columns], dim=1)


def dtype_of_products(weight: Tensor) -> torch.dtype:
    """The dtype in which a loss multiplies matrices: autocast's if it is enabled, otherwise the weights'."""
    kind = weight.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
