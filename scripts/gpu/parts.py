"""Attention alone and the loss alone: the implementations that there are, one beside the other."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu.report import Run
from gpu.sizes import BATCH_TOKENS, VOCABULARY
from nmt.data.packing import pack
from nmt.data.vocabulary import EOS
from nmt.models.interface import PackedSentences
from nmt.models.transformer.packed_attention import Ranges, causal_ranges, packed_attention, sentence_ranges
from nmt.training import loss

# By the bytes that they move at 4 TB/s, and 1.5 µs for each kernel; heads of 64, 512 wide, mean sentence 28.
_ATTENTION_MS = {"forward": 0.027, "forward and backward": 0.109}
_LOSS_MS = 4.9  # three products of 24,200 × 512 × 32,000 at 600 TFLOP/s, and the kernel


def milliseconds(run: Run, function: Callable[[], object], repeats: int = 50) -> float:
    """The mean of some calls. On a GPU they are replayed from a CUDA graph: started one by one, small kernels would
    wait for the program."""
    for _ in range(3):
        function()
    if run.small:
        repeats = 2
    else:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            kept = function()  # noqa: F841 (its memory is the graph's)
        function = graph.replay
    _synchronize(run)
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    _synchronize(run)
    return 1e3 * (time.perf_counter() - start) / repeats


def _synchronize(run: Run) -> None:
    if run.device.startswith("cuda"):
        torch.cuda.synchronize()


def _lengths(total: int) -> np.ndarray[Any, Any]:
    """Of one batch as the planner makes them: similar lengths, near 28."""
    lengths = np.random.default_rng(1).integers(24, 33, size=total // 24)
    return lengths[: int(np.searchsorted(lengths.cumsum(), total, side="right"))]


def attention(run: Run, causal: str) -> None:
    """Self-attention of one batch in bfloat16, by each implementation: forward, and with its backward pass."""
    total, heads, width = (120, 2, 16) if run.small else (BATCH_TOKENS, 8, 64)
    lengths = _lengths(total)
    rows = [np.full(int(n), EOS) for n in lengths]
    batch = pack(rows, rows, total, int(lengths.max())).to(torch.device(run.device))
    side = PackedSentences(*batch.side(0), int(lengths.max()))
    ranges = causal_ranges(side) if causal == "causal" else sentence_ranges(side)
    ways: dict[str, Callable[[Tensor], Callable[[], Tensor]]] = {
        "this program's kernel": lambda x: _packed(x, ranges),
        "FlexAttention": lambda x: _flex(x, side, causal == "causal"),
        "varlen_attn": lambda x: _varlen(x, lengths, causal == "causal"),
    }
    for backend in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
        ways[f"padded, {backend}"] = lambda x, backend=backend: _padded(x, lengths, causal == "causal", backend)
    expected: list[Tensor] = []
    for name, way in ways.items():
        torch.manual_seed(1)
        x = torch.randn(total, 3, heads, width, device=run.device, dtype=torch.bfloat16).requires_grad_()
        random = torch.randn_like(x[: int(lengths.sum()), 0])
        try:
            call = way(x)
            gradient = torch.randn_like(call())

            def both(x: Tensor = x, call: Callable[[], Tensor] = call, gradient: Tensor = gradient) -> Tensor:
                return torch.autograd.grad(call(), x, gradient)[0]

            for kind, function in (("forward", call), ("forward and backward", both)):
                measured = milliseconds(run, function)
                predicted = _ATTENTION_MS[kind] if name.startswith("this") else None
                run.row(f"{name}: {kind}", measured, predicted, unit="ms", less=True)
            output = call()[: int(lengths.sum())]
            got = [] if name.startswith("padded") else [output.detach(), *torch.autograd.grad(output, x, random)]
        except Exception as error:  # one that this version or this GPU does not have
            run.row(
                name, "not available", note=f"{type(error).__name__}: {error}"[:150], ok=not name.startswith("this")
            )
            continue
        if name.startswith("this"):
            expected = got
        elif expected and got:  # padded, sentences begin at other places
            compare(run, name, got, expected)


def compare(run: Run, name: str, got: list[Tensor], expected: list[Tensor]) -> None:
    """Rows with the relative difference between another implementation's output and gradient and ours, in bfloat16."""
    for what, a, b in zip(("output", "gradient"), got, expected, strict=True):
        error = float((a - b).float().norm() / b.float().norm())
        run.row(f"{name}: {what} beside this program's", error, ok=error < 2e-2)


def _packed(x: Tensor, ranges: Ranges) -> Callable[[], Tensor]:
    return lambda: packed_attention(*x.unbind(1), ranges)


def _flex(x: Tensor, side: PackedSentences, causal: bool) -> Callable[[], Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    end, start = side.end, side.start

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        same = (key >= start[query]) & (key < end[query])
        return same & (key <= query) if causal else same

    mask = create_block_mask(visible, None, None, len(x), len(x), device=x.device)  # type: ignore[arg-type]
    compiled = torch.compile(flex_attention, dynamic=False)

    def call() -> Tensor:
        query, key, value = (part.transpose(0, 1)[None] for part in x.unbind(1))
        return compiled(query, key, value, block_mask=mask)[0].transpose(0, 1)

    return call


def _varlen(x: Tensor, lengths: np.ndarray[Any, Any], causal: bool) -> Callable[[], Tensor]:
    from torch.nn.attention.varlen import varlen_attn

    ends = torch.tensor([0, *lengths.cumsum()], dtype=torch.int32, device=x.device)
    longest, used = int(lengths.max()), int(lengths.sum())
    options: dict[str, Any] = {"window_size": (-1, 0)} if causal else {}

    def call() -> Tensor:
        query, key, value = (part[:used] for part in x.unbind(1))
        try:
            return varlen_attn(query, key, value, ends, ends, longest, longest, **options)
        except TypeError:  # before PyTorch 2.12
            return varlen_attn(query, key, value, ends, ends, longest, longest, is_causal=causal)

    return call


def _padded(x: Tensor, lengths: np.ndarray[Any, Any], causal: bool, backend: str) -> Callable[[], Tensor]:
    """The same sentences, padded to the longest, as views of the same numbers."""
    longest = int(lengths.max())
    sentences = len(x) // longest
    mask = torch.arange(longest, device=x.device) < torch.tensor(lengths[:sentences], device=x.device)[:, None]

    def call() -> Tensor:
        cells = x[: sentences * longest].unflatten(0, (sentences, longest))
        query, key, value = (part.transpose(1, 2) for part in cells.unbind(2))
        with sdpa_kernel(getattr(SDPBackend, backend)):
            seen = None if causal else mask[:, None, None]
            return F.scaled_dot_product_attention(query, key, value, attn_mask=seen, is_causal=causal)

    return call


def loss_alone(run: Run) -> None:
    """The loss and its gradient for one batch in bfloat16: in Triton, in plain PyTorch; the gradient of the weight
    added in float32 by the product itself, and after it."""
    tokens, width, subwords = (64, 16, 100) if run.small else (24_200, 512, VOCABULARY)
    torch.manual_seed(1)
    hidden = torch.randn(tokens, width, device=run.device, dtype=torch.bfloat16).requires_grad_()
    weight = (torch.randn(subwords, width, device=run.device) * width**-0.5).requires_grad_()
    target = torch.randint(subwords, (tokens,), device=run.device)
    in_triton, adds = loss._in_triton, loss._ADDS_IN_FLOAT32
    ways = {
        "Triton": (in_triton, adds),
        "Triton, added afterwards": (in_triton, False),
        "plain": (lambda *_: None, adds),
    }
    expected: list[Tensor] = []
    for name, (loss._in_triton, loss._ADDS_IN_FLOAT32) in ways.items():

        def both() -> tuple[Tensor, ...]:
            with torch.autocast(hidden.device.type, torch.bfloat16):
                value, _ = loss.smoothed_cross_entropy(hidden, weight, target, 0.1)
            return value, *torch.autograd.grad(value, (hidden, weight))

        predicted = _LOSS_MS if name == "Triton" else None
        run.row(f"loss, {name}", milliseconds(run, both), predicted, unit="ms", less=True)
        got = [x.detach().double() for x in both()]
        expected = expected or got
        for what, a, b in zip(("loss", "gradient of states", "gradient of weight"), got, expected, strict=True):
            error = float((a - b).norm() / b.norm())
            run.row(f"{what}, {name} beside Triton", error, ok=error < 5e-3)
