"""What may come next in an output: what each step of a search by probabilities begins with.

Shapes: B sentences still searched, K live hypotheses a sentence, V subwords.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.search.interface import LogitsProcessor, Options


class NextToken:
    """The limits and rules of a search's sentences, and what they leave of the model's probabilities."""

    def __init__(self, max_lengths: Tensor, options: Options, rules: Sequence[LogitsProcessor], device: torch.device):
        """max_lengths [B]: the most tokens before EOS, which alone may follow so many."""
        self.limits = max_lengths.to(device)  # [B]
        self.first_limit = int(max_lengths.min())
        self.never = torch.tensor(options.never, dtype=torch.long, device=device)
        self.eos, self.rules = options.eos, rules

    def log_probabilities(self, scores: Tensor, length: int, sentences: slice = slice(None)) -> Tensor:
        """Scores [B', K, V], overwritten → log P of each next token, -inf where it may not come.

        length: tokens that the hypotheses have; sentences: which of the batch these are, all where there are rules.
        """
        # Over the whole vocabulary: what is never produced keeps its share, so that these are the model's own.
        log_p = torch.log_softmax(scores, dim=-1, out=scores)
        log_p.index_fill_(2, self.never, -math.inf)
        if length >= self.first_limit:
            full = self.limits[sentences] <= length  # [B']
            not_eos = torch.arange(log_p.shape[2], device=log_p.device) != self.eos  # [V]
            log_p.masked_fill_(full[:, None, None] & not_eos, -math.inf)
        for rule in self.rules:
            rule.apply(log_p, length)
        return log_p

    def keep(self, sentences: Tensor) -> None:
        """Go on with these sentences of the batch alone (a mask or indices)."""
        self.limits = self.limits[sentences]
        self.first_limit = int(self.limits.min())

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Tell the rules which hypotheses go on, as `LogitsProcessor.follow` has it."""
        for rule in self.rules:
            rule.advance(rows, tokens)
