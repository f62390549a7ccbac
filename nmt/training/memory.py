"""The part of a step that one device computes at once, and whether it fits into memory: training.micro_batch_tokens.

Tokens are counted on the longer side, and with padding if batches are padded.
"""

import logging
import math
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
from nmt.data.batches.packed_steps import length_of_parts, packed_length
from nmt.data.batches.packing import pack
from nmt.data.batches.padding import collate_pairs
from nmt.data.batches.token_store import TokenStore
from nmt.data.subwords.vocabulary import EOS, PAD, Vocabulary
from nmt.distributed.ranks import Ranks
from nmt.errors import NmtError
from nmt.machine import available_host_memory
from nmt.models import build
from nmt.models.translation_model import TranslationModel
from nmt.training import freezing, state
from nmt.training.objective import Objective, run_passes
from nmt.training.progress import Progress

log = logging.getLogger("nmt")

# Shares of the memory that is free at the start. Varying shapes fragment the rest. On a GPU, validation also needs
# memory, and cannot use the memory that a CUDA graph keeps.
_CPU_SHARE, _GPU_SHARE = 0.9, 0.8
_VALIDATION_TOKENS = 32_000  # of a validation batch on a GPU; larger batches would have more padding
_PROBE_TOKENS = 2048  # the size of small batches measured on the CPU, where running out of memory kills the process


def micro_batch_tokens(
    training: TrainingConfig, run: Path, pairs: TokenStore, objective: Objective, ranks: Ranks
) -> int:
    """The largest number of tokens that a device gets at once when it trains on these pairs. Collective.

    run: the run's folder; a resumed run keeps the number that `auto` chose at its start.
    Raises NmtError if a CPU has too little memory for the configured number, or if nothing fits with `auto`.
    """
    budget, configured = training.batch_tokens, training.micro_batch_tokens
    longer_side = np.maximum(pairs.source.lengths, pairs.target.lengths)
    longer_side = longer_side[longer_side <= budget]  # longer pairs are in no batch
    if configured == "auto":
        chosen = ranks.broadcast(_chosen_before(run, ranks) if ranks.first else 0)
        mean = float(longer_side.mean()) if len(longer_side) else 1.0
        return largest_micro_batch(objective, budget, int(longer_side.max(initial=1)), mean, ranks, chosen)
    tokens = min(configured or budget, budget)
    if next(objective.parameters()).device.type == "cpu":
        most = min(tokens, -(-budget // ranks.size))  # of one rank's part of a step
        if objective.packed and len(longer_side):
            most = packed_length(budget, tokens, ranks.size, int(longer_side.max()), float(longer_side.mean()))
        check_step(training, objective, most, longer_side, ranks.local_size)
    return tokens


def validation_tokens(model: TranslationModel, device: torch.device, longest: int, least: int, ranks: Ranks) -> int:
    """The number of padded tokens of a validation batch on each device: `least`, and on a GPU 32,000 if that is more.

    Many small batches would leave a GPU waiting. It gets fewer than 32,000 tokens if a forward and a backward pass over
    them could need more than half of the free memory; validation itself needs a small part of that. longest: the
    length of the longest sentence. Collective: all ranks get the same number.
    """
    tokens = least
    need = model.activation_bytes(_VALIDATION_TOKENS, longest) if device.type == "cuda" else None
    if need is not None:
        free, _ = torch.cuda.mem_get_info(device)
        tokens = int(_VALIDATION_TOKENS * min(1.0, free / 2 / need))
    return max(least, min(ranks.all_gather(tokens)))


def _chosen_before(run: Path, ranks: Ranks) -> int:
    """The number that `auto` chose when the saved run was started with the same number of ranks; otherwise 0."""
    _, progress = state.saved(run) or (None, Progress())
    if progress.auto_micro_batch_tokens == 0 or progress.ranks == ranks.size:
        return progress.auto_micro_batch_tokens
    log.info(
        "training.micro_batch_tokens: auto: %s tokens for %s ranks when the run was started; chosen again for %s",
        *(f"{progress.auto_micro_batch_tokens:,}", progress.ranks, ranks.size),
    )
    return 0


def largest_micro_batch(
    objective: Objective, batch_tokens: int, longest: int, mean: float, ranks: Ranks, chosen: int = 0
) -> int:
    """The size in tokens of the largest micro-batch that fits: `batch_tokens` divided by a whole number, rounded up. A
    packed micro-batch has more tokens, because sentences cannot be divided (`packed_length`).

    longest: the longer side of the longest pair, at most `batch_tokens`; mean: that of all pairs. The passes are tried
    with pairs of the longest length on both sides, which need at least as much memory as any batch of the corpus. On a
    GPU the passes are run; on a CPU their memory is estimated from a small batch. All ranks get the smallest result.
    Raises NmtError if even a batch of one longest pair does not fit.
    chosen: the result when the run began, or 0. It does not change on resuming, because dropout's masks depend on how
    a step is divided. If it does not fit into the memory that is free now, a warning is logged.
    """
    on_gpu = next(objective.parameters()).device.type == "cuda"
    fits = _runs(objective, longest) if on_gpu else _estimate(objective, longest, ranks.local_size)
    if chosen:
        log.info("training.micro_batch_tokens: auto: %s tokens, as when the run began", f"{chosen:,}")
        if ranks.all_reduce_max_async(lambda: int(not fits(chosen)))():
            log.warning(
                "training.micro_batch_tokens: auto: these tokens may not fit into the memory that is free now: free "
                "some memory, or set a smaller number (results are then not equal bit for bit)"
            )
        return chosen

    def size_of(parts: int) -> int:
        if objective.packed:
            return min(batch_tokens, length_of_parts(batch_tokens, parts, longest, mean))
        return max(longest, -(-batch_tokens // parts))

    extra = math.ceil(mean) if objective.packed else 0
    most = -(-batch_tokens // max(1, longest - extra))  # the number of parts if each holds only the longest pair
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
    log.info("training.micro_batch_tokens: auto: %s tokens%s", f"{size_of(fewest):,}", share)
    return size_of(fewest)


def check_step(
    training: TrainingConfig, objective: Objective, tokens: int, longer: NDArray[Any], ranks_here: int
) -> None:
    """Raises NmtError if a micro-batch of this size needs more memory than this machine has free for a rank.

    longer: the longer side of each pair [N]. Memory is measured only if the model's upper bound does not fit. It is
    measured on small batches; their pairs have the mean length weighted by tokens.
    """
    if not len(longer):  # no pair fits into a batch; `Batches` reports this
        return
    if not objective.packed:  # all packed batches have the same length
        tokens = min(tokens, int(longer.sum(dtype=np.int64)))  # a batch cannot be larger than the data
    trained = _trained_bytes(objective)
    free = available_memory() // ranks_here - 3 * trained  # room for gradients and two moments
    most = objective.model.activation_bytes(tokens, int(longer.max()))
    packed = objective.model.packed_bytes(training.passes * tokens) if objective.packed else 0
    if most is not None and training.passes * most + packed <= free:
        return
    length = max(1, round(float((longer.astype(np.float64) ** 2).sum() / longer.sum(dtype=np.int64))))
    few = max(1, min(_PROBE_TOKENS, tokens // 2) // length) * length
    log.info("training: measuring on small batches whether a step of %s tokens fits into memory", f"{tokens:,}")
    _passes(objective, few, length)  # allocates the buffers that stay
    once, twice = (peak_bytes(objective, count, length) for count in (few, 2 * few))
    need = once - trained + (tokens - few) * (twice - once) / few + packed
    if need > free:
        key = "batch_tokens" if training.micro_batch_tokens is None else "micro_batch_tokens"
        raise NmtError(
            f"training.{key}: {tokens:,} tokens at once need about {_gib(need + 3 * trained)} GiB of memory; "
            f"{_gib(free + 3 * trained)} GiB are free: set training.micro_batch_tokens to a smaller number, or to auto "
            "for the largest number that fits (what a step learns stays the same)"
        )


def check_model(config: Config, where: torch.device, ranks_here: int, vocabulary: Vocabulary | None = None) -> None:
    """Raises NmtError if the model and its training state cannot fit into memory. Called before the model is built.

    vocabulary: None if it exists only after the data is prepared. Weights are built in the machine's memory; on a CPU
    the gradients and Adam's two moments of the trained weights are there too. Embeddings of a SentencePiece model
    (vocabulary.source_model) are not counted, because its size is not known here. Also raises NmtError as
    `freezing.frozen` does.
    """
    has_models = config.vocabulary.source_model or config.vocabulary.target_model
    size = 1 if has_models else config.vocabulary.size
    sizes = (len(vocabulary.source), len(vocabulary.target)) if vocabulary else (size, size)
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
    """The weights that are not frozen. Only these have gradients and moments."""
    return [weight for weight in objective.parameters() if weight.requires_grad]


def _trained_bytes(objective: Objective) -> int:
    return sum(weight.nbytes for weight in _trained(objective))


def _gib(size: float) -> str:
    return f"{size / (1 << 30):,.1f}"


def _passes(objective: Objective, tokens: int, longest: int) -> None:
    """Run a forward and a backward pass over at least this many tokens."""
    rows = [np.full(longest, EOS)] * -(-tokens // longest)
    packed = objective.packed
    run_passes(objective, pack(rows, rows, longest * len(rows), longest) if packed else collate_pairs(rows, rows))


def _runs(objective: Objective, longest: int) -> Callable[[int], bool]:
    """A function that tells whether a number of tokens fits on this GPU, with a margin. It runs both passes while
    Adam's two moments of each weight are in memory."""

    def fits(tokens: int) -> bool:
        free, _ = torch.cuda.mem_get_info()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        moments = list[torch.Tensor]()
        try:
            for weight in _trained(objective):
                moments += [torch.empty_like(weight), torch.empty_like(weight)]
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
    """A function that tells whether a number of tokens fits on this CPU, estimated from a small batch's memory."""
    probed = -(-_PROBE_TOKENS // longest) * longest
    _passes(objective, probed, longest)  # allocates the buffers that stay
    trained = _trained_bytes(objective)
    per_token = (peak_bytes(objective, probed, longest) - trained) / probed  # the gradients' size is constant
    free = _CPU_SHARE * available_memory() / ranks_here - 3 * trained  # room for gradients and two moments

    def fits(tokens: int) -> bool:
        packed = objective.model.packed_bytes(objective.passes * tokens) if objective.packed else 0
        return tokens * per_token + packed <= free

    return fits


def peak_bytes(objective: Objective, tokens: int, longest: int) -> int:
    """The peak memory of both passes on the CPU, in addition to what PyTorch had allocated before."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # otherwise the profiler logs its own messages
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        _passes(objective, tokens, longest)
    assert profiled.profiler is not None and profiled.profiler.kineto_results is not None
    changes = (event.nbytes() for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]")
    return max(accumulate(changes), default=0)


def available_memory() -> int:
    """Bytes of free memory on this machine; 4 GiB if the system does not report it."""
    free = available_host_memory()
    return 4 << 30 if free is None else free
