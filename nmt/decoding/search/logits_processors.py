"""Logits processors, which exclude next tokens of an output.

Shapes: B sentences still searched, B' of them in a slice, K live hypotheses per sentence, V subwords, T tokens so far,
P tokens of the longest prefix.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.search.banned_words import BannedWords
from nmt.decoding.search.decoder_model import LogitsProcessor, SearchOptions
from nmt.device import from_host, runs_ahead

ALL = slice(None)


class NextTokenMask:
    """Excludes all tokens that a search may not choose next: options.never, all tokens but EOS at a sentence's limit,
    and those that the logits processors exclude."""

    def __init__(
        self, max_lengths: Tensor, options: SearchOptions, processors: Sequence[LogitsProcessor], device: torch.device
    ):
        """max_lengths [B]: the most tokens of an output before EOS."""
        self.limits = from_host(max_lengths, device)  # [B]
        self.first_limit = int(max_lengths.min())
        self.never = from_host(torch.tensor(options.never, dtype=torch.long), device)
        self.eos, self.processors = options.eos, processors

    def log_probabilities(self, scores: Tensor, length: int, sentences: slice = ALL) -> Tensor:
        """Scores [B', K, V], overwritten → the model's own log P of each next token; -inf for excluded tokens."""
        # The softmax is over all subwords, also the excluded ones.
        return self.apply(torch.log_softmax(scores, dim=-1, out=scores), length, sentences)

    def apply(self, scores: Tensor, length: int, sentences: slice = ALL) -> Tensor:
        """Set the scores [B', K, V] of excluded next tokens to -inf. The hypotheses have `length` tokens."""
        scores.index_fill_(2, self.never, -math.inf)
        if length >= self.first_limit:
            full = self.limits[sentences] <= length  # [B']
            not_eos = torch.arange(scores.shape[2], device=scores.device) != self.eos  # [V]
            scores.masked_fill_(full[:, None, None] & not_eos, -math.inf)
        for processor in self.processors:
            processor.apply(scores, length, sentences)
        return scores

    def keep(self, sentences: Tensor) -> None:
        """Continue with these sentences (indices) only."""
        self.limits = self.limits[sentences]
        if not runs_ahead(self.limits.device):  # a GPU would have to be waited for; the old value is never too large
            self.first_limit = int(self.limits.min())

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Tell the processors which hypotheses the search continues with (see `LogitsProcessor.advance`)."""
        for processor in self.processors:
            processor.advance(rows, tokens)


def build(
    options: SearchOptions, shortest: Sequence[int], prefixes: Sequence[Sequence[int]], device: torch.device
) -> list[LogitsProcessor]:
    """The logits processors for a batch of sentences; an empty list if no token is excluded.

    shortest: for each sentence the lowest number of tokens of an output; prefixes: the tokens that outputs begin with.
    """
    processors: list[LogitsProcessor] = []
    if any(shortest):
        processors.append(MinLength(torch.tensor(shortest, device=device), options.eos))
    if options.decoding.no_repeat_ngram is not None:
        processors.append(NoRepeatNgram(options.decoding.no_repeat_ngram, len(prefixes), device))
    if options.decoding.banned and options.banned_words is not None:
        processors.append(NoBannedWords(options.banned_words, len(prefixes), device))
    return [ForcedPrefix(prefixes, processors, device)] if any(prefixes) else processors


class MinLength:
    """Excludes EOS until an output has its sentence's lowest number of tokens, [B]."""

    def __init__(self, lengths: Tensor, eos: int):
        self.lengths, self.eos, self.hypotheses = lengths, eos, 1

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        scores[:, :, self.eos].masked_fill_((self.lengths[sentences] > length)[:, None], -math.inf)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        self.lengths, self.hypotheses = self.lengths[rows[:, 0] // self.hypotheses], tokens.shape[1]


class NoRepeatNgram:
    """Excludes tokens that would repeat an n-gram of the output."""

    def __init__(self, n: int, sentences: int, device: torch.device):
        self.n = n
        self.history = torch.zeros(sentences, 1, 0, dtype=torch.long, device=device)  # [B, K, T]

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        if length < self.n:
            return
        history = self.history[sentences]
        windows = history.unfold(2, self.n, 1)  # [B', K, T-n+1, n]
        newest = history[:, :, None, length - self.n + 1 :]  # [B', K, 1, n-1]: the next token completes its n-gram
        matches = (windows[..., :-1] == newest).all(dim=3)
        vocabulary = scores.shape[2]
        repeats = scores.new_zeros(*scores.shape[:2], vocabulary + 1, dtype=torch.bool)  # the last: of no token
        repeats.scatter_(2, windows[..., -1].masked_fill(~matches, vocabulary), True)
        scores.masked_fill_(repeats[:, :, :vocabulary], -math.inf)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        self.history = torch.cat([self.history.flatten(0, 1)[rows], tokens[:, :, None]], dim=2)


class NoBannedWords:
    """Excludes tokens that would complete a banned word."""

    def __init__(self, words: BannedWords, sentences: int, device: torch.device):
        self.words, self.states = words, torch.full((sentences, 1), words.start, device=device)  # [B, K]

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        states = self.states[sentences]
        for state in set(states.flatten().tolist()):
            completing = self.words.completing(state)
            if completing is not None:
                rows = states == state
                scores[rows] = scores[rows].masked_fill(completing.to(scores.device), -math.inf)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        old = self.states.flatten()[rows]
        new = [self.words.after(*pair) for pair in zip(old.flatten().tolist(), tokens.flatten().tolist(), strict=True)]
        self.states = torch.tensor(new, device=old.device).view(old.shape)


class ForcedPrefix:
    """Makes outputs begin with a prefix, even if the other processors exclude its tokens. The other processors apply to
    the rest."""

    def __init__(self, prefixes: Sequence[Sequence[int]], others: Sequence[LogitsProcessor], device: torch.device):
        longest = max(map(len, prefixes), default=0)
        padded = [[*prefix, *[-1] * (longest - len(prefix))] for prefix in prefixes]
        self.prefixes = torch.tensor(padded, dtype=torch.long, device=device)  # [B, P], -1 after a prefix
        self.others, self.hypotheses = others, 1

    def apply(self, scores: Tensor, length: int, sentences: slice) -> None:
        if length >= self.prefixes.shape[1]:
            for processor in self.others:
                processor.apply(scores, length, sentences)
            return
        forced = self.prefixes[sentences, length]  # [B']
        has_forced = (forced >= 0)[:, None, None]
        index = forced.clamp(min=0)[:, None, None].expand(-1, scores.shape[1], 1)
        forced_scores = scores.gather(2, index)
        for processor in self.others:
            processor.apply(scores, length, sentences)
        scores.masked_fill_(has_forced, -math.inf)
        scores.scatter_(2, index, torch.where(has_forced, forced_scores, scores.gather(2, index)))

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        self.prefixes, self.hypotheses = self.prefixes[rows[:, 0] // self.hypotheses], tokens.shape[1]
        for processor in self.others:
            processor.advance(rows, tokens)
