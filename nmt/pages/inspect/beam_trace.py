"""Records a beam search step by step: every hypothesis that the search considers, and what happens to it.

The recorder is a logits processor that changes nothing. A search passes the log P of the next tokens to its processors,
and tells them which hypotheses it continues. A search without a recorder has no extra cost.

Shapes: K live hypotheses, V subwords, C candidates of a step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from nmt.decoding.engine import PyTorchEngine
from nmt.decoding.engine_protocol import SearchInput
from nmt.decoding.search.candidates import best_candidates, candidate_count
from nmt.decoding.search.decoder_model import Hypothesis, LogitsProcessor, SearchOptions, length_penalties

# kept: one of the K hypotheses that the search continued; finished: ended, and among the K best; dropped: neither;
# open: would have been continued, but the search ended.
Fate = Literal["kept", "finished", "dropped", "open"]


@dataclass
class Node:
    """A hypothesis that a search considered: its parent and one more token."""

    parent: int | None  # index in the list of nodes; None for the empty hypothesis
    step: int  # number of tokens, with EOS
    token: int
    log_p: float  # of the token, given the previous tokens
    total: float  # log P of all tokens
    score: float  # total over the length penalty
    fate: Fate = "dropped"


class Recorder:
    """Records the nodes of one search of one sentence. It is the last logits processor of the search."""

    def __init__(self, options: SearchOptions):
        self.options = options
        self.nodes: list[Node] = []
        self._live = torch.zeros(1, 1)  # [1, K]: log P so far; -inf: unused row of the beam
        self._parents: list[int | None] = [None]  # nodes of the live hypotheses
        self._candidates: dict[tuple[int, int], int] = {}  # in the latest step: (hypothesis, token) → node

    def apply(self, log_p: Tensor, length: int, sentences: slice) -> None:
        """Record the best C candidates. Raises ValueError for several sentences at once."""
        if len(log_p) != 1:
            raise ValueError(f"a recorder can follow one sentence, not {len(log_p)}")
        size = self.options.decoding.beam_size
        live = self._live.to(log_p)
        best = best_candidates(log_p, live, candidate_count(size))
        penalty = length_penalties(length + 1, self.options.decoding)[-1]
        self._candidates = {}
        for rank, (total, row, token) in enumerate(zip(*(column[0].tolist() for column in best), strict=True)):
            if total == -math.inf:
                break
            ends = token == self.options.eos
            fate: Fate = "dropped" if ends or len(self._open()) >= size else "open"
            if ends and rank < size:
                fate = "finished"
            self._candidates[row, token] = len(self.nodes)
            token_log_p = float(log_p[0, row, token])
            self.nodes.append(Node(self._parents[row], length + 1, token, token_log_p, total, total / penalty, fate))

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        """Record the candidates that the search continues: their hypotheses and tokens, [1, K] each."""
        for i in self._open():
            self.nodes[i].fate = "dropped"  # continued hypotheses become "kept" below
        # A hypothesis that is not a candidate has probability 0: its row of the beam is unused.
        candidates = zip(rows[0].tolist(), tokens[0].tolist(), strict=True)
        self._parents = [self._candidates.get(candidate) for candidate in candidates]
        totals = list[float]()
        for parent in self._parents:
            if parent is not None:
                self.nodes[parent].fate = "kept"
            totals.append(-math.inf if parent is None else self.nodes[parent].total)
        self._live = torch.tensor([totals], dtype=torch.float64)

    def _open(self) -> list[int]:
        """The indices of open nodes."""
        return [i for i in self._candidates.values() if self.nodes[i].fate == "open"]


def hypothesis_tokens(nodes: Sequence[Node], i: int) -> list[int]:
    """The tokens of the hypothesis of node i."""
    tokens: list[int] = []
    node: int | None = i
    while node is not None:
        tokens.append(nodes[node].token)
        node = nodes[node].parent
    return tokens[::-1]


class RecordingEngine(PyTorchEngine):
    """An engine that searches one sentence at a time, and stores the nodes and hypotheses of the last search."""

    nodes: list[Node]
    hypotheses: list[Hypothesis]

    def search(
        self, sources: Sequence[SearchInput], options: SearchOptions, batch_tokens: int
    ) -> list[list[Hypothesis]]:
        results = super().search(sources, options, batch_tokens)
        [self.hypotheses] = results
        return results

    def _processors(self, batch: list[SearchInput], options: SearchOptions) -> list[LogitsProcessor]:
        recorder = Recorder(options)
        self.nodes = recorder.nodes
        return [*super()._processors(batch, options), recorder]
