"""Greedy search: the likeliest token at each step.

Shapes: B sentences still searched, V subwords.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.search.candidates import best_candidates
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


@torch.inference_mode()
def greedy(
    model: DecoderModel,
    source: Tensor,
    max_lengths: Tensor,
    options: SearchOptions,
    processors: Sequence[LogitsProcessor] = (),
    starts: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """The same outputs as `beam_search` with a beam of one, in half the time.

    source [B, S]; max_lengths [B]; starts: as in `begin`. Without options.scores no probabilities are computed:
    the scores are 0.
    """
    if not len(source):
        return []
    sentences = torch.arange(len(source), device=source.device)  # [B]
    mask = NextTokenMask(max_lengths, options, processors, source.device)
    finished = FinishedSentences(max_lengths, source.device)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []  # for each step: sentences, their tokens, log P of these
    state, tokens = begin(model, source, options, starts)  # [B, 1]
    for length in itertools.count():  # length: tokens of each output
        hidden, state = model.step(state, tokens)
        scores = model.scores(hidden)  # [B, 1, V]
        # The softmax of a row with NaN is NaN everywhere. Without a softmax, NaN must be detected.
        has_nan = None if options.scores else scores.sum(-1).isnan()  # [B, 1]
        allowed = mask.log_probabilities(scores, length) if options.scores else mask.apply(scores, length)
        best, _, tokens = best_candidates(allowed, None, 1)  # [B, 1]
        impossible = best == -math.inf
        if has_nan is not None:
            impossible |= has_nan
        tokens.masked_fill_(impossible, options.eos)
        # A finished output is extended until its sentence leaves the batch; these tokens are ignored.
        steps.append((sentences, tokens, best if options.scores else torch.where(impossible, -math.inf, 0.0)))
        split = finished.split(tokens[:, 0] == options.eos, length)
        if split is not None:
            _, staying = split
            if not len(staying):
                return build_hypotheses(steps, len(source), options)
            rows, sentences, tokens = staying[:, None], sentences[staying], tokens[staying]
            state = model.reorder(state, rows)
            mask.keep(staying)
        elif processors:
            rows = torch.arange(len(tokens), device=source.device)[:, None]
        if processors:
            mask.advance(rows, tokens)
    raise AssertionError("every output ends at its limit")
