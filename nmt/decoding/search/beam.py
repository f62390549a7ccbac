"""Beam search: the best of several hypotheses a sentence.

Shapes: B sentences still searched, K live hypotheses a sentence, V subwords, C candidates of a step,
n hypotheses a sentence to return.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import torch
from torch import Tensor

from nmt.decoding.search.candidates import best_candidates, candidate_count
from nmt.decoding.search.interface import (
    ALL,
    DROP_SHARE,
    Hypothesis,
    LogitsProcessor,
    Memory,
    Options,
    State,
    Stepper,
    length_penalties,
)
from nmt.decoding.search.logits_processors import NextTokenMask


@torch.inference_mode()
def beam_search(
    stepper: Stepper[Memory, State],
    source: Tensor,
    max_lengths: Tensor,
    options: Options,
    processors: Sequence[LogitsProcessor] = (),
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence, best first; fewer than n_best where fewer ended.

    source [B, S]; max_lengths [B]: the most tokens before EOS. The score is log P(Y|X) / lp(Y). A hypothesis of that
    many tokens can only be followed by EOS, with the probability that the model gives it, so a score is always the
    model's own for exactly these tokens.

    A sentence's candidates are the V continuations of each of its K live hypotheses. Among the K best candidates,
    those with EOS end; the K best without EOS live on. The search of a sentence is over when K hypotheses have ended
    (so a beam of 1 is greedy search), at the longest length, or as soon as no live hypothesis can enter the n best
    any more, which does not change the result. Endings below the K best are excluded on purpose: models often give
    the empty output a higher probability than any long one (Stahlberg and Byrne 2019).

    A sentence for which the model has no probabilities (only NaN or -inf) has no hypotheses.
    """
    return _Search(stepper, source, max_lengths, options, processors).run() if len(source) else []


SCORED_AT_ONCE = 256  # hypotheses whose scores are computed at once on the CPU


class _Search(Generic[Memory, State]):
    """One call of `beam_search`. Line b of every tensor belongs to sentence `sentences[b]` of the source."""

    def __init__(
        self,
        stepper: Stepper[Memory, State],
        source: Tensor,
        max_lengths: Tensor,
        options: Options,
        processors: Sequence[LogitsProcessor],
    ):
        sentences, device = len(source), source.device
        self.stepper, self.options = stepper, options
        self.mask = NextTokenMask(max_lengths, options, processors, device)
        self.state = stepper.start(stepper.encode(source))
        self.tokens = torch.full((sentences, 1), options.bos, device=device)  # [B, K]: the newest of each hypothesis
        self.live = torch.zeros(sentences, 1, device=device)  # [B, K]: log P so far, best first; -inf: not live
        self.ended = _Ended.empty(sentences, options.n_best, device)
        self.ended_count = torch.zeros(sentences, dtype=torch.long, device=device)  # [B]
        self.sentences = torch.arange(sentences, device=device)  # [B]
        self.penalties = length_penalties(int(max_lengths.max()) + 1, options).to(device)  # of |Y| = 0, 1, …
        self.trail = _Trail()

    def run(self) -> list[list[Hypothesis]]:
        for length in itertools.count():  # tokens that each live hypothesis has
            hidden, self.state = self.stepper.step(self.state, self.tokens)
            rows = self._extend(self._candidates(hidden, length), length)
            done = self._done()
            self.live = self.live.masked_fill(done[:, None], -math.inf)  # no effect, however long they stay
            finished = int(done.sum())
            # Dropping copies the model's state of each sentence: not worth it for one sentence in a hundred.
            dropping = finished * DROP_SHARE >= len(done)
            if dropping:
                self.trail.leave(self.sentences[done], self.ended.select(done))
                if finished == len(done):
                    break
                rows = self._keep(~done, rows)
            self.trail.append(rows, self.tokens, self.live)
            self.mask.advance(rows, self.tokens)
            if dropping or self.options.beam_size > 1:  # with a beam of 1 hypotheses stay where they are
                self.state = self.stepper.reorder(self.state, rows)
        return self.trail.hypotheses()

    def _candidates(self, hidden: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs of `stepper.step` [B, K, D] → the `best_candidates` of each sentence."""
        # On the CPU in slices, so that their scores stay in its cache until the candidates have been chosen.
        size = max(1, SCORED_AT_ONCE // self.live.shape[1])
        slices = _slices(len(hidden), size) if hidden.device.type == "cpu" else [ALL]
        count = candidate_count(self.options.beam_size)
        found = [
            best_candidates(self.mask.log_probabilities(self.stepper.scores(hidden[i]), length, i), self.live[i], count)
            for i in slices
        ]
        if len(found) == 1:
            return found[0]
        totals, parents, tokens = (torch.cat(each) for each in zip(*found, strict=True))
        return totals, parents, tokens

    def _extend(self, candidates: tuple[Tensor, Tensor, Tensor], length: int) -> Tensor:
        """Add one token to every hypothesis: those that end join `ended`, the others are the new live ones.

        `best_candidates` → the old row that each new live hypothesis continues, [B, K'].
        """
        size, old = self.options.beam_size, self.live.shape[1]
        totals, parents, tokens = candidates  # [B, C], best first
        rows = parents + old * torch.arange(len(parents), device=parents.device)[:, None]
        ends = tokens == self.options.eos
        ending = ends[:, :size] & (totals[:, :size] > -math.inf)
        if ending.any():
            penalty = self.penalties[length + 1]
            self.ended = self.ended.join(ending, totals[:, :size], rows[:, :size], length, penalty)
            self.ended_count = self.ended_count + ending.sum(dim=1)
        self.live, kept = totals.masked_fill(ends, -math.inf).topk(min(size, totals.shape[1]))
        self.tokens = tokens.gather(1, kept)
        return rows.gather(1, kept)

    def _done(self) -> Tensor:
        """The sentences whose n best are known, [B].

        A live hypothesis of log-probability s can reach no score above s / lp(longest): s ≤ 0, each further token
        adds at most 0 to it, and for α ≥ 0 the longest length has the greatest penalty. Once the n-th best ended
        hypothesis has a higher score, no live one can enter. This also holds in floating point, because rounded
        addition and division keep the order.
        """
        longest = self.penalties[self.mask.limits + 1]
        best_live = self.live[:, 0]
        hopeless = self.ended.scores[:, -1] > best_live / longest
        return hopeless | (self.ended_count >= self.options.beam_size) | (best_live == -math.inf)

    def _keep(self, kept: Tensor, rows: Tensor) -> Tensor:
        """Keep these sentences [B] of the batch; returns their lines of `rows` [B, K]."""
        self.tokens, self.live, self.ended = self.tokens[kept], self.live[kept], self.ended.select(kept)
        self.ended_count, self.sentences = self.ended_count[kept], self.sentences[kept]
        self.mask.keep(kept)
        return rows[kept]


def _slices(length: int, size: int) -> list[slice]:
    """Split range(length) into the fewest near-equal slices of at most `size`."""
    parts = -(-length // size)
    return [slice(length * i // parts, length * (i + 1) // parts) for i in range(parts)]


@dataclass(frozen=True)
class _Ended:
    """The n best hypotheses of each sentence that have ended, best first; each field is [B, n]."""

    scores: Tensor  # log P / lp; -inf: none yet
    totals: Tensor  # log P
    lengths: Tensor  # tokens, EOS left out
    rows: Tensor  # place of the last token in the trail

    @staticmethod
    def empty(sentences: int, n: int, device: torch.device) -> "_Ended":
        scores = torch.full((sentences, n), -math.inf, device=device)
        zeros = torch.zeros(sentences, n, dtype=torch.long, device=device)
        return _Ended(scores, scores, zeros, zeros)

    def join(self, ending: Tensor, totals: Tensor, rows: Tensor, length: int, penalty: Tensor) -> "_Ended":
        """The best of these and of the candidates [B, C] that are `ending`, which have `length` tokens."""
        new_scores = (totals / penalty).masked_fill(~ending, -math.inf)
        scores, best = torch.cat([self.scores, new_scores], dim=1).topk(self.scores.shape[1])

        def chosen(old: Tensor, new: Tensor) -> Tensor:
            return torch.cat([old, new], dim=1).gather(1, best)

        lengths = torch.full_like(rows, length)
        return _Ended(scores, chosen(self.totals, totals), chosen(self.lengths, lengths), chosen(self.rows, rows))

    def select(self, sentences: Tensor) -> "_Ended":
        """Those of these sentences (a mask or indices)."""
        return _Ended(self.scores[sentences], self.totals[sentences], self.lengths[sentences], self.rows[sentences])


class _Trail:
    """The token of every live hypothesis at each step, and the row of the step before that it continues.

    Following the rows backwards gives the tokens of any hypothesis, so that none is copied from step to step.
    """

    def __init__(self) -> None:
        self.rows: list[Tensor] = []  # of each step, [B·K]
        self.tokens: list[Tensor] = []
        self.totals: list[Tensor] = []  # log P with this token
        self.left: list[tuple[Tensor, _Ended]] = []

    def append(self, rows: Tensor, tokens: Tensor, totals: Tensor) -> None:
        """The live hypotheses of one more step, [B, K] each."""
        self.rows.append(rows.flatten())
        self.tokens.append(tokens.flatten())
        self.totals.append(totals.flatten())

    def leave(self, sentences: Tensor, ended: _Ended) -> None:
        """Store the best hypotheses of sentences that are finished."""
        self.left.append((sentences, ended))

    def hypotheses(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, in order."""
        order = torch.cat([sentences for sentences, _ in self.left]).argsort()
        scores, totals, lengths, rows = (
            torch.cat([getattr(ended, name) for _, ended in self.left])[order].flatten()
            for name in ("scores", "totals", "lengths", "rows")
        )  # [B·n]
        tokens, so_far = self._backtrack(lengths, rows, totals)
        columns = (scores, totals, lengths, tokens, so_far.diff(dim=1))
        found = [
            Hypothesis(tokens[:length], score, total, token_scores[: length + 1])
            for score, total, length, tokens, token_scores in zip(*(c.tolist() for c in columns), strict=True)
        ]
        n = len(found) // len(order)
        return [[h for h in found[i : i + n] if h.score > -math.inf] for i in range(0, len(found), n)]

    def _backtrack(self, lengths: Tensor, rows: Tensor, totals: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths, last rows and log P of N hypotheses → tokens [N, T], log P of 0, 1, … tokens [N, T+2]; padded."""
        longest = int(lengths.max())
        tokens = lengths.new_zeros(len(lengths), longest)
        so_far = totals.new_zeros(len(lengths), longest + 2).scatter_(1, lengths[:, None] + 1, totals[:, None])
        for step in reversed(range(longest)):
            within = lengths > step
            at = torch.where(within, rows, 0)
            tokens[:, step] = self.tokens[step][at]
            so_far[:, step + 1] = torch.where(within, self.totals[step][at], so_far[:, step + 1])
            rows = torch.where(within, self.rows[step][at], rows)
        return tokens, so_far
