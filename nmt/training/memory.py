"""How much of a step one device computes at once, and whether it fits into memory: training.micro_batch_tokens.

Tokens are those of the longer side, padding included.
"""

import logging
import os
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import Parameter
from torch.profiler import ProfilerActivity, profile

from nmt.config.schema import Config, TrainingConfig
from nmt.data.batches.packing import pack
from nmt.data.batches.padding import collate_pairs
from nmt.data.batches.token_store import TokenStore
from nmt.data.subwords.vocabulary import EOS, PAD, Vocabulary
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.machine import available_host_memory
from nmt.models import build
from nmt.training import freezing, state
from nmt.training.objective import Objective, run_passes
from nmt.training.progress import Progress

log = logging.getLogger("nmt")

# Of the memory that is free at the start. Shapes that vary fragment the rest; on a GPU, validation needs some too, and
# cannot use what a CUDA graph keeps.
_CPU_SHARE, _GPU_SHARE = 0.9, 0.8
_PROBE_TOKENS = 2048  # size of the small batches measured on the CPU, where running out of memory kills the process


def micro_batch_tokens(
    training: TrainingConfig, run: Path, pairs: TokenStore, objective: Objective, ranks: Ranks
) -> int:
    """The most tokens that a device gets at once, to train on these pairs. Collective.

    run: the run's folder; a resumed run keeps what `auto` chose when it was started.
    Raises NmtError where a CPU has too little memory for the number that is set, or where nothing fits with `auto`.
    """
    budget, wanted = training.batch_tokens, training.micro_batch_tokens
    longer_side = np.maximum(pairs.source.lengths, pairs.target.lengths)
    longer_side = longer_side[longer_side <= budget]  # longer pairs are in no batch
    if wanted == "auto":
        chosen = ranks.broadcast(_chosen_before(run, ranks) if ranks.first else 0)
        return largest_micro_batch(objective, budget, int(longer_side.max(initial=1)), ranks, chosen)
    tokens = min(wanted or budget, budget)
    if next(objective.parameters()).device.type == "cpu":
        share = -(-budget // ranks.size)  # a rank's part of a step
        check_step(training, objective, min(tokens, share), longer_side, ranks.local_size)
    return tokens


def _chosen_before(run: Path, ranks: Ranks) -> int:
    """What `auto` chose when the run to be resumed was started with the same number of ranks; otherwise 0."""
    _, before = state.saved(run) or (None, Progress())
    if before.auto_micro_batch_tokens == 0 or before.ranks == ranks.size:
        return before.auto_micro_batch_tokens
    log.info(
        "training.micro_batch_tokens: auto: %s tokens for %s ranks when the run was started; chosen again for %s",
        *(f"{before.auto_micro_batch_tokens:,}", before.ranks, ranks.size),
    )
    return 0


def largest_micro_batch(objective: Objective, batch_tokens: int, longest: int, ranks: Ranks, chosen: int = 0) -> int:
    """The largest micro-batch, in tokens, that fits: `batch_tokens` divided by a whole number, rounded up.

    longest: the longer side of the longest pair, at most `batch_tokens`. The passes are tried with pairs of that length
    on both sides: no batch of the corpus needs more. On a GPU they are run; on a CPU their memory is estimated from a
    small batch. All ranks get the smallest result. Raises NmtError if not even the longest pair fits.
    chosen: the result when the run began, or 0. It does not change on resuming, because dropout's masks depend on how
    a step is divided; there is only a warning if it does not fit into the memory that is free now.
    """
    on_gpu = next(objective.parameters()).device.type == "cuda"
    fits = _runs(objective, longest) if on_gpu else _estimate(objective, longest, ranks.local_size)
    if chosen:
        log.info("training.micro_batch_tokens: auto: %s padded tokens, as when the run began", f"{chosen:,}")
        if ranks.all_reduce_max_async(lambda: int(not fits(chosen)))():
            log.warning(
                "training.micro_batch_tokens: auto: these may not fit into the memory that is free now: free some "
                "memory, or set a smaller number (results are then not equal bit for bit)"
            )
        return chosen

    def size_of(parts: int) -> int:
        return max(longest, -(-batch_tokens // parts))

    most = -(-batch_tokens // longest)  # parts: each of them holds the longest pair only
    fewest = bisect_left(range(1, most + 1), True, key=lambda parts: fits(size_of(parts))) + 1
    fewest = ranks.all_reduce_max_async(lambda: fewest)()
    if fewest > most:
        raise NmtError(
            f"training.micro_batch_tokens: auto: one pair of {longest} subwords does not fit into this device's "
            "memory: lower data.max_length, or set training.activation_checkpointing: true"
        )
    share = ", a complete step" if fewest == 1 else f", {fewest} to a step"
    if ranks.size > 1:
        share = f" at most on each of {ranks.size} ranks"
    log.info("training.micro_batch_tokens: auto: %s padded tokens%s", f"{size_of(fewest):,}", share)
    return size_of(fewest)


def check_step(
    training: TrainingConfig, objective: Objective, tokens: int, longer: NDArray[Any], ranks_here: int
) -> None:
    """Raises NmtError if a micro-batch of this size needs more memory than this CPU has left for a rank.

    longer: the longer side of each pair [N]. Memory is measured only if the model's upper bound does not fit: on small
    batches of pairs as long as those that fill most of a step.
    """
    if not len(longer):  # no pair fits into a batch, as `Batches` reports
        return
    tokens = min(tokens, int(longer.sum(dtype=np.int64)))  # a batch cannot be larger than the data
    trained = _trained_bytes(objective)
    free = available_memory() // ranks_here - 3 * trained  # room for gradients and two moments
    most = objective.model.activation_bytes(tokens, int(longer.max()))
    packed = objective.model.packed_bytes(training.passes * tokens) if objective.packed else 0
    if most is not None and training.passes * most + packed <= free:
        return
    length = max(1, round(float((longer.astype(np.float64) ** 2).sum() / longer.sum(dtype=np.int64))))
    few = max(1, min(_PROBE_TOKENS, tokens // 2) // length) * length
    log.info("training: measuring on small batches whether a step of %s padded tokens fits into memory", f"{tokens:,}")
    _passes(objective, few, length)  # allocates what is kept
    once, twice = (peak_bytes(objective, count, length) for count in (few, 2 * few))
    need = once - trained + (tokens - few) * (twice - once) / few + packed
    if need > free:
        key = "batch_tokens" if training.micro_batch_tokens is None else "micro_batch_tokens"
        raise NmtError(
            f"training.{key}: {tokens:,} padded tokens at once need about {_gib(need + 3 * trained)} GiB of memory; "
            f"{_gib(free + 3 * trained)} GiB are free: set training.micro_batch_tokens to a smaller number or to auto, "
            "the most that fits (what a step learns stays the same)"
        )


def check_model(config: Config, where: torch.device, ranks_here: int, known: Vocabulary | None = None) -> None:
    """Raises NmtError if the model, and what training keeps with it, cannot fit: before it is built.

    known: the vocabulary, if it is known before the data is prepared. Weights are built in the machine's memory; on a
    CPU the gradients and Adam's two moments of those that are trained are there too. A vocabulary that is given
    (vocabulary.source_model) is not counted: its size is not known here. Also raises NmtError as `freezing.frozen`.
    """
    given = config.vocabulary.source_model or config.vocabulary.target_model
    size = 1 if given else config.vocabulary.size
    sizes = (len(known.source), len(known.target)) if known else (size, size)
    model = build.build_on_meta(config.model, *sizes, PAD)
    count = model.parameter_counts()["total"]
    freezing.freeze(model, config.training.freeze)
    trained = freezing.count_trained(model) if where.type == "cpu" else 0
    need = 4 * (count + 3 * trained) * ranks_here
    if need > (free := available_memory()):
        raise NmtError(
            f"the model has about {count:,} parameters: it needs {_gib(need)} GiB of memory, and {_gib(free)} GiB are "
            "free: lower the sizes in the model settings, or vocabulary.size"
        )


def _trained(objective: Objective) -> list[Parameter]:
    """The weights that are not frozen: only these have gradients and moments."""
    return [weight for weight in objective.parameters() if weight.requires_grad]


def _trained_bytes(objective: Objective) -> int:
    return sum(weight.nbytes for weight in _trained(objective))


def _gib(size: float) -> str:
    return f"{size / (1 << 30):,.1f}"


def _passes(objective: Objective, tokens: int, longest: int) -> None:
    """Forward and backward over at least this many tokens."""
    rows = [np.full(longest, EOS)] * -(-tokens // longest)
    packed = objective.packed
    run_passes(objective, pack(rows, rows, longest * len(rows), longest) if packed else collate_pairs(rows, rows))


def _runs(objective: Objective, longest: int) -> Callable[[int], bool]:
    """Whether both passes fit on this GPU with a margin, and with Adam's moments, two copies of the weights."""

    def fits(tokens: int) -> bool:
        free, _ = torch.cuda.mem_get_info()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        moments = list[torch.Tensor]()
        try:
            moments += [torch.empty_like(weight) for weight in _trained(objective) for _ in range(2)]
            _passes(objective, tokens, longest)
            return torch.cuda.max_memory_allocated() - before <= _GPU_SHARE * free
        except torch.OutOfMemoryError:
            return False
        finally:
            moments.clear()
            objective.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()  # training reports its own peak

    return fits


def _estimate(objective: Objective, longest: int, ranks_here: int) -> Callable[[int], bool]:
    """Whether both passes fit on this CPU, estimated from what a small batch needs for each token."""
    probed = -(-_PROBE_TOKENS // longest) * longest
    _passes(objective, probed, longest)  # allocates what is kept
    trained = _trained_bytes(objective)
    per_token = (peak_bytes(objective, probed, longest) - trained) / probed  # the gradients' size is constant
    free = _CPU_SHARE * available_memory() / ranks_here - 3 * trained  # room for gradients and two moments
    packed = objective.model.packed_bytes if objective.packed else lambda _: 0
    return lambda tokens: tokens * per_token + packed(objective.passes * tokens) <= free


def peak_bytes(objective: Objective, tokens: int, longest: int) -> int:
    """Peak memory of both passes on the CPU, besides what PyTorch held before."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler logs its own messages
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        _passes(objective, tokens, longest)
    assert profiled.profiler is not None and profiled.profiler.kineto_results is not None
    changes = (event.nbytes() for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]")
    return max(accumulate(changes), default=0)


def available_memory() -> int:
    """Bytes of free memory on this machine; 4 GiB if the system does not tell."""
    free = available_host_memory()
    return 4 << 30 if free is None else free
