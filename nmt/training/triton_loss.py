"""The loss without its matrix products, in one Triton kernel, which overwrites the logits with p - q.

A GPU needs more time to move logits than to compute with them. PyTorch's separate operations move each logit about
fifteen times, mostly in float32.

Shapes: n tokens, V subwords.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096  # logits of a row in registers at once: 16 for each thread of WARPS warps, so two loads of 16 bytes
WARPS = 8
# e^x = 2^(x log2 e). tl.exp needs three instructions more, for denormal results.
_LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit  # type: ignore[untyped-decorator]
def _row(  # type: ignore[no-untyped-def]
    logits,
    target,
    nll,
    target_logits,
    out,
    vocabulary: tl.constexpr,
    confidence,
    uniform,
    BLOCK: tl.constexpr,
    NEEDED: tl.constexpr,
):
    """Computes one row in float32. Its logits are read twice; the second time from the GPU's cache.

    `out` may be `logits`, because a row is written after all of it was read for the sums.
    """
    row = tl.program_id(0).to(tl.int64)  # row · V may exceed 2^31
    logits += row * vocabulary
    y = tl.load(target + row).to(tl.int32)
    at_target = tl.load(logits + y).to(tl.float32)
    largest = -float("inf")
    sums = tl.zeros([BLOCK], tl.float32)  # of e^(logit - largest), one for each position in a block
    for start in range(0, vocabulary, BLOCK):
        v = start + tl.arange(0, BLOCK)
        x = tl.load(logits + v, mask=v < vocabulary, other=-float("inf")).to(tl.float32)
        before, largest = largest, tl.maximum(largest, tl.max(x))
        sums = sums * tl.exp2((before - largest) * _LOG2_E) + tl.exp2((x - largest) * _LOG2_E)
    z = tl.sum(sums)
    tl.store(nll + row, largest - at_target + tl.log(z))
    tl.store(target_logits + row, at_target)
    if NEEDED:
        out += row * vocabulary
        for start in range(0, vocabulary, BLOCK):
            v = start + tl.arange(0, BLOCK)
            x = tl.load(logits + v, mask=v < vocabulary, other=0.0).to(tl.float32)
            p = tl.exp2((x - largest) * _LOG2_E) * (1.0 / z)
            tl.store(out + v, p - tl.where(v == y, uniform + confidence, uniform), mask=v < vocabulary)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def difference(
    logits: Tensor, target: Tensor, confidence: float, uniform: float, needed: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [n, V] and ids [n] → -log p(target) [n] and the targets' logits [n], in float32; and if `needed`, p - q
    [n, V], where q is `uniform`, plus `confidence` at the target.

    p - q overwrites the logits, in their dtype. For float16 it is a new tensor in float32, because it must be scaled
    before it is rounded.
    """
    nll, target_logits = (logits.new_empty(len(target), dtype=torch.float32) for _ in range(2))
    out = torch.empty_like(logits, dtype=torch.float32) if needed and logits.dtype == torch.float16 else logits
    with torch.cuda.device_of(logits):  # type: ignore[no-untyped-call]  # Triton launches on the current device
        _row[(len(target),)](
            logits, target.contiguous(), nll, target_logits, out, logits.shape[1], confidence, uniform,
            BLOCK=BLOCK, NEEDED=needed, num_warps=WARPS,
        )  # fmt: skip
    return nll, target_logits, out
