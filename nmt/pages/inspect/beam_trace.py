"""Records a beam search step by step: every hypothesis that it considers, and what happens to it.

The recorder is a logits processor that changes nothing: a search shows its processors the log P of the next tokens and
tells them which hypotheses it continues. A search without a recorder costs nothing extra.

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

# kept: one of the K that the search continued; finished: ended, as one of the K best; dropped: neither; open: it would
# have been continued, but the search was over.
Fate = Literal["kept", "finished", "dropped", "open"]


@dataclass
class Node:
    """A hypothesis that a search considered: its parent and one more token."""

    parent: int | None  # index in the list of nodes; None for the empty hypothesis
    step: int  # number of tokens, with EOS
    token: int
    log_p: float  # of the token given those before
    total: float  # log P of all tokens
    score: float  # total over the length penalty
    fate: Fate = "dropped"


class Recorder:
    """The nodes of one search of one sentence. It is the last logits processor of the search."""

    def __init__(self, options: SearchOptions):
        self.options = options
        self.nodes: list[Node] = []
        self._live = torch.zeros(1, 1)  # [1, K]: log P so far; -inf: unused place of the beam
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
        for at in self._open():
            self.nodes[at].fate = "dropped"  # the continued ones are changed below
        # A hypothesis that is not a candidate has probability 0: it is an unused place of the beam.
        self._parents = [self._candidates.get(at) for at in zip(rows[0].tolist(), tokens[0].tolist(), strict=True)]
        for place in self._parents:
            if place is not None:
                self.nodes[place].fate = "kept"
        totals = [-math.inf if place is None else self.nodes[place].total for place in self._parents]
        self._live = torch.tensor([totals], dtype=torch.float64)

    def _open(self) -> list[int]:
        return [place for place in self._candidates.values() if self.nodes[place].fate == "open"]


def tokens_of(nodes: Sequence[Node], place: int) -> list[int]:
    """The tokens of a node's hypothesis."""
    tokens: list[int] = []
    at: int | None = place
    while at is not None:
        tokens.append(nodes[at].token)
        at = nodes[at].parent
    return tokens[::-1]


class RecordingEngine(PyTorchEngine):
    """Searches one sentence at a time, and keeps the nodes and hypotheses of the latest search."""

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
