# mypy: disable-error-code="no-untyped-def, untyped-decorator"
"""The Triton kernels of packed_attention, with its shapes and names. They compute what its reference implementation
computes.

A program works on one head and a tile of consecutive queries (or, for the gradients of keys and values, of consecutive
keys). It goes through the union of its rows' ranges tile by tile, and a mask limits each row to its own range. The
method is FlashAttention-2 (Dao 2023), in which a tile belongs to one sentence. Here a tile contains several sentences,
because sentences of 28 tokens would leave most of its rows empty. Each number is written by one program, so that there
are no atomic additions, and the result is reproducible. Tiles are on the grid's first axis, because CUDA allows only
65,535 programs on the others.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

_LOG2_E = tl.constexpr(1.4426950408889634)
_LOWEST = tl.constexpr(-1e30)  # below all scores, but finite, so that a row without keys so far gives 0, not NaN


@triton.jit
def _load(x, first, stop, row_stride, ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """Rows from `first` on, [ROWS, WIDTH], with 0 from row `stop` and column SIZE on. x points to row 0 of a head."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, WIDTH)[None, :]
    start = x + tl.cast(first, tl.int64) * row_stride  # may be beyond 2^31
    return tl.load(start + row * row_stride + column, mask=(row < stop - first) & (column < SIZE), other=0.0)


@triton.jit
def _store(x, tile, first, stop, row_stride, ROWS: tl.constexpr, SIZE: tl.constexpr, WIDTH: tl.constexpr):
    """The reverse of `_load`, rounded to the dtype of x."""
    row, column = tl.arange(0, ROWS)[:, None], tl.arange(0, WIDTH)[None, :]
    start = x + tl.cast(first, tl.int64) * row_stride
    tile = tile.to(x.dtype.element_ty)
    tl.store(start + row * row_stride + column, tile, mask=(row < stop - first) & (column < SIZE))


@triton.jit
def _hash(x):
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def _kept(seed, head, query, key, DROPPED: tl.constexpr):
    """Whether dropout keeps a weight: bool, in the shape that the indices broadcast to."""
    rows = _hash(_hash(_hash(tl.load(seed).to(tl.uint32)) ^ head.to(tl.uint32)) ^ query.to(tl.uint32))
    columns = _hash(key.to(tl.uint32) + 0x9E3779B9)
    return (_hash(rows ^ columns) >> 8).to(tl.int32) >= DROPPED


@triton.jit
def forward_kernel(
    query, key, value, output, lse, ranges, seed, queries,
    query_row, query_head, key_row, key_head, value_row, value_head,
    SCALE: tl.constexpr, DROPPED: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr, WIDTH_K: tl.constexpr, WIDTH_V: tl.constexpr,
    TILE: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """Computes output and lse of a tile of queries. Queries of the tail have no keys, so that their sums stay 0."""
    first, head = tl.program_id(0) * TILE, tl.program_id(1)
    rows = first + tl.arange(0, TILE)
    begin = tl.load(ranges + rows, mask=rows < queries, other=0)
    end = tl.load(ranges + queries + rows, mask=rows < queries, other=0)
    stop = tl.max(end, axis=0)
    q = _load(query + head * query_head, first, queries, query_row, TILE, DK, WIDTH_K)
    highest = tl.full([TILE], _LOWEST, tl.float32)
    total = tl.zeros([TILE], tl.float32)
    weighted = tl.zeros([TILE, WIDTH_V], tl.float32)
    for at in range(tl.load(ranges + first), stop, OTHER):
        columns = at + tl.arange(0, OTHER)
        k = _load(key + head * key_head, at, stop, key_row, OTHER, DK, WIDTH_K)
        v = _load(value + head * value_head, at, stop, value_row, OTHER, DV, WIDTH_V)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (SCALE * _LOG2_E)
        visible = (begin[:, None] <= columns[None, :]) & (columns[None, :] < end[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        before, highest = highest, tl.maximum(highest, tl.max(scores, axis=1))
        weights = tl.exp2(scores - highest[:, None])
        shrink = tl.exp2(before - highest)
        total = total * shrink + tl.sum(weights, axis=1)
        if DROPPED:
            weights = tl.where(_kept(seed, head, rows[:, None], columns[None, :], DROPPED), weights, 0.0)
        weighted = tl.dot(weights.to(v.dtype), v, weighted * shrink[:, None], input_precision=PRECISION)
    total = tl.where(total > 0, total, 1.0)  # the tail: 0 / 1
    heads = tl.num_programs(1)
    _store(output + head * DV, weighted / (total * KEEP)[:, None], first, queries, heads * DV, TILE, DV, WIDTH_V)
    tl.store(lse + head * queries + rows, (highest + tl.log2(total)) / _LOG2_E, mask=rows < queries)


@triton.jit
def query_gradient_kernel(
    query, key, value, d_output, output, lse, delta, d_query, ranges, seed, queries,
    query_row, query_head, key_row, key_head, value_row, value_head, d_output_row, d_output_head,
    SCALE: tl.constexpr, DROPPED: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr, WIDTH_K: tl.constexpr, WIDTH_V: tl.constexpr,
    TILE: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """Computes d_query of a tile of queries, and their delta [H, Tq]: the sum over the output of d_output · output."""
    first, head = tl.program_id(0) * TILE, tl.program_id(1)
    heads = tl.num_programs(1)
    rows = first + tl.arange(0, TILE)
    begin = tl.load(ranges + rows, mask=rows < queries, other=0)
    end = tl.load(ranges + queries + rows, mask=rows < queries, other=0)
    stop = tl.max(end, axis=0)
    q = _load(query + head * query_head, first, queries, query_row, TILE, DK, WIDTH_K)
    d_out = _load(d_output + head * d_output_head, first, queries, d_output_row, TILE, DV, WIDTH_V)
    out = _load(output + head * DV, first, queries, heads * DV, TILE, DV, WIDTH_V)
    row_delta = tl.sum(d_out.to(tl.float32) * out.to(tl.float32), axis=1)
    tl.store(delta + head * queries + rows, row_delta, mask=rows < queries)
    row_lse = tl.load(lse + head * queries + rows, mask=rows < queries, other=0.0) * _LOG2_E
    d_q = tl.zeros([TILE, WIDTH_K], tl.float32)
    for at in range(tl.load(ranges + first), stop, OTHER):
        columns = at + tl.arange(0, OTHER)
        k = _load(key + head * key_head, at, stop, key_row, OTHER, DK, WIDTH_K)
        v = _load(value + head * value_head, at, stop, value_row, OTHER, DV, WIDTH_V)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * (SCALE * _LOG2_E)
        visible = (begin[:, None] <= columns[None, :]) & (columns[None, :] < end[:, None])
        weights = tl.exp2(scores - row_lse[:, None])
        d_weights = tl.dot(d_out, tl.trans(v), input_precision=PRECISION)
        if DROPPED:
            kept = _kept(seed, head, rows[:, None], columns[None, :], DROPPED)
            d_weights = tl.where(kept, d_weights / KEEP, 0.0)
        d_scores = tl.where(visible, weights * (d_weights - row_delta[:, None]), 0.0)
        d_q = tl.dot(d_scores.to(k.dtype), k, d_q, input_precision=PRECISION)
    _store(d_query + head * DK, d_q * SCALE, first, queries, heads * DK, TILE, DK, WIDTH_K)


@triton.jit
def key_value_gradient_kernel(
    query, key, value, d_output, lse, delta, d_key, d_value, ranges, inverse, seed, queries, keys,
    query_row, query_head, key_row, key_head, value_row, value_head, d_output_row, d_output_head,
    SCALE: tl.constexpr, DROPPED: tl.constexpr, KEEP: tl.constexpr, PRECISION: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr, WIDTH_K: tl.constexpr, WIDTH_V: tl.constexpr,
    TILE: tl.constexpr, OTHER: tl.constexpr,
):  # fmt: skip
    """Computes d_key and d_value of a tile of keys from the queries that attend to them.

    All matrices are [keys, queries].
    """
    first, head = tl.program_id(0) * TILE, tl.program_id(1)
    heads = tl.num_programs(1)
    columns = first + tl.arange(0, TILE)
    stop = tl.max(tl.load(inverse + keys + columns, mask=columns < keys, other=0), axis=0)
    k = _load(key + head * key_head, first, keys, key_row, TILE, DK, WIDTH_K)
    v = _load(value + head * value_head, first, keys, value_row, TILE, DV, WIDTH_V)
    d_k = tl.zeros([TILE, WIDTH_K], tl.float32)
    d_v = tl.zeros([TILE, WIDTH_V], tl.float32)
    for at in range(tl.load(inverse + first), stop, OTHER):
        rows = at + tl.arange(0, OTHER)
        begin = tl.load(ranges + rows, mask=rows < stop, other=0)
        end = tl.load(ranges + queries + rows, mask=rows < stop, other=0)
        row_lse = tl.load(lse + head * queries + rows, mask=rows < stop, other=0.0) * _LOG2_E
        row_delta = tl.load(delta + head * queries + rows, mask=rows < stop, other=0.0)
        q = _load(query + head * query_head, at, stop, query_row, OTHER, DK, WIDTH_K)
        d_out = _load(d_output + head * d_output_head, at, stop, d_output_row, OTHER, DV, WIDTH_V)
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION) * (SCALE * _LOG2_E)
        visible = (begin[None, :] <= columns[:, None]) & (columns[:, None] < end[None, :])
        weights = tl.where(visible, tl.exp2(scores - row_lse[None, :]), 0.0)
        d_weights = tl.dot(v, tl.trans(d_out), input_precision=PRECISION)
        used = weights
        if DROPPED:
            kept = _kept(seed, head, rows[None, :], columns[:, None], DROPPED)
            used, d_weights = tl.where(kept, weights, 0.0), tl.where(kept, d_weights / KEEP, 0.0)
        d_v = tl.dot(used.to(d_out.dtype), d_out, d_v, input_precision=PRECISION)
        d_scores = tl.where(visible, weights * (d_weights - row_delta[None, :]), 0.0)
        d_k = tl.dot(d_scores.to(q.dtype), q, d_k, input_precision=PRECISION)
    _store(d_key + head * DK, d_k * SCALE, first, keys, heads * DK, TILE, DK, WIDTH_K)
    _store(d_value + head * DV, d_v / KEEP, first, keys, heads * DV, TILE, DV, WIDTH_V)


def forward(
    query: Tensor, key: Tensor, value: Tensor, keys: Tensor, queries: Tensor, seed: Tensor | None, dropped: int
) -> tuple[Tensor, Tensor]:
    """nmt::packed_attention."""
    query, key, value = _adjacent(query), _adjacent(key), _adjacent(value)
    length, heads = query.shape[:2]
    output = query.new_empty(length, heads, value.shape[-1])
    lse = query.new_empty(heads, length, dtype=torch.float32)
    options = _options(query, value, dropped)
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]  # Triton launches on the current device
        forward_kernel[triton.cdiv(length, options["TILE"]), heads](
            query, key, value, output, lse, keys.contiguous(), seed, length, *_strides(query, key, value), **options
        )
    return output, lse


def backward(
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
    """nmt::packed_attention_backward."""
    gradient, query, key, value = _adjacent(gradient), _adjacent(query), _adjacent(key), _adjacent(value)
    keys, queries = keys.contiguous(), queries.contiguous()
    d_query, d_key, d_value = (x.new_empty(x.shape) for x in (query, key, value))
    delta = torch.empty_like(lse)
    (heads, query_count), key_count = lse.shape, len(key)
    options = _options(query, value, dropped)
    inputs, strides = (query, key, value, gradient), _strides(query, key, value, gradient)
    with torch.cuda.device_of(query):  # type: ignore[no-untyped-call]
        # The first kernel also writes delta, which the second reads.
        query_gradient_kernel[triton.cdiv(query_count, options["TILE"]), heads](
            *inputs, output, lse, delta, d_query, keys, seed, query_count, *strides, **options
        )
        key_value_gradient_kernel[triton.cdiv(key_count, options["TILE"]), heads](
            *inputs, lse, delta, d_key, d_value, keys, queries, seed, query_count, key_count, *strides, **options
        )
    return d_query, d_key, d_value


def _adjacent(x: Tensor) -> Tensor:
    """x, copied if the numbers of a head are not adjacent in memory."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _strides(*tensors: Tensor) -> list[int]:
    strides = list[int]()
    for x in tensors:
        strides += x.stride()[:2]
    return strides


def _options(query: Tensor, value: Tensor, dropped: int) -> dict[str, Any]:
    """The kernels' constants and compiler options.

    Hopper's tensor cores take at least 64 rows at once. With sentences of 28 tokens such a tile attends to 91 keys on
    average: three tiles of 32 waste less than two of 64, and leave registers for more programs at a time. In float32
    the products are exact and run on the ordinary cores, unless PyTorch is set to TF32. These compute from registers
    and have room for smaller tiles. So no registers spill in 16 bits, and almost none in float32.
    """
    dk, dv = query.shape[-1], value.shape[-1]
    width_k, width_v = (max(16, triton.next_power_of_2(size)) for size in (dk, dv))
    width = max(width_k, width_v)
    if query.dtype not in (torch.float32, torch.bfloat16, torch.float16) or width > 128:
        raise ValueError(f"packed attention on CUDA has no kernel for {query.dtype} and heads of {max(dk, dv)}")
    if query.dtype == torch.float32:
        tile, other, stages = (32, 32, 2) if width <= 64 else (16, 16, 2)
    else:
        tile, other, stages = 64, 32, 3
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    return {
        "SCALE": dk**-0.5, "DROPPED": dropped, "KEEP": 1 - dropped / (1 << 24), "PRECISION": precision,
        "DK": dk, "DV": dv, "WIDTH_K": width_k, "WIDTH_V": width_v,
        "TILE": tile, "OTHER": other, "num_warps": 4, "num_stages": stages,
    }  # fmt: skip
