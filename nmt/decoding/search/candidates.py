"""The best continuations of hypotheses, chosen among all their next tokens.

Shapes: B sentences, K hypotheses a sentence, V subwords, C candidates a sentence, G blocks a hypothesis.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def candidate_count(beam_size: int) -> int:
    """The number of candidates of a sentence that a step of beam search looks at.

    2K of them contain K that do not end, because each hypothesis can end in one way only. With a beam of one, one
    candidate is enough: the hypothesis either continues or ends.
    """
    return 1 if beam_size == 1 else 2 * beam_size


def best_candidates(log_p: Tensor, live: Tensor | None, count: int, block: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence's hypotheses.

    log_p [B, K, V], live [B, K] (log P of the hypotheses; None: 0) → log P of each candidate, the hypothesis that it
    continues, its token; [B, C] each, best first, C = count or all that there are. NaN counts as -inf.

    Selecting among K·V numbers would cost more than the softmax did. But the best C are in the C blocks of
    `block` neighbours with the greatest maxima; maxima are cheap, and C blocks are few.
    """
    sentences, hypotheses, vocabulary = log_p.shape
    count, block = min(count, hypotheses * vocabulary), min(block, vocabulary)
    if vocabulary % block:
        log_p = F.pad(log_p, (0, -vocabulary % block), value=-math.inf)
    blocks = log_p.view(sentences, -1, block)  # [B, K·G, block]
    maxima = blocks.amax(dim=2)
    in_row = maxima.shape[1] // hypotheses
    if live is not None:
        maxima = (maxima.view(sentences, hypotheses, in_row) + live[:, :, None]).flatten(1)
    chosen = _top(_numbers(maxima), count, in_order=False)[1]  # [B, C]
    first = maxima.shape[1] * torch.arange(sentences, device=log_p.device)[:, None]
    inside = blocks.view(-1, block).index_select(0, (chosen + first).flatten()).view(*chosen.shape, block)
    if live is not None:
        inside = inside + live.gather(1, chosen // in_row)[:, :, None]
    totals, place = _top(_numbers(inside).flatten(1), count)
    if count > 1:
        chosen, place = chosen.gather(1, place // block), place % block
    at = chosen * block + place  # among the K·G·block of a sentence
    tokens = at % (in_row * block)
    return totals, at // (in_row * block), tokens.clamp_(max=vocabulary - 1)  # beyond it is padding, of log P -inf


def _top(numbers: Tensor, count: int, *, in_order: bool = True) -> tuple[Tensor, Tensor]:
    """The greatest `count` of each row, or all that there are, and their places; greatest first if `in_order`."""
    if count == 1:
        values, places = numbers.max(dim=1, keepdim=True)  # faster than topk
        return values, places
    return numbers.topk(min(count, numbers.shape[1]), sorted=in_order)


def _numbers(log_p: Tensor) -> Tensor:
    return log_p.nan_to_num(nan=-math.inf, neginf=-math.inf)
