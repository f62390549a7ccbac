"""Chooses the best continuations of hypotheses among all their next tokens.

Shapes: B sentences, K hypotheses per sentence, V subwords, C candidates per sentence, G blocks per hypothesis.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def candidate_count(beam_size: int) -> int:
    """The number of candidates per sentence in a step of beam search.

    Of 2K candidates at least K do not end, because each hypothesis has only one continuation with EOS. With a beam of
    one, one candidate is enough: the hypothesis either continues or ends.
    """
    return 1 if beam_size == 1 else 2 * beam_size


def best_candidates(log_p: Tensor, live: Tensor | None, count: int, block: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence's hypotheses.

    log_p [B, K, V], live [B, K] (log P of the hypotheses; None: 0) → log P of each candidate, the hypothesis that it
    continues, its token; [B, C] each, best first, C = min(count, K·V). NaN counts as -inf.

    Selecting among K·V numbers would take longer than the softmax. But the best C are in the C blocks of `block`
    neighbours with the greatest maxima. Maxima are cheap to compute, and C blocks are few numbers.
    """
    sentences, hypotheses, vocabulary = log_p.shape
    count, block = min(count, hypotheses * vocabulary), min(block, vocabulary)
    if vocabulary % block:
        log_p = F.pad(log_p, (0, -vocabulary % block), value=-math.inf)
    blocks = log_p.view(sentences, -1, block)  # [B, K·G, block]
    maxima = blocks.amax(dim=2)
    blocks_per_row = maxima.shape[1] // hypotheses
    if live is not None:
        maxima = (maxima.view(sentences, hypotheses, blocks_per_row) + live[:, :, None]).flatten(1)
    chosen = _top(_without_nan(maxima), count, in_order=False)[1]  # [B, C]
    first = maxima.shape[1] * torch.arange(sentences, device=log_p.device)[:, None]
    inside = blocks.view(-1, block).index_select(0, (chosen + first).flatten()).view(*chosen.shape, block)
    if live is not None:
        inside = inside + live.gather(1, chosen // blocks_per_row)[:, :, None]
    totals, best = _top(_without_nan(inside).flatten(1), count)
    if count > 1:
        chosen, best = chosen.gather(1, best // block), best % block
    indices = chosen * block + best  # among the K·G·block continuations of a sentence
    row = blocks_per_row * block
    tokens = (indices % row).clamp_(max=vocabulary - 1)  # greater ones are padding, with log P -inf
    return totals, indices // row, tokens


def _top(numbers: Tensor, count: int, *, in_order: bool = True) -> tuple[Tensor, Tensor]:
    """The greatest `count` numbers of each row (or all) and their indices; greatest first if `in_order`."""
    if count == 1:
        values, indices = numbers.max(dim=1, keepdim=True)  # faster than topk
        return values, indices
    return numbers.topk(min(count, numbers.shape[1]), sorted=in_order)


def _without_nan(log_p: Tensor) -> Tensor:
    return log_p.nan_to_num(nan=-math.inf, neginf=-math.inf)
