"""Greedy search: the likeliest token at each step.

Shapes: B sentences still searched, V subwords.
"""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.search.candidates import best_candidates
from nmt.decoding.search.interface import (
    DROP_SHARE,
    Hypothesis,
    LogitsProcessor,
    Memory,
    Options,
    State,
    Stepper,
    build_hypotheses,
)
from nmt.decoding.search.logits_processors import NextTokenMask


@torch.inference_mode()
def greedy(
    stepper: Stepper[Memory, State],
    source: Tensor,
    max_lengths: Tensor,
    options: Options,
    processors: Sequence[LogitsProcessor] = (),
) -> list[list[Hypothesis]]:
    """The output of each sentence that `beam_search` finds with a beam of one, in half the time.

    source [B, S]; max_lengths [B]. Without options.scores no probabilities are computed: those returned are 0.
    """
    if not len(source):
        return []
    sentences = torch.arange(len(source), device=source.device)  # [B]
    mask = NextTokenMask(max_lengths, options, processors, source.device)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []  # of each: sentences, their tokens, log P of these
    state, tokens = stepper.start(stepper.encode(source)), torch.full_like(sentences, options.bos)
    for length in itertools.count():  # tokens that each output has
        hidden, state = stepper.step(state, tokens[:, None])
        scores = stepper.scores(hidden)  # [B, 1, V]
        allowed = mask.log_probabilities(scores, length) if options.scores else mask.apply(scores, length)
        best, _, likeliest = best_candidates(allowed, None, 1)
        best, tokens = best[:, 0], likeliest[:, 0]
        lost = best == -math.inf
        tokens.masked_fill_(lost, options.eos)
        # An output that has ended is still extended, which is ignored, until its sentence leaves the batch.
        steps.append((sentences, tokens, best if options.scores else torch.where(lost, best, 0.0)))
        going = tokens != options.eos
        left = int(going.sum())
        if not left:
            return _hypotheses(steps, len(source), options)
        dropping = (len(going) - left) * DROP_SHARE >= len(going)
        if dropping or processors:
            rows = going.nonzero() if dropping else torch.arange(len(going), device=source.device)[:, None]  # [B', 1]
            mask.advance(rows, tokens[rows])
        if dropping:
            state, kept = stepper.reorder(state, rows), rows[:, 0]
            sentences, tokens = sentences[kept], tokens[kept]
            mask.keep(kept)
    raise AssertionError("every output ends at its limit")


def _hypotheses(steps: list[tuple[Tensor, Tensor, Tensor]], sentences: int, options: Options) -> list[list[Hypothesis]]:
    """The output of each sentence; steps: the sentences that each step extended, their tokens and log P, [B] each."""
    _, tokens, log_p = steps[0]
    outputs = tokens.new_full((sentences, 1, len(steps)), options.eos)
    scores = log_p.new_zeros(outputs.shape)
    for step, (extended, tokens, log_p) in enumerate(steps):
        outputs[extended, 0, step], scores[extended, 0, step] = tokens, log_p
    return build_hypotheses(outputs, scores, options)
