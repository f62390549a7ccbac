"""Greedy search: the likeliest token at each step, straight on."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch import Tensor

from nmt.decoding.search.interface import BLOCK, DROP_SHARE, Hypothesis, Memory, Options, State, Stepper, spelled


@torch.inference_mode()
def greedy(
    stepper: Stepper[Memory, State], source: Tensor, max_lengths: Tensor, options: Options
) -> list[list[Hypothesis]]:
    """The output of each sentence that `beam_search` finds with a beam of one, in half the time.

    Without options.scores the probabilities are not computed: those of the hypotheses are 0.
    """
    if not len(source):
        return []
    sentences, limits = torch.arange(len(source), device=source.device), max_lengths.to(source.device)  # [B]
    never = torch.tensor(options.never, dtype=torch.long, device=source.device)
    steps: list[tuple[Tensor, Tensor, Tensor]] = []  # of each: sentences, their tokens, log P of these
    first_limit, tokens = int(max_lengths.min()), torch.full_like(sentences, options.bos)
    state = stepper.start(stepper.encode(source))
    for length in itertools.count():  # tokens that each output has
        hidden, state = stepper.step(state, tokens[:, None])
        scores = stepper.scores(hidden)[:, 0]  # [B, V]
        if options.scores:  # over the whole vocabulary, as these are to be the model's own
            torch.log_softmax(scores, dim=-1, out=scores)
        best, tokens = _likeliest(scores.index_fill_(1, never, -math.inf))  # [B]
        if length >= first_limit:
            full = limits <= length
            best = torch.where(full, scores[:, options.eos], best)
            tokens.masked_fill_(full, options.eos)
        lost = best == -math.inf
        tokens.masked_fill_(lost, options.eos)
        # What has ended writes on behind its end, where nobody looks, until it leaves.
        steps.append((sentences, tokens, best if options.scores else torch.where(lost, best, 0.0)))
        going = tokens != options.eos
        left = int(going.sum())
        if not left:
            return _spelled(steps, len(source), options)
        if (len(going) - left) * DROP_SHARE >= len(going):
            rows = going.nonzero()  # [B', 1]
            state, kept = stepper.reorder(state, rows), rows[:, 0]
            sentences, limits, tokens = sentences[kept], limits[kept], tokens[kept]
            first_limit = int(limits.min())
    raise AssertionError("every output ends at its limit")


def _spelled(steps: list[tuple[Tensor, Tensor, Tensor]], sentences: int, options: Options) -> list[list[Hypothesis]]:
    """The output of each sentence; steps: the sentences that it was made for, their tokens and log P, [B] each."""
    _, tokens, log_p = steps[0]
    outputs = tokens.new_full((sentences, 1, len(steps)), options.eos)
    scores = log_p.new_zeros(outputs.shape)
    for step, (those, tokens, log_p) in enumerate(steps):
        outputs[those, 0, step], scores[those, 0, step] = tokens, log_p
    return spelled(outputs, scores, options)


def _likeliest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Scores [B, V] → the greatest of each row and where it stands, [B] each; NaN counts as -inf.

    By blocks: looking for a maximum without its place is several times as fast as with it.
    """
    rows, vocabulary = scores.shape
    if vocabulary % BLOCK:
        scores = F.pad(scores, (0, -vocabulary % BLOCK), value=-math.inf)
    blocks = scores.view(rows, -1, BLOCK)
    maxima = blocks.amax(dim=2).nan_to_num(nan=-math.inf, neginf=-math.inf)  # [B, G]
    chosen = maxima.argmax(dim=1)
    first = blocks.shape[1] * torch.arange(rows, device=scores.device)
    inside = blocks.view(-1, BLOCK).index_select(0, chosen + first).nan_to_num(nan=-math.inf, neginf=-math.inf)
    best, place = inside.max(dim=1)
    return best, chosen * BLOCK + place
