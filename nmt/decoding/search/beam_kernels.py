"""The choice of hypotheses in a step of beam search as two Triton kernels.

PyTorch's separate operations read and write all scores several times, and start sixty small kernels after that. Here
the scores are read once, and each sentence's choice is one program.

Shapes: B sentences, K hypotheses per sentence before the step and W after it, V subwords, G blocks of subwords, C
candidates per sentence, n hypotheses per sentence to return.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from nmt.decoding.search.beam import Beams, Continued, FinishedHypotheses
from nmt.decoding.search.candidates import candidate_count
from nmt.decoding.search.options import SearchOptions

BLOCK = 64  # subwords
_BLOCKS = 64  # that a program reads at once


@triton.jit  # type: ignore[untyped-decorator]
def _allowed(v, limited, never, eos, NEVER: tl.constexpr):  # type: ignore[no-untyped-def]
    """Whether a hypothesis may continue with the subwords v. limited: whether only EOS may follow."""
    allowed = (v == eos) | (limited == 0)
    for i in tl.static_range(NEVER):
        allowed &= v != tl.load(never + i)
    return allowed


@triton.jit  # type: ignore[untyped-decorator]
def _maxima(  # type: ignore[no-untyped-def]
    scores, limits, length, never, eos, maxima, lse, vocabulary, blocks,
    HYPOTHESES: tl.constexpr, NEVER: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr,
):  # fmt: skip
    """The logarithm of a hypothesis's sum of exponentials, and the greatest allowed score of each block."""
    row = tl.program_id(0)
    scores += row.to(tl.int64) * vocabulary  # may exceed 2^31
    limited = (tl.load(limits + row // HYPOTHESES) <= tl.load(length)).to(tl.int32)
    largest = -float("inf")
    total = 0.0
    for first in range(0, blocks, BLOCKS):
        block = first + tl.arange(0, BLOCKS)
        v = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
        x = tl.load(scores + v, mask=v < vocabulary, other=-float("inf"))
        before, largest = largest, tl.maximum(largest, tl.max(tl.max(x, axis=1), axis=0))
        shift = tl.where(largest == -float("inf"), 0.0, largest)  # the difference of two infinities would be NaN
        total = total * tl.exp(before - shift) + tl.sum(tl.sum(tl.exp(x - shift), axis=1), axis=0)
        x = tl.where(_allowed(v, limited, never, eos, NEVER), x, -float("inf"))
        tl.store(maxima + row * blocks + block, tl.max(x, axis=1), mask=block < blocks)
    tl.store(lse + row, largest + tl.log(total))


@triton.jit
def _number(x):  # type: ignore[no-untyped-def]
    """x with -inf in place of NaN."""
    return tl.where(x == x, x, -float("inf"))


@triton.jit  # type: ignore[untyped-decorator]
def _continued(  # type: ignore[no-untyped-def]
    scores, maxima, lse, live, limits, length, never, eos, penalties, longest,
    ended_scores, ended_totals, ended_lengths, ended_rows, ended_count,
    new_rows, new_tokens, new_live, new_done,
    new_scores, new_totals, new_lengths, new_ended_rows, new_count,
    vocabulary, blocks,
    HYPOTHESES: tl.constexpr, NEVER: tl.constexpr, BLOCK: tl.constexpr,
    WIDTH: tl.constexpr, COUNT: tl.constexpr, N: tl.constexpr,
    PADDED_BLOCKS: tl.constexpr, PADDED_HYPOTHESES: tl.constexpr, PADDED_COUNT: tl.constexpr, PADDED_N: tl.constexpr,
):  # fmt: skip
    """All that follows for one sentence; see `continue_beams`."""
    sentence = tl.program_id(0)
    first_row = sentence * HYPOTHESES
    none = -float("inf")

    # The COUNT blocks with the best hypotheses; `block` is an index into all blocks of all hypotheses.
    index = tl.arange(0, PADDED_HYPOTHESES * PADDED_BLOCKS)
    parent, block = index // PADDED_BLOCKS, index % PADDED_BLOCKS
    real = (parent < HYPOTHESES) & (block < blocks)
    best = tl.load(maxima + (first_row + parent) * blocks + block, mask=real, other=none)
    best -= tl.load(lse + first_row + parent, mask=real, other=0.0)
    best = _number(best + tl.load(live + first_row + parent, mask=real, other=none))
    c = tl.arange(0, PADDED_COUNT)
    chosen = tl.full([PADDED_COUNT], 0, tl.int32)
    exists = tl.full([PADDED_COUNT], 0, tl.int32)
    for i in range(COUNT):
        at = tl.argmax(best, axis=0)
        exists = tl.where(c == i, (tl.max(best, axis=0) > none).to(tl.int32), exists)
        chosen = tl.where(c == i, at, chosen)
        best = tl.where(index == at, none, best)

    # The COUNT best continuations in these blocks, best first.
    parent, block = chosen // PADDED_BLOCKS, chosen % PADDED_BLOCKS
    v = block[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    row = (first_row + parent).to(tl.int64) * vocabulary
    inside = (exists[:, None] == 1) & (v < vocabulary)
    total = tl.load(scores + row[:, None] + v, mask=inside, other=none)
    total -= tl.load(lse + first_row + parent)[:, None]
    total = _number(total + tl.load(live + first_row + parent)[:, None])
    limited = (tl.load(limits + sentence) <= tl.load(length)).to(tl.int32)
    total = tl.where(inside & _allowed(v, limited, never, eos, NEVER), total, none)
    total = tl.reshape(total, [PADDED_COUNT * BLOCK])
    index = tl.arange(0, PADDED_COUNT * BLOCK)
    totals = tl.full([PADDED_COUNT], none, tl.float32)
    rows = tl.full([PADDED_COUNT], 0, tl.int32)
    tokens = tl.full([PADDED_COUNT], 0, tl.int32)
    for i in range(COUNT):
        at = tl.argmax(total, axis=0)
        from_block = tl.sum(tl.where(c == at // BLOCK, chosen, 0), axis=0)
        totals = tl.where(c == i, tl.max(total, axis=0), totals)
        rows = tl.where(c == i, first_row + from_block // PADDED_BLOCKS, rows)
        tokens = tl.where(c == i, from_block % PADDED_BLOCKS * BLOCK + at % BLOCK, tokens)
        total = tl.where(index == at, none, total)
    possible = totals > none
    ends = (tokens == eos) & possible

    # Finished hypotheses: the n best of the old ones and of those that end now.
    penalty = tl.load(penalties + tl.load(length) + 1)
    n = tl.arange(0, PADDED_N)
    old = tl.load(ended_scores + sentence * N + n, mask=n < N, other=none)
    ending = ends & (c < WIDTH)
    new = tl.where(ending, tl.div_rn(totals, penalty), none)
    worst = none
    for i in range(N):
        best_old, best_new = tl.max(old, axis=0), tl.max(new, axis=0)
        at_old, at_new = tl.argmax(old, axis=0), tl.argmax(new, axis=0)
        is_new = best_new > best_old
        worst = tl.maximum(best_old, best_new)
        here, there = sentence * N + i, sentence * N + at_old
        total_new = tl.max(tl.where(c == at_new, totals, none), axis=0)
        row_new = tl.sum(tl.where(c == at_new, rows, 0), axis=0)
        tl.store(new_scores + here, worst)
        tl.store(new_totals + here, tl.where(is_new, total_new, tl.load(ended_totals + there)))
        tl.store(new_lengths + here, tl.where(is_new, tl.load(length), tl.load(ended_lengths + there)))
        tl.store(new_ended_rows + here, tl.where(is_new, row_new.to(tl.int64), tl.load(ended_rows + there)))
        old = tl.where(n == tl.where(is_new, -1, at_old), none, old)
        new = tl.where(c == tl.where(is_new, at_new, -1), none, new)
    count = tl.load(ended_count + sentence) + tl.sum(ending.to(tl.int64), axis=0)
    tl.store(new_count + sentence, count)

    # Live hypotheses: the WIDTH best that do not end. With a beam of one there may be none.
    continues = (ends == 0) & (c < COUNT)
    rank = tl.cumsum(continues.to(tl.int32), axis=0) - 1
    best_live = tl.max(tl.where(continues, totals, none), axis=0)
    hopeless = worst > tl.div_rn(best_live, tl.load(longest + sentence))
    done = tl.where(hopeless, 1, 0) + tl.where(count >= WIDTH, 1, 0) + tl.where(best_live == none, 1, 0)
    tl.store(new_done + sentence, done > 0)
    for i in range(WIDTH):
        this = continues & (rank == i)
        there = tl.sum(this.to(tl.int32), axis=0) > 0
        total_live = tl.max(tl.where(this, totals, none), axis=0)
        row_live = tl.sum(tl.where(this, rows, 0), axis=0)
        token_live = tl.sum(tl.where(this, tokens, 0), axis=0)
        here = sentence * WIDTH + i
        tl.store(new_live + here, tl.where(done > 0, none, total_live))
        tl.store(new_rows + here, tl.where(there, row_live, first_row).to(tl.int64))
        tl.store(new_tokens + here, tl.where(there, token_live, eos).to(tl.int64))


def continue_beams(scores: Tensor, beams: Beams, options: SearchOptions) -> Continued:
    """Scores of the next tokens [B, K, V], float32, on a GPU → the hypotheses after the step, as `beam.continue_beams`
    with `best_candidates`."""
    (sentences, hypotheses, vocabulary), width = scores.shape, options.decoding.beam_size
    blocks, count, n = triton.cdiv(vocabulary, BLOCK), candidate_count(width), options.n_best
    lse, maxima = scores.new_empty(sentences * hypotheses), scores.new_empty(sentences * hypotheses, blocks)
    rows, tokens = (beams.tokens.new_empty(sentences, width) for _ in range(2))
    live, done = beams.live.new_empty(sentences, width), beams.live.new_empty(sentences, dtype=torch.bool)
    old = beams.ended.scores, beams.ended.totals, beams.ended.lengths, beams.ended.rows, beams.ended.count
    new = [torch.empty_like(x) for x in old]
    limits = beams.limits, beams.length, beams.never, options.eos
    fixed = {"HYPOTHESES": hypotheses, "NEVER": len(beams.never), "BLOCK": BLOCK, "num_warps": 8}
    with torch.cuda.device_of(scores):  # type: ignore[no-untyped-call]  # Triton launches on the current device
        _maxima[(len(lse),)](scores, *limits, maxima, lse, vocabulary, blocks, BLOCKS=_BLOCKS, **fixed)
        _continued[(sentences,)](
            scores, maxima, lse, beams.live, *limits, beams.penalties, beams.longest, *old,
            rows, tokens, live, done, *new, vocabulary, blocks, WIDTH=width, COUNT=count, N=n,
            PADDED_BLOCKS=triton.next_power_of_2(blocks), PADDED_HYPOTHESES=triton.next_power_of_2(hypotheses),
            PADDED_COUNT=triton.next_power_of_2(count), PADDED_N=triton.next_power_of_2(n), **fixed,
        )  # fmt: skip
    return Continued(rows, tokens, live, FinishedHypotheses(*new), done)
