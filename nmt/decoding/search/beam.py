"""Beam search: the best of several hypotheses a sentence.

Shapes: B sentences still searched, K live hypotheses a sentence, V subwords, C candidates of a step,
n hypotheses wanted a sentence.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.decoding.search.interface import (
    BLOCK,
    DROP_SHARE,
    Hypothesis,
    LogitsProcessor,
    Memory,
    Options,
    State,
    Stepper,
    length_penalties,
)
from nmt.decoding.search.next_token import NextToken


@torch.inference_mode()
def beam_search(
    stepper: Stepper[Memory, State],
    source: Tensor,
    max_lengths: Tensor,
    options: Options,
    rules: Sequence[LogitsProcessor] = (),
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence, best first; fewer than n_best where fewer ended.

    source [B, S]; max_lengths [B]: the most tokens before EOS. The score is log P(Y|X) / lp(Y).
    A hypothesis that has that many tokens can only take EOS, at the price that the model asks for it,
    so a score is always the model's own for just these tokens.

    Of a sentence's candidates, K live hypotheses times V subwords, the K best are looked at for
    endings, and the K best that do not end live on. The search of a sentence is over when K
    hypotheses have ended (beam size 1 so is greedy search), at the longest length, or as soon as no
    live hypothesis can enter the n best any more, which changes nothing. Endings below the K best
    stay out on purpose: models give the empty output a probability that, compared at the end, often
    beats that of every long one (Stahlberg and Byrne 2019).

    A sentence for which the model has no probabilities (NaN, or -inf alone) has no hypotheses.
    """
    return _Search(stepper, source, max_lengths, options, rules).run() if len(source) else []


SCORED_AT_ONCE = 256  # hypotheses whose scores are computed at once on the CPU


class _Search(Generic[Memory, State]):
    """One call of `beam_search`. Line b of every tensor belongs to sentence `sentences[b]` of the source."""

    def __init__(
        self,
        stepper: Stepper[Memory, State],
        source: Tensor,
        max_lengths: Tensor,
        options: Options,
        rules: Sequence[LogitsProcessor],
    ):
        sentences, device = len(source), source.device
        self.stepper, self.options = stepper, options
        self.next = NextToken(max_lengths, options, rules, device)
        self.state = stepper.start(stepper.encode(source))
        self.tokens = torch.full((sentences, 1), options.bos, device=device)  # [B, K]: the newest of each hypothesis
        self.live = torch.zeros(sentences, 1, device=device)  # [B, K]: log P so far, best first; -inf: not live
        self.ended = _Ended.none(sentences, options.n_best, device)
        self.ended_count = torch.zeros(sentences, dtype=torch.long, device=device)  # [B]
        self.sentences = torch.arange(sentences, device=device)  # [B]
        self.penalties = length_penalties(int(max_lengths.max()) + 1, options).to(device)  # of |Y| = 0, 1, …
        self.trail = _Trail()

    def run(self) -> list[list[Hypothesis]]:
        for length in itertools.count():  # tokens that each live hypothesis has
            hidden, self.state = self.stepper.step(self.state, self.tokens)
            rows = self._extend(self._candidates(hidden, length), length)
            done = self._done()
            self.live = self.live.masked_fill(done[:, None], -math.inf)  # inert, however long they stay in the batch
            finished = int(done.sum())
            # Dropping copies what the model keeps of each source: not worth it for one sentence in a hundred.
            dropping = finished * DROP_SHARE >= len(done)
            if dropping:
                self.trail.leave(self.sentences[done], self.ended.of(done))
                if finished == len(done):
                    break
                rows = self._keep(~done, rows)
            self.trail.append(rows, self.tokens, self.live)
            self.next.advance(rows, self.tokens)
            if dropping or self.options.beam_size > 1:  # a greedy search's hypotheses stay where they are
                self.state = self.stepper.reorder(self.state, rows)
        return self.trail.hypotheses()

    def _candidates(self, hidden: Tensor, length: int) -> tuple[Tensor, Tensor, Tensor]:
        """What `stepper.step` gave, [B, K, D] → each sentence's `best_candidates`."""
        old, count = self.live.shape[1], candidate_count(self.options.beam_size)
        # On the CPU by parts, whose scores stay in the processor's cache until they have been looked through.
        whole = bool(self.next.rules) or hidden.device.type != "cpu"
        parts = [slice(None)] if whole else _slices(len(hidden), max(1, SCORED_AT_ONCE // old))
        found = [
            best_candidates(self.next.log_probabilities(self.stepper.scores(hidden[i]), length, i), self.live[i], count)
            for i in parts
        ]
        if len(found) == 1:
            return found[0]
        totals, parents, tokens = (torch.cat(each) for each in zip(*found, strict=True))
        return totals, parents, tokens

    def _extend(self, candidates: tuple[Tensor, Tensor, Tensor], length: int) -> Tensor:
        """One more token for every hypothesis: those that end join `ended`, the others are the new live ones.

        `best_candidates` → for each new live hypothesis the old row that it continues, [B, K'].
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

        A live hypothesis of log-probability s can come to no more than s / lp(longest): each further token
        adds at most 0 to s, which is not positive, and for α ≥ 0 no length divides it by more than the
        longest. Once even the n-th best ended one has a higher score, none can enter. This holds in
        floating point too, as rounded addition and division keep order.
        """
        longest = self.penalties[self.next.limits + 1]
        best_live = self.live[:, 0]
        hopeless = self.ended.scores[:, -1] > best_live / longest
        return hopeless | (self.ended_count >= self.options.beam_size) | (best_live == -math.inf)

    def _keep(self, kept: Tensor, rows: Tensor) -> Tensor:
        """Keep these sentences [B] of the batch; the same of `rows` [B, K]."""
        self.tokens, self.live, self.ended = self.tokens[kept], self.live[kept], self.ended.of(kept)
        self.ended_count, self.sentences = self.ended_count[kept], self.sentences[kept]
        self.next.keep(kept)
        return rows[kept]


def candidate_count(beam_size: int) -> int:
    """How many candidates of a sentence a step looks at.

    2K of them hold K that do not end, as each hypothesis has one way of ending. One is all that a greedy search
    needs: it goes on or it ends.
    """
    return 1 if beam_size == 1 else 2 * beam_size


def _slices(length: int, size: int) -> list[slice]:
    """Of so much, as few parts of at most this size as there can be, all about as large."""
    parts = -(-length // size)
    return [slice(length * i // parts, length * (i + 1) // parts) for i in range(parts)]


def best_candidates(log_p: Tensor, live: Tensor, count: int, block: int = BLOCK) -> tuple[Tensor, Tensor, Tensor]:
    """The best continuations of each sentence's hypotheses.

    log_p [B, K, V], live [B, K] → their log P, the hypothesis that each continues, its token; [B, C] each,
    best first, C = count or all that there are. NaN counts as -inf.

    Selecting among K·V numbers costs more than the softmax did. But the best C lie in the C blocks of
    neighbours with the greatest maxima; maxima are cheap, and C blocks are few.
    """
    sentences, hypotheses, vocabulary = log_p.shape
    count, block = min(count, hypotheses * vocabulary), min(block, vocabulary)
    if vocabulary % block:
        log_p = F.pad(log_p, (0, -vocabulary % block), value=-math.inf)
    blocks = log_p.view(sentences, hypotheses, -1, block)  # [B, K, G, block]
    in_row = blocks.shape[2]
    maxima = _numbers(blocks.amax(dim=3) + live[:, :, None]).flatten(1)  # [B, K·G]
    chosen = maxima.topk(min(count, maxima.shape[1]), sorted=False).indices  # [B, C]
    first = maxima.shape[1] * torch.arange(sentences, device=live.device)[:, None]
    inside = blocks.view(-1, block).index_select(0, (chosen + first).flatten()).view(*chosen.shape, block)
    inside = _numbers(inside + live.gather(1, chosen // in_row)[:, :, None]).flatten(1)  # [B, C·block]
    totals, place = inside.topk(min(count, inside.shape[1]))  # [B, C]
    at = chosen.gather(1, place // block)
    tokens = (at % in_row) * block + place % block
    return totals, at // in_row, tokens.clamp_(max=vocabulary - 1)  # beyond it lies padding, of log P -inf


def _numbers(log_p: Tensor) -> Tensor:
    return log_p.nan_to_num(nan=-math.inf, neginf=-math.inf)


@dataclass(frozen=True)
class _Ended:
    """The n best hypotheses of each sentence that have ended, best first; each field is [B, n]."""

    scores: Tensor  # log P / lp; -inf: none yet
    totals: Tensor  # log P
    lengths: Tensor  # tokens, EOS left out
    rows: Tensor  # where its last token stands in the trail

    @staticmethod
    def none(sentences: int, n: int, device: torch.device) -> "_Ended":
        scores = torch.full((sentences, n), -math.inf, device=device)
        zeros = torch.zeros(sentences, n, dtype=torch.long, device=device)
        return _Ended(scores, scores, zeros, zeros)

    def join(self, ending: Tensor, totals: Tensor, rows: Tensor, length: int, penalty: Tensor) -> "_Ended":
        """The best of these and of those candidates [B, C] that are `ending`, of `length` tokens."""
        new_scores = (totals / penalty).masked_fill(~ending, -math.inf)
        scores, best = torch.cat([self.scores, new_scores], dim=1).topk(self.scores.shape[1])

        def chosen(old: Tensor, new: Tensor) -> Tensor:
            return torch.cat([old, new], dim=1).gather(1, best)

        lengths = torch.full_like(rows, length)
        return _Ended(scores, chosen(self.totals, totals), chosen(self.lengths, lengths), chosen(self.rows, rows))

    def of(self, sentences: Tensor) -> "_Ended":
        """Those of some sentences (a mask or indices)."""
        return _Ended(self.scores[sentences], self.totals[sentences], self.lengths[sentences], self.rows[sentences])


class _Trail:
    """What every live hypothesis took at each step and which row of the step before it continues.

    Following rows backwards spells any hypothesis, so that none is copied from step to step.
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
        """Sentences that are finished, with their best hypotheses."""
        self.left.append((sentences, ended))

    def hypotheses(self) -> list[list[Hypothesis]]:
        """Of each sentence that has left, in order."""
        order = torch.cat([sentences for sentences, _ in self.left]).argsort()
        scores, totals, lengths, rows = (
            torch.cat([getattr(ended, name) for _, ended in self.left])[order].flatten()
            for name in ("scores", "totals", "lengths", "rows")
        )  # [B·n]
        tokens, so_far = self._spell(lengths, rows, totals)
        columns = (scores, totals, lengths, tokens, so_far.diff(dim=1))
        found = [
            Hypothesis(tokens[:length], score, total, token_scores[: length + 1])
            for score, total, length, tokens, token_scores in zip(*(c.tolist() for c in columns), strict=True)
        ]
        n = len(found) // len(order)
        return [[h for h in found[i : i + n] if h.score > -math.inf] for i in range(0, len(found), n)]

    def _spell(self, lengths: Tensor, rows: Tensor, totals: Tensor) -> tuple[Tensor, Tensor]:
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
