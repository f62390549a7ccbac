"""Beam search for GPUs: its steps have fixed shapes, so that they can be started as CUDA graphs.

It finds what `beam_search` finds, of which it uses all parts. It takes no logits processors.
Shapes: B sentences still searched, K live hypotheses per sentence, V subwords, n hypotheses per sentence to return.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.decoding.search.beam import Beams, BeamStep, Continued, FinishedHypotheses, build_n_best, continue_beams
from nmt.decoding.search.candidates import best_candidates, candidate_count
from nmt.decoding.search.decoder_model import (
    FixedStepModel,
    Hypothesis,
    SearchOptions,
    begin,
    length_penalty_tensor,
)
from nmt.decoding.search.finished import FinishedSentences
from nmt.decoding.search.step_graphs import StepGraphs, size_for
from nmt.device import from_host
from nmt.models.norm import triton_works

_PENALTIES = 256  # length penalties of so many lengths, or of a multiple: their number is a part of a graph's shapes
_MOST_SCORES = 2**20  # of a sentence, for which the kernels' registers suffice


@dataclass(frozen=True)
class BeamStepper:
    """A step of the search."""

    model: FixedStepModel
    options: SearchOptions

    def __call__(self, beams: Beams) -> tuple[Beams, tuple[Tensor, Tensor]]:
        """The next state; the rows of the hypotheses that were continued [B, K], and which sentences are done [B]."""
        hidden, state = self.model.fixed_step(beams.model, beams.tokens)
        continued = self._continued(self.model.scores(hidden), beams)
        state = self.model.reorder(state, continued.rows)
        live, tokens, length = continued.live, continued.tokens, beams.length + 1
        beams = replace(beams, model=state, tokens=tokens, live=live, ended=continued.ended, length=length)
        return beams, (continued.rows, continued.done)

    def _continued(self, scores: Tensor, beams: Beams) -> Continued:
        """Choose the hypotheses that are continued. scores [B, K, V] are overwritten."""
        if scores.is_cuda and scores[0].numel() <= _MOST_SCORES and triton_works(scores.device):
            from nmt.decoding.search import beam_kernels  # Triton is only there with CUDA

            return beam_kernels.continue_beams(scores, beams, self.options)
        log_p = torch.log_softmax(scores, dim=-1, out=scores).index_fill_(2, beams.never, -math.inf)
        at_limit = (beams.limits <= beams.length)[:, None, None]
        not_eos = torch.arange(scores.shape[2], device=scores.device) != self.options.eos
        log_p.masked_fill_(at_limit & not_eos, -math.inf)
        candidates = best_candidates(log_p, beams.live, candidate_count(self.options.decoding.beam_size))
        penalty = beams.penalties.index_select(0, beams.length + 1)
        hypotheses = beams.live.shape[1]
        return continue_beams(candidates, beams.ended, hypotheses, beams.length, penalty, beams.longest, self.options)


@torch.inference_mode()
def recorded_beam_search(
    model: FixedStepModel,
    source: Tensor,
    max_lengths: Tensor,
    options: SearchOptions,
    graphs: StepGraphs,
    starts: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """The results of `beam_search` (or of `greedy`, with scores) for the same arguments.

    Finished sentences leave the batch only when the others fill one of the sizes of `size_for`.
    """
    sentences = len(source)
    if not sentences:
        return []
    # The last sentence is repeated to fill a size.
    size = size_for(sentences)
    source, max_lengths = _extended(source, size), _extended(max_lengths, size)
    starts = None if starts is None else _extended(starts, size)
    finished = FinishedSentences(max_lengths, source.device, size_for)
    step = BeamStepper(model, options)
    return _search(step, _begin(step, source, max_lengths, starts), finished, graphs)[:sentences]


def _begin(step: BeamStepper, source: Tensor, max_lengths: Tensor, starts: Tensor | None) -> Beams:
    options, device, longest = step.options, source.device, int(max_lengths.max())
    state, tokens = begin(step.model, source, options, starts)
    penalties = length_penalty_tensor(longest + 1, options.decoding)  # of |Y| = 0, 1, …
    penalties = F.pad(penalties, (0, -len(penalties) % _PENALTIES), value=math.inf)
    return Beams(
        model=step.model.with_length_tensor(state, longest),
        tokens=tokens,
        live=torch.zeros(len(source), 1, device=device),
        ended=FinishedHypotheses.empty(len(source), options.n_best, device),
        length=torch.zeros(1, dtype=torch.long, device=device),
        limits=from_host(max_lengths, device),
        longest=from_host(penalties[max_lengths + 1], device),
        penalties=from_host(penalties, device),
        never=from_host(torch.tensor(options.never, dtype=torch.long), device),
    )


def _search(step: BeamStepper, beams: Beams, finished: FinishedSentences, graphs: StepGraphs) -> list[list[Hypothesis]]:
    sentences = torch.arange(len(beams.tokens), device=beams.tokens.device)
    steps: list[BeamStep] = []
    results: list[tuple[Tensor, FinishedHypotheses]] = []  # sentences, and their best hypotheses
    for length in itertools.count():
        beams = replace(beams, model=step.model.with_room(beams.model))
        # The first step changes the shapes: it begins with one hypothesis for each sentence.
        beams, (rows, done) = graphs.run(step, beams) if length else step(beams)
        newest: Sequence[Tensor] = (rows, beams.tokens, beams.live)
        split = finished.split(done, length)
        if split is not None:
            leaving, staying = split
            results.append((sentences[leaving], beams.ended.select(leaving)))
            if not len(staying):
                return build_n_best(steps, results)
            sentences, newest = sentences[staying], [x[staying] for x in newest]
            beams = _selected(step.model, beams, staying)
        elif length:
            newest = [x.clone() for x in newest]  # the next step overwrites them
        steps.append((newest[0].flatten(), newest[1].flatten(), newest[2].flatten()))
    raise AssertionError("every search ends at the longest length")


def _selected(model: FixedStepModel, beams: Beams, sentences: Tensor) -> Beams:
    """The state of some sentences (indices)."""
    hypotheses = beams.tokens.shape[1]
    rows = hypotheses * sentences[:, None] + torch.arange(hypotheses, device=sentences.device)
    return replace(
        beams,
        model=model.reorder(beams.model, rows),
        tokens=beams.tokens[sentences],
        live=beams.live[sentences],
        ended=beams.ended.select(sentences),
        limits=beams.limits[sentences],
        longest=beams.longest[sentences],
    )


def _extended(x: Tensor, rows: int) -> Tensor:
    """x with its last row repeated until it has this many rows."""
    return torch.cat([x, x[-1:].expand(rows - len(x), *x.shape[1:])])
