"""How much of a step one device computes at once: training.micro_batch_tokens, or what fits into memory."""

import logging
from pathlib import Path

import numpy as np

from nmt.config.schema import TrainingConfig
from nmt.data.token_store import TokenStore
from nmt.distributed.ranks import Ranks
from nmt.training import memory, state
from nmt.training.objective import Objective

log = logging.getLogger("nmt")


def micro_batch_tokens(
    training: TrainingConfig, run: Path, pairs: TokenStore, objective: Objective, ranks: Ranks
) -> int:
    """The most padded tokens of one side that a device gets at once, to train on these pairs. Collective.

    run: the run's folder; a resumed run keeps what `auto` chose when it was started.
    Raises NmtError where a CPU has too little memory for the number that is set, or where nothing fits with `auto`.
    """
    budget, wanted = training.batch_tokens, training.micro_batch_tokens
    longer_side = np.maximum(pairs.source.lengths, pairs.target.lengths)
    longer_side = longer_side[longer_side <= budget]  # longer pairs are in no batch
    if wanted == "auto":
        longest = int(longer_side.max(initial=1))
        chosen = ranks.broadcast(_chosen_before(run, ranks) if ranks.first else 0)
        return memory.micro_batch_cells(objective, budget, longest, ranks, chosen)
    tokens = min(wanted or budget, budget)
    if next(objective.parameters()).device.type == "cpu":
        share = -(-budget // ranks.size)  # a rank's part of a step
        memory.check_step(training, objective, min(tokens, share), longer_side, ranks.local_size)
    return tokens


def _chosen_before(run: Path, ranks: Ranks) -> int:
    """What `auto` chose when the run to be resumed was started with the same number of ranks; otherwise 0."""
    saved = state.saved(run)
    if saved is None or not saved[1].micro_cells:
        return 0
    _, progress = saved
    if progress.ranks == ranks.size:
        return progress.micro_cells
    log.info(
        "training.micro_batch_tokens: auto: %s tokens for %s ranks when the run was started; chosen again for %s",
        *(f"{progress.micro_cells:,}", progress.ranks, ranks.size),
    )
    return 0
