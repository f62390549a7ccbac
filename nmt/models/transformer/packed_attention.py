"""Attention over packed batches, in which one tensor contains the tokens of all sentences of a side.

Shapes: Tq queries and Tk keys (each side's capacity, including its unused tail), H heads, dk and dv the widths of a
head's keys and values.

CUDA runs the Triton kernels of packed_attention_kernels. Other devices run the reference implementation here, which
stores all Tq x Tk weights of each head and is meant for tests and small batches. Both are operators of torch.library:
torch.compile and CUDA graphs treat them as opaque.
"""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from nmt.models.translation_model import PackedSentences

_LEVELS = 1 << 24  # dropout is a multiple of 1 / _LEVELS
_LOW_BITS = (1 << 32) - 1


class Ranges(NamedTuple):
    """The keys that each query attends to, and the inverse: int32, on the device of the queries.

    keys [2, Tq]: query i attends to keys from keys[0, i] up to, but not including, keys[1, i].
    queries [2, Tk]: no query before queries[0, j], nor from queries[1, j] on, attends to key j.

    Neither row decreases, except at the tail: a padding token has the range 0, 0. Only tokens of the tail have empty
    ranges. Their output and their gradients are 0.
    """

    keys: Tensor
    queries: Tensor


def sentence_ranges(side: PackedSentences) -> Ranges:
    """Each token attends to its sentence."""
    both = torch.stack([side.start, side.end])
    return Ranges(both, both)


def causal_ranges(side: PackedSentences) -> Ranges:
    """Each token attends to itself and to those before it in its sentence."""
    indices = torch.arange(len(side.ids), dtype=side.end.dtype, device=side.ids.device)
    keys = torch.stack([side.start, torch.minimum(indices + 1, side.end)])
    return Ranges(keys, torch.stack([torch.minimum(indices, side.end), side.end]))


def cross_ranges(queries: PackedSentences, keys: PackedSentences) -> Ranges:
    """Each token of one side attends to the same pair's sentence on the other side."""
    return Ranges(
        torch.stack([queries.other_start, queries.other_end]), torch.stack([keys.other_start, keys.other_end])
    )


def packed_attention(query: Tensor, key: Tensor, value: Tensor, ranges: Ranges, dropout: float = 0.0) -> Tensor:
    """softmax(Q K^T / sqrt(dk)) V (equation 1), each query over its own range of keys.

    query [Tq, H, dk], key [Tk, H, dk], value [Tk, H, dv], of one dtype → [Tq, H, dv]. They may be parts of one tensor;
    they are not copied if the numbers of a head are adjacent in memory. Dropout applies to the weights. The CUDA
    kernels take bfloat16, float16 and float32, and dk and dv of at most 128.
    """
    dropped = min(round(dropout * _LEVELS), _LEVELS - 1)
    # Drawn on the device, so that nothing waits for it and each replay of a CUDA graph draws a new seed.
    seed = torch.randint(1 << 31, (1,), device=query.device) if dropped else None
    output, _ = _forward(query, key, value, ranges.keys, ranges.queries, seed, dropped)
    return output


@torch.library.custom_op("nmt::packed_attention", mutates_args=())
def _forward(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, queries: Tensor, seed: Tensor | None, dropped: int
) -> tuple[Tensor, Tensor]:
    """The output [Tq, H, dv] and the logarithm of each query's sum of exponentials [H, Tq], any number at the tail.

    seed: one int64 in [0, 2^31), with dropout. A weight is dropped with the probability dropped / 2^24.
    """
    scores = _scores(query, key, keys)
    lse = scores.logsumexp(dim=-1)
    lse = lse.masked_fill(lse.isneginf(), 0)
    weights = torch.exp(scores - lse[:, :, None]) * _kept(scores, seed, dropped)
    output = torch.einsum("hqk,khd->qhd", weights, value.to(scores.dtype))
    return output.to(query.dtype).contiguous(), lse


@torch.library.custom_op("nmt::packed_attention_backward", mutates_args=())
def _backward(
    gradient: Tensor,
    output: Tensor,
    lse: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    keys: Tensor,
    queries: Tensor,
    seed: Tensor | None,
    dropped: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, key and value, from the output's gradient [Tq, H, dv] and the results of `_forward`."""
    scores = _scores(query, key, keys)
    weights, kept = torch.exp(scores - lse[:, :, None]), _kept(scores, seed, dropped)
    d_output, output, query, key, value = (x.to(scores.dtype) for x in (gradient, output, query, key, value))
    d_value = torch.einsum("hqk,qhd->khd", weights * kept, d_output)
    d_weights = torch.einsum("qhd,khd->hqk", d_output, value) * kept
    delta = torch.einsum("qhd,qhd->hq", d_output, output)  # the sum of weights · d_weights over the keys
    d_scores = weights * (d_weights - delta[:, :, None]) * query.shape[-1] ** -0.5
    d_query = torch.einsum("hqk,khd->qhd", d_scores, key)
    d_key = torch.einsum("hqk,qhd->khd", d_scores, query)
    return _like(d_query, gradient), _like(d_key, gradient), _like(d_value, gradient)


def _like(x: Tensor, other: Tensor) -> Tensor:
    return x.to(other.dtype).contiguous()


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype of scores, softmax and sums."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _scores(query: Tensor, key: Tensor, keys: Tensor) -> Tensor:
    """Q K^T / sqrt(dk), [H, Tq, Tk], minus infinity outside the ranges."""
    wide, position = _wide(query.dtype), torch.arange(len(key), device=key.device)
    begin, end = keys[:, :, None]
    scores = torch.einsum("qhd,khd->hqk", query.to(wide), key.to(wide)) * query.shape[-1] ** -0.5
    return scores.masked_fill((position < begin) | (position >= end), -math.inf)


def _kept(scores: Tensor, seed: Tensor | None, dropped: int) -> Tensor:
    """The dropout mask for scores [H, Tq, Tk]: 0 or 1 / (1 - p).

    The random number of a weight is a hash of the seed and the weight's indices, so that the backward pass can compute
    it again in any order. The kernels compute the same numbers: masks do not depend on the device.
    """
    if seed is None:
        return scores.new_ones(())
    head, query, key = (torch.arange(size, device=scores.device) for size in scores.shape)
    rows = _hash(_hash(_hash(seed) ^ head)[:, None] ^ query)  # [H, Tq]
    columns = _hash(key + 0x9E3779B9)  # far from the queries' indices
    bits = _hash(rows[:, :, None] ^ columns) >> 8
    return (bits >= dropped).to(scores.dtype) / (1 - dropped / _LEVELS)


def _hash(x: Tensor) -> Tensor:
    """32 bits, mixed (Chris Wellons' lowbias32): int64 in [0, 2^32) → the same, one to one."""
    x = ((x ^ x >> 16) * 0x7FEB352D) & _LOW_BITS
    x = ((x ^ x >> 15) * 0x846CA68B) & _LOW_BITS
    return x ^ x >> 16


@_forward.register_kernel("cuda")
def _(*arguments: Any) -> tuple[Tensor, Tensor]:
    from nmt.models.transformer import packed_attention_kernels as kernels  # Triton is only there with CUDA

    return kernels.forward(*arguments)


@_backward.register_kernel("cuda")
def _(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    from nmt.models.transformer import packed_attention_kernels as kernels

    return kernels.backward(*arguments)


@_forward.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    queries, heads = query.shape[:2]
    lse = query.new_empty(heads, queries, dtype=_wide(query.dtype))
    return query.new_empty(queries, heads, value.shape[-1]), lse


@_backward.register_fake
def _(gradient: Tensor, output: Tensor, lse: Tensor, *inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (gradient.new_empty(x.shape) for x in inputs[:3])
    return query, key, value


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(*output, *inputs[:-1])
    ctx.dropped = inputs[-1]
    ctx.mark_non_differentiable(output[1])


def _gradients(ctx: Any, gradient: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    return *_backward(gradient, *ctx.saved_tensors, ctx.dropped), None, None, None, None


_forward.register_autograd(_gradients, setup_context=_save)
