"""Calls the search algorithm that the options name."""

from collections.abc import Sequence
from typing import assert_never

from torch import Tensor

from nmt.decoding.search.beam import beam_search
from nmt.decoding.search.decoder_model import (
    DecoderModel,
    FixedStepModel,
    Hypothesis,
    LogitsProcessor,
    SearchOptions,
)
from nmt.decoding.search.greedy import greedy
from nmt.decoding.search.recorded_beam import recorded_beam_search
from nmt.decoding.search.sampling import sample
from nmt.decoding.search.step_graphs import StepGraphs


def search(
    model: DecoderModel,
    source: Tensor,
    max_lengths: Tensor,
    options: SearchOptions,
    processors: Sequence[LogitsProcessor] = (),
    seeds: Sequence[int] = (),
    starts: Tensor | None = None,
    graphs: StepGraphs | None = None,
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence, best first; fewer than n_best if fewer are finished.

    source [B, S]; max_lengths [B]: the most tokens before EOS; seeds: for sampling, one for each sentence; starts
    [B, N]: the tokens between BOS and each output. graphs: of this model, to run the steps of searches that can use
    them.
    """
    match options.decoding.method:
        case "sample":
            return sample(model, source, max_lengths, options, seeds, processors, starts)
        case "beam" if graphs is not None and not processors and isinstance(model, FixedStepModel):
            return recorded_beam_search(model, source, max_lengths, options, graphs, starts)
        case "beam":
            find = greedy if options.decoding.beam_size == 1 else beam_search
            return find(model, source, max_lengths, options, processors, starts)
        case _:
            assert_never(options.decoding.method)
