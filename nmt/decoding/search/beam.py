"""Beam search: keeps the best hypotheses of each sentence at each step.

Shapes: B sentences still searched, K live hypotheses per sentence, V subwords, C candidates of a step,
n hypotheses per sentence to return.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from nmt.decoding.search.candidates import best_candidates, candidate_count
from nmt.decoding.search.decoder_model import (
    DecoderModel,
    Hypothesis,
    LogitsProcessor,
    SearchOptions,
    State,
    begin,
    length_penalty_tensor,
)
from nmt.decoding.search.finished import FinishedSentences
from nmt.decoding.search.logits_processors import NextTokenMask
from nmt.device import from_host, runs_ahead

SCORED_AT_ONCE = 256  # hypotheses whose scores are computed at once on the CPU

# For the live hypotheses after a step: the row of the hypothesis of the previous step that each continues, its newest
# token, and its log P; [B·K] each. Following the rows backwards gives all tokens of a hypothesis.
BeamStep = tuple[Tensor, Tensor, Tensor]


@torch.inference_mode()
def beam_search(
    model: DecoderModel,
    source: Tensor,
    max_lengths: Tensor,
    options: SearchOptions,
    processors: Sequence[LogitsProcessor] = (),
    starts: Tensor | None = None,
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence, best first; fewer than n_best if fewer are finished.

    source [B, S]; max_lengths [B]: the most tokens before EOS; starts: as in `begin`. The score is log P(Y|X) / lp(Y).
    A hypothesis of max_lengths tokens can only be followed by EOS, with the model's probability of EOS. So every score
    is the model's own for exactly these tokens.

    A sentence's candidates are the V continuations of each of its K live hypotheses. Among the K best candidates,
    those with EOS are finished; the K best without EOS stay live. The search of a sentence ends when K hypotheses are
    finished (so a beam of 1 is greedy search), at the longest length, or as soon as no live hypothesis can enter the n
    best, which does not change the result. Finished hypotheses below the K best are excluded on purpose: models often
    give the empty output a higher probability than any long one (Stahlberg and Byrne 2019).

    A sentence for which the model has no probabilities (only NaN or -inf) has no hypotheses.
    """
    if not len(source):
        return []
    size, device = options.decoding.beam_size, source.device
    sentences = torch.arange(len(source), device=device)  # [B]
    mask = NextTokenMask(max_lengths, options, processors, device)
    finished = FinishedSentences(max_lengths, device)
    penalties = from_host(length_penalty_tensor(finished.longest + 1, options.decoding), device)  # of |Y| = 0, 1, …
    longest = penalties[mask.limits + 1]  # [B]: lp of the longest output
    state, tokens = begin(model, source, options, starts)  # [B, K]
    live = torch.zeros(len(source), 1, device=device)  # [B, K]: log P so far, best first; -inf: not live
    ended = FinishedHypotheses.empty(len(source), options.n_best, device)
    steps: list[BeamStep] = []
    results: list[tuple[Tensor, FinishedHypotheses]] = []  # sentences, and their best hypotheses
    for length in itertools.count():  # length: tokens of each live hypothesis
        hidden, state = model.step(state, tokens)
        totals, parents, next_tokens = _candidates(model, mask, hidden, live, length, size)  # [B, C], best first
        continued = continue_beams(
            (totals, parents, next_tokens), ended, live.shape[1], length, penalties[length + 1], longest, options
        )
        rows, tokens, live, ended, done = continued
        split = finished.split(done, length)
        if split is not None:
            leaving, staying = split
            results.append((sentences[leaving], ended.select(leaving)))
            if not len(staying):
                return build_n_best(steps, results)
            sentences, longest, live = sentences[staying], longest[staying], live[staying]
            ended, rows, tokens = ended.select(staying), rows[staying], tokens[staying]
            mask.keep(staying)
        steps.append((rows.flatten(), tokens.flatten(), live.flatten()))
        mask.advance(rows, tokens)
        if split is not None or size > 1:  # with a beam of 1, hypotheses keep their rows
            state = model.reorder(state, rows)
    raise AssertionError("every search ends at the longest length")


class Continued(NamedTuple):
    """The live hypotheses after a step, best first, and the finished ones."""

    rows: Tensor  # [B, K]: the row of the hypothesis that each continues, among the B·K old ones
    tokens: Tensor  # [B, K]
    live: Tensor  # [B, K]: log P; -inf: not live
    ended: "FinishedHypotheses"
    done: Tensor  # [B]: whether the search of a sentence is over


def continue_beams(
    candidates: tuple[Tensor, Tensor, Tensor],
    ended: "FinishedHypotheses",
    hypotheses: int,
    length: int | Tensor,
    penalty: Tensor,
    longest: Tensor,
    options: SearchOptions,
) -> Continued:
    """Divide the candidates of a step into finished and live hypotheses.

    candidates: from `best_candidates`; hypotheses: of each sentence before the step, which have `length` tokens, a
    number or [1]; penalty: lp of length + 1; longest [B]: lp of the longest output.
    """
    (totals, parents, tokens), size = candidates, options.decoding.beam_size
    rows = parents + hypotheses * torch.arange(len(parents), device=parents.device)[:, None]
    ends = tokens == options.eos
    ending = ends[:, :size] & (totals[:, :size] > -math.inf)
    if runs_ahead(totals.device) or ending.any():
        ended = ended.join(ending, totals[:, :size], rows[:, :size], length, penalty)
    live, best = totals.masked_fill(ends, -math.inf).topk(min(size, totals.shape[1]))
    done = _done(ended, live[:, 0], longest, size)
    live = live.masked_fill(done[:, None], -math.inf)  # no effect while they stay in the batch
    return Continued(rows.gather(1, best), tokens.gather(1, best), live, ended, done)


def _candidates(
    model: DecoderModel, mask: NextTokenMask, hidden: Tensor, live: Tensor, length: int, beam_size: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Outputs of `model.step` [B, K, D] → the `best_candidates` of each sentence, [B, C]."""
    # On the CPU in slices, so that the scores stay in the cache until the candidates are chosen.
    sentences, slices = len(hidden), [slice(None)]
    if hidden.device.type == "cpu":
        count = -(-sentences // max(1, SCORED_AT_ONCE // live.shape[1]))
        slices = [slice(sentences * i // count, sentences * (i + 1) // count) for i in range(count)]
    count = candidate_count(beam_size)
    chosen = [
        best_candidates(mask.log_probabilities(model.scores(hidden[i]), length, i), live[i], count) for i in slices
    ]
    if len(chosen) == 1:
        return chosen[0]
    totals, parents, tokens = (torch.cat(parts) for parts in zip(*chosen, strict=True))
    return totals, parents, tokens


@dataclass(frozen=True)
class FinishedHypotheses:
    """The n best finished hypotheses of each sentence, best first. Each field except `count` is [B, n]."""

    scores: Tensor  # log P / lp; -inf: none yet
    totals: Tensor  # log P
    lengths: Tensor  # tokens, without EOS
    rows: Tensor  # the row of the last token among the live hypotheses
    count: Tensor  # [B]: all finished hypotheses

    @classmethod
    def empty(cls, sentences: int, n: int, device: torch.device) -> "FinishedHypotheses":
        scores = torch.full((sentences, n), -math.inf, device=device)
        zeros = torch.zeros_like(scores, dtype=torch.long)
        return cls(scores, scores, zeros, zeros, zeros[:, 0])

    def join(
        self, ending: Tensor, totals: Tensor, rows: Tensor, length: int | Tensor, penalty: Tensor
    ) -> "FinishedHypotheses":
        """The n best of these and of the candidates [B, C] that are `ending`, which have `length` tokens."""
        new_scores = (totals / penalty).masked_fill(~ending, -math.inf)
        scores, best = torch.cat([self.scores, new_scores], dim=1).topk(self.scores.shape[1])
        pairs = [(self.totals, totals), (self.lengths, torch.zeros_like(rows) + length), (self.rows, rows)]
        totals, lengths, rows = (torch.cat(pair, dim=1).gather(1, best) for pair in pairs)
        return FinishedHypotheses(scores, totals, lengths, rows, self.count + ending.sum(dim=1))

    def select(self, sentences: Tensor) -> "FinishedHypotheses":
        """Select these sentences (indices)."""
        return FinishedHypotheses(*(getattr(self, field.name)[sentences] for field in fields(self)))


@dataclass(frozen=True)
class Beams:
    """The state of `recorded_beam_search` between two steps, which reads no other tensors, except the weights."""

    model: State
    tokens: Tensor  # [B, K]: the newest token of each live hypothesis
    live: Tensor  # [B, K]: log P so far, best first; -inf: not live
    ended: FinishedHypotheses
    length: Tensor  # [1]: tokens of each live hypothesis
    limits: Tensor  # [B]: the most tokens of an output before EOS
    longest: Tensor  # [B]: the length penalty of the longest output
    penalties: Tensor  # of outputs of 0, 1, … tokens, EOS counted
    never: Tensor  # tokens that no output may contain


def _done(ended: FinishedHypotheses, best_live: Tensor, longest: Tensor, beam_size: int) -> Tensor:
    """Whether the search of each sentence is over, [B]. best_live [B]: log P; longest [B]: lp of the longest output.

    A live hypothesis of log-probability s can reach no score above s / lp(longest): s ≤ 0, each further token
    adds at most 0 to it, and for α ≥ 0 the longest length has the greatest penalty. Once the n-th best finished
    hypothesis has a higher score, no live one can enter the n best. This also holds in floating point, because rounded
    addition and division keep the order.
    """
    return (ended.scores[:, -1] > best_live / longest) | (ended.count >= beam_size) | (best_live == -math.inf)


def build_n_best(
    steps: Sequence[BeamStep], results: Sequence[tuple[Tensor, FinishedHypotheses]]
) -> list[list[Hypothesis]]:
    """The hypotheses of each sentence, in order."""
    order = torch.cat([sentences for sentences, _ in results]).argsort()
    scores, totals, lengths, rows = (
        torch.cat([getattr(ended, name) for _, ended in results])[order].flatten()
        for name in ("scores", "totals", "lengths", "rows")
    )  # [B·n]
    tokens, cumulative = _backtrack(steps, lengths, rows, totals)
    columns = (scores, totals, lengths, tokens, cumulative.diff(dim=1))
    hypotheses = [
        Hypothesis(tokens[:length], score, total, token_scores[: length + 1])
        for score, total, length, tokens, token_scores in zip(*(column.tolist() for column in columns), strict=True)
    ]
    n = len(hypotheses) // len(order)
    n_best = [hypotheses[i : i + n] for i in range(0, len(hypotheses), n)]
    return [[hypothesis for hypothesis in best if hypothesis.score > -math.inf] for best in n_best]


def _backtrack(steps: Sequence[BeamStep], lengths: Tensor, rows: Tensor, totals: Tensor) -> tuple[Tensor, Tensor]:
    """Lengths, last rows and log P of N hypotheses → tokens [N, T], log P of the first 0, 1, … tokens [N, T+2];
    padded."""
    longest = int(lengths.max())
    tokens = lengths.new_zeros(len(lengths), longest)
    cumulative = totals.new_zeros(len(lengths), longest + 2).scatter_(1, lengths[:, None] + 1, totals[:, None])
    for step in reversed(range(longest)):
        within = lengths > step
        indices = torch.where(within, rows, 0)
        parents, newest, log_p = (column[indices] for column in steps[step])
        tokens[:, step] = newest
        cumulative[:, step + 1] = torch.where(within, log_p, cumulative[:, step + 1])
        rows = torch.where(within, parents, rows)
    return tokens, cumulative
