"""Steps of beam search chosen by Triton kernels: on a GPU, or, as a program of its own, by Triton's interpreter.

`python -m helpers.search_kernels RESULTS`, with TRITON_INTERPRET=1: the interpreter has to be chosen before Triton is
imported.
"""

import dataclasses
import math
import sys
from pathlib import Path
from typing import Any

import torch
from helpers.tables import OPTIONS, changed
from torch import Tensor

from nmt.decoding.search.beam import Beams, Continued, FinishedHypotheses
from nmt.decoding.search.decoder_model import length_penalty_tensor
from nmt.decoding.search.recorded_beam import BeamStepper

SENTENCES, LENGTH = 4, 4
# beam size, hypotheses before the step, vocabulary, n_best
CASES = [(1, 1, 70, 1), (3, 1, 64, 1), (3, 3, 200, 3), (2, 2, 7, 2), (1, 1, 4200, 1)]


def case(beam_size: int, hypotheses: int, vocabulary: int, n_best: int) -> tuple[BeamStepper, Tensor, Beams]:
    """Random scores and beams. Sentence 0 has a row with NaN, 1 may only end, 2 ends with a high probability, and 3 has
    one live hypothesis, with few possible tokens."""
    generator = torch.Generator().manual_seed(beam_size)
    scores = 3 * torch.randn(SENTENCES, hypotheses, vocabulary, generator=generator)
    scores[0, -1, 5] = math.nan
    scores[2, :, 3] += 6
    scores[3, :, 6:] = -math.inf
    if vocabulary > 4096:  # more than a program reads at once: the greatest score comes later, or all possible ones
        scores[0] = 2.0
        scores[0, :, 4150] = 9.0
        scores[2, :, :4096] = -math.inf
    live = -torch.rand(SENTENCES, hypotheses, generator=generator).cumsum(1)
    live[3, 1:] = -math.inf
    ended = FinishedHypotheses.empty(SENTENCES, n_best, live.device)
    if hypotheses > 1:
        found = -torch.rand(SENTENCES, n_best, generator=generator).cumsum(1)
        lengths = torch.randint(0, LENGTH, found.shape, generator=generator)
        ended = FinishedHypotheses(found, 2 * found, lengths, lengths + 1, torch.tensor([n_best] * SENTENCES))
    options = changed(OPTIONS, beam_size=beam_size, n_best=n_best)
    penalties, limits = length_penalty_tensor(40, options.decoding), torch.tensor([9, LENGTH, 9, 20])
    length, longest, never = torch.tensor([LENGTH]), penalties[limits + 1], torch.tensor(options.never)
    beams = Beams(None, torch.zeros_like(live).long(), live, ended, length, limits, longest, penalties, never)
    return BeamStepper(None, options), scores, beams  # type: ignore[arg-type]


def computed(step: BeamStepper, scores: Tensor, beams: Beams) -> Continued:
    """What the kernels compute."""
    from nmt.decoding.search import beam_kernels

    return beam_kernels.continue_beams(scores, beams, step.options)


def norm_inputs() -> list[Tensor]:
    """x and y [5, 40], weight and bias."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator) for shape in ((5, 40), (5, 40), (40,), (40,))]


def normalized(inputs: list[Tensor]) -> Tensor:
    from nmt.models.triton_norm import normalized_sum

    return normalized_sum(*inputs, 1e-5)


def main(results: Path) -> None:
    found: dict[Any, Any] = {"norm": normalized(norm_inputs())}
    for arguments in CASES:
        continued = computed(*case(*arguments))
        found[arguments] = continued._asdict() | {"ended": dataclasses.asdict(continued.ended)}
    torch.save(found, results)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
