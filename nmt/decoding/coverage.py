"""The coverage penalty: prefers outputs that attend to all of the source (Wu et al. 2016, equation 14)."""

import dataclasses
import math
from collections.abc import Sequence

from nmt.decoding.search.interface import Hypothesis


def rank(found: Sequence[Hypothesis], alignments: Sequence[list[list[float]]], beta: float) -> list[Hypothesis]:
    """Hypotheses of one sentence, each score with β · Σ_i log(min(Σ_j p_ij, 1)) added, best first.

    alignments: for each hypothesis p[j][i], how much its token j attends to source token i.
    """
    scored = []
    for hypothesis, rows in zip(found, alignments, strict=True):
        covered = [math.fsum(column) for column in zip(*rows, strict=True)]
        penalty = beta * math.fsum(math.log(min(max(share, 1e-30), 1.0)) for share in covered)
        scored.append(dataclasses.replace(hypothesis, score=hypothesis.score + penalty))
    return sorted(scored, key=lambda hypothesis: -hypothesis.score)
