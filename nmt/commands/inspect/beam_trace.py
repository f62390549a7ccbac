"""What a beam search does, step by step: every hypothesis that it looks at, and what becomes of it.

Recorded by a rule that forbids nothing: a search shows its rules what it chooses among and tells them what it goes on
with, and is the same as without it. A search that is not recorded pays nothing.

Shapes: K live hypotheses, V subwords, C candidates of a step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nmt.decoding.engine import PyTorchEngine, SearchInput
from nmt.decoding.search.candidates import best_candidates, candidate_count
from nmt.decoding.search.interface import Hypothesis, LogitsProcessor, Options, length_penalties

# kept: among the K that live on; finished: it ended, among the K best; dropped: looked at, and not among either;
# open: among the K that would have lived on when the search was over.
Fate = Literal["kept", "finished", "dropped", "open"]


@dataclass
class Node:
    """A hypothesis that a search looked at: `parent` (a place in the list of nodes; None: the empty one) and a token.

    step: its tokens, EOS too; log_p: log P of the token given those before; total: log P of all; score: total over
    the length penalty.
    """

    parent: int | None
    step: int
    token: int
    log_p: float
    total: float
    score: float
    fate: Fate = "dropped"


class Recorder:
    """The nodes of the latest search of one sentence; the last of its rules, which takes no token away."""

    def __init__(self, options: Options):
        self.options = options
        self.nodes: list[Node] = []
        self._begin()

    def _begin(self) -> None:
        self.nodes.clear()
        self._live = torch.zeros(1, 1)  # [1, K]: log P so far; -inf: not live
        self._parents: list[int | None] = [None]  # of the live hypotheses: their nodes
        self._candidates: dict[tuple[int, int], int] = {}  # of the newest step: (hypothesis, token) → node

    def apply(self, log_p: Tensor, length: int, sentences: slice) -> None:
        """Note the best C candidates. Raises ValueError for several sentences at once."""
        if len(log_p) != 1:
            raise ValueError(f"a recorder follows one sentence, not {len(log_p)}")
        if length == 0:
            self._begin()
        size = self.options.beam_size
        live = self._live.to(log_p)
        found = best_candidates(log_p, live, candidate_count(size))
        penalty = float(length_penalties(length + 1, self.options)[-1])
        self._candidates = {}
        for rank, (total, row, token) in enumerate(zip(*(column[0].tolist() for column in found), strict=True)):
            if total == -math.inf:
                break
            ends = token == self.options.eos
            fate: Fate = "dropped" if ends or len(self._going()) >= size else "open"
            if ends and rank < size:
                fate = "finished"
            self._candidates[row, token] = len(self.nodes)
            own = float(log_p[0, row, token])
            self.nodes.append(Node(self._parents[row], length + 1, token, own, total, total / penalty, fate))

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Of the candidates, those that the search goes on with, [1, K]."""
        for at in self._going():
            self.nodes[at].fate = "dropped"  # until the search says otherwise
        # What is not among the candidates has no probability: a place of the beam that stays empty.
        self._parents = [self._candidates.get(at) for at in zip(rows[0].tolist(), tokens[0].tolist(), strict=True)]
        for place in self._parents:
            if place is not None:
                self.nodes[place].fate = "kept"
        totals = [-math.inf if place is None else self.nodes[place].total for place in self._parents]
        self._live = torch.tensor([totals], dtype=torch.float64)

    def _going(self) -> list[int]:
        return [place for place in self._candidates.values() if self.nodes[place].fate == "open"]


def tokens_of(nodes: Sequence[Node], place: int) -> list[int]:
    """The tokens of a node's hypothesis, from the first one."""
    tokens: list[int] = []
    at: int | None = place
    while at is not None:
        tokens.append(nodes[at].token)
        at = nodes[at].parent
    return tokens[::-1]


class RecordingEngine(PyTorchEngine):
    """Our own search, one sentence at a time, which remembers the latest: its `nodes` and what it `found`."""

    nodes: list[Node]
    found: list[Hypothesis]

    def search(self, sources: Sequence[SearchInput], options: Options, batch_tokens: int) -> list[list[Hypothesis]]:
        found = super().search(sources, options, batch_tokens)
        [self.found] = found
        return found

    def _rules(self, batch: list[SearchInput], options: Options) -> list[LogitsProcessor]:
        recorder = Recorder(options)
        self.nodes = recorder.nodes
        return [*super()._rules(batch, options), recorder]
