"""What an output may not hold: rules that take tokens away before search chooses among them.

Shapes: B sentences still searched, K live hypotheses a sentence, V subwords, T tokens so far, P of a prefix.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from nmt.decoding.search.banned_words import Words
from nmt.decoding.search.interface import LogitsProcessor

_FORBIDDEN = -math.inf


class Shortest:
    """No end before a sentence's shortest length [B], EOS not counted."""

    def __init__(self, shortest: Tensor, eos: int):
        self.shortest, self.eos, self.hypotheses = shortest, eos, 1

    def apply(self, log_p: Tensor, length: int) -> None:
        log_p[:, :, self.eos].masked_fill_((self.shortest > length)[:, None], _FORBIDDEN)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        self.shortest, self.hypotheses = self.shortest[rows[:, 0] // self.hypotheses], tokens.shape[1]


class NoRepeat:
    """No n-gram of tokens twice in an output."""

    def __init__(self, n: int, sentences: int, device: torch.device):
        self.n = n
        self.history = torch.zeros(sentences, 1, 0, dtype=torch.long, device=device)  # [B, K, T]

    def apply(self, log_p: Tensor, length: int) -> None:
        if length < self.n:
            return
        windows = self.history.unfold(2, self.n, 1)  # [B, K, T-n+1, n]
        newest = self.history[:, :, None, length - self.n + 1 :]  # [B, K, 1, n-1]: what the next token goes with
        again = (windows[..., :-1] == newest).all(dim=3)
        nowhere = log_p.shape[2]
        hits = log_p.new_zeros(*log_p.shape[:2], nowhere + 1, dtype=torch.bool)
        hits.scatter_(2, windows[..., -1].masked_fill(~again, nowhere), True)
        log_p.masked_fill_(hits[:, :, :nowhere], _FORBIDDEN)

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        self.history = torch.cat([self.history.flatten(0, 1)[rows], tokens[:, :, None]], dim=2)


class Banned:
    """No output that holds one of some words."""

    def __init__(self, words: Words, sentences: int, device: torch.device):
        self.words, self.states = words, torch.full((sentences, 1), words.start, device=device)  # [B, K]

    def apply(self, log_p: Tensor, length: int) -> None:
        for state in set(self.states.flatten().tolist()):
            completing = self.words.completing(state)
            if completing is not None:
                log_p[self.states == state] = log_p[self.states == state].masked_fill(
                    completing.to(log_p.device), _FORBIDDEN
                )

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        old = self.states.flatten()[rows]
        new = [self.words.after(*pair) for pair in zip(old.flatten().tolist(), tokens.flatten().tolist(), strict=True)]
        self.states = torch.tensor(new, device=old.device).view(old.shape)


class Prefix:
    """Outputs begin with given tokens, whatever the other rules say of these; the rules hold for what follows."""

    def __init__(self, prefixes: Sequence[Sequence[int]], others: Sequence[LogitsProcessor], device: torch.device):
        longest = max(map(len, prefixes), default=0)
        padded = [[*prefix, *[-1] * (longest - len(prefix))] for prefix in prefixes]
        self.prefixes = torch.tensor(padded, dtype=torch.long, device=device)  # [B, P], -1 behind a prefix
        self.others, self.hypotheses = others, 1

    def apply(self, log_p: Tensor, length: int) -> None:
        if length >= self.prefixes.shape[1]:
            for rule in self.others:
                rule.apply(log_p, length)
            return
        forced = self.prefixes[:, length]  # [B]
        given = (forced >= 0)[:, None, None]
        place = forced.clamp(min=0)[:, None, None].expand(-1, log_p.shape[1], 1)
        own = log_p.gather(2, place)
        for rule in self.others:
            rule.apply(log_p, length)
        log_p.masked_fill_(given, _FORBIDDEN)
        log_p.scatter_(2, place, torch.where(given, own, log_p.gather(2, place)))

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        self.prefixes, self.hypotheses = self.prefixes[rows[:, 0] // self.hypotheses], tokens.shape[1]
        for rule in self.others:
            rule.advance(rows, tokens)
