"""The search that the options ask for."""

from torch import Tensor

from nmt.decoding.beam import beam_search
from nmt.decoding.greedy import greedy
from nmt.decoding.hypothesis import Hypothesis, Memory, Options, State, Stepper


def search(
    stepper: Stepper[Memory, State], source: Tensor, max_lengths: Tensor, options: Options
) -> list[list[Hypothesis]]:
    """The best outputs found for each sentence, best first; fewer than n_best where fewer ended.

    source [B, S]; max_lengths [B]: the most tokens before EOS.
    """
    find = greedy if options.beam_size == 1 else beam_search
    return find(stepper, source, max_lengths, options)
