"""Sampling: draws outputs from the model's distribution.

Shapes: B sentences still sampled, N samples of each, V subwords, G blocks of subwords.
"""

import math
from collections.abc import Iterator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.decoding.search.decoder_model import (
    DecoderModel,
    Hypothesis,
    LogitsProcessor,
    SearchOptions,
    begin,
    build_hypotheses,
)
from nmt.decoding.search.finished import FinishedSentences
from nmt.decoding.search.logits_processors import NextTokenMask
from nmt.device import from_host

_STEPS_AT_ONCE = 64  # for which numbers are drawn together
_BLOCK = 64  # neighbouring subwords whose probabilities are added first
# Probabilities are multiples of 1 / _PARTS: float64 adds such numbers exactly, and so in any order.
_PARTS = 2.0**48


@torch.inference_mode()
def sample(
    model: DecoderModel,
    source: Tensor,
    max_lengths: Tensor,
    options: SearchOptions,
    seeds: Sequence[int],
    processors: Sequence[LogitsProcessor] = (),
    starts: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """options.n_best independent samples for each sentence, best first. Samples may be equal.

    source [B, S]; max_lengths [B]; seeds: one for each sentence; starts: as in `begin`. A sentence's samples depend
    on its seed only, not on the rest of the batch. Probabilities are the model's own, before temperature, top-k and
    top-p. A sample that no token can continue is not returned.
    """
    if not len(source):
        return []
    device, n, eos = source.device, options.n_best, options.eos
    mask = NextTokenMask(max_lengths, options, processors, device)
    finished = FinishedSentences(max_lengths, device)
    sentences = torch.arange(len(source), device=device)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []  # for each step: sentences, their tokens [B, N], log P of these
    ended = torch.zeros(len(source), n, dtype=torch.bool, device=device)  # [B, N]
    state, tokens = begin(model, source, options, starts)  # [B, 1]
    for length, draws in enumerate(_draws(seeds, n, device)):  # length: tokens of each output
        hidden, state = model.step(state, tokens)
        log_p = mask.log_probabilities(model.scores(hidden), length)
        old = log_p.shape[1]
        log_p = log_p.expand(-1, n, -1)  # the first token of all samples comes from one distribution
        tokens = _draw(log_p, draws[sentences], options)  # [B, N]
        best = log_p.gather(2, tokens[:, :, None])[:, :, 0].nan_to_num(nan=-math.inf, neginf=-math.inf)
        tokens = tokens.masked_fill(best == -math.inf, eos)
        steps.append((sentences, tokens, best))
        ended |= tokens == eos
        column = torch.zeros(1, n, dtype=torch.long, device=device) if old == 1 else torch.arange(n, device=device)
        rows = old * torch.arange(len(tokens), device=device)[:, None] + column
        split = finished.split(ended.all(dim=1), length)
        if split is not None:
            _, staying = split
            if not len(staying):
                return build_hypotheses(steps, len(source), options)
            rows, sentences = rows[staying], sentences[staying]
            tokens, ended = tokens[staying], ended[staying]
            mask.keep(staying)
        mask.advance(rows, tokens)
        if split is not None or old < n:
            state = model.reorder(state, rows)
    raise AssertionError("every output ends at its limit")


def _draws(seeds: Sequence[int], samples: int, device: torch.device) -> Iterator[Tensor]:
    """For each step, random numbers from 0 to 1 for the N samples of each sentence, [B, N]. They depend on the
    sentence's seed only."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    while True:
        drawn = [torch.rand(_STEPS_AT_ONCE, samples, generator=generator) for generator in generators]
        yield from from_host(torch.stack(drawn, dim=1), device)  # [steps, B, N]


def _draw(log_p: Tensor, draws: Tensor, options: SearchOptions) -> Tensor:
    """Draw one token of each distribution: log_p [B, N, V], draws [B, N] → [B, N].

    The draw chooses the first token whose cumulative probability exceeds it. With top-k or top-p, the tokens are
    sorted, likeliest first. Otherwise they stay in the order of their ids, because sorting takes much longer. NaN
    counts as -inf. A token with log P -inf is only returned if all tokens of its distribution have it.
    """
    log_p = log_p.nan_to_num(nan=-math.inf, neginf=-math.inf)
    if options.decoding.top_k is None and options.decoding.top_p is None:
        return _draw_from_all(log_p, draws, options.decoding.temperature)
    count = min(options.decoding.top_k or log_p.shape[2], log_p.shape[2])
    values, tokens = log_p.topk(count, dim=2)
    probabilities = torch.softmax(values.double() / options.decoding.temperature, dim=2)  # NaN: no token is possible
    cumulative = probabilities.cumsum(dim=2)
    if options.decoding.top_p is not None:  # the fewest tokens that together have top_p (Holtzman et al. 2020)
        before = cumulative - cumulative.diff(dim=2, prepend=cumulative.new_zeros(*draws.shape, 1))
        cumulative = cumulative.masked_fill(before >= options.decoding.top_p, -1).cummax(dim=2).values
    chosen = torch.searchsorted(cumulative, draws.double()[:, :, None] * cumulative[:, :, -1:], right=True)
    return tokens.gather(2, chosen.clamp(max=count - 1))[:, :, 0]


def _draw_from_all(log_p: Tensor, draws: Tensor, temperature: float) -> Tensor:
    """`_draw` without sorting: first draw a block of neighbouring tokens, then one of its tokens. log_p without NaN.

    Rounding cannot choose a token of probability 0, because all sums are sums of whole numbers below 2^53.
    """
    vocabulary = log_p.shape[2]
    if vocabulary % _BLOCK:
        log_p = F.pad(log_p, (0, -vocabulary % _BLOCK), value=-math.inf)
    parts = torch.softmax(log_p / temperature, dim=2).mul_(_PARTS).round_()
    parts = parts.view(*draws.shape, -1, _BLOCK)  # [B, N, G, 64]
    sums = parts.sum(dim=3, dtype=torch.double)  # NaN: no token is possible
    cumulative = sums.cumsum(dim=2)  # [B, N, G]
    # A draw is at most 1 - 2^-24: the product stays below the sum of all.
    place = draws.double()[:, :, None] * cumulative[:, :, -1:]  # [B, N, 1]
    block = torch.searchsorted(cumulative, place, right=True).clamp(max=sums.shape[2] - 1)
    place += sums.gather(2, block) - cumulative.gather(2, block)  # inside the block
    inside = parts.gather(2, block[:, :, :, None].expand(-1, -1, -1, _BLOCK))[:, :, 0].double()  # [B, N, 64]
    token = torch.searchsorted(inside.cumsum(dim=2), place, right=True)
    return (block * _BLOCK + token).clamp(max=vocabulary - 1)[:, :, 0]
