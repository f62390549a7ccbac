"""Measures parts of a step separately: the limits of the GPU, attention and the loss."""

import platform
import subprocess
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gpu import store
from gpu.report import Run
from gpu.sizes import BATCH_TOKENS, MODELS, VOCABULARY
from nmt.data.batches.packing import pack
from nmt.data.subwords.vocabulary import EOS
from nmt.models.transformer.packed_attention import packed_attention, sentence_ranges
from nmt.models.translation_model import PackedSentences
from nmt.training import loss

COPY = "copy within the GPU's memory"


def milliseconds(run: Run, function: Callable[[], object], repeats: int = 50) -> float:
    """The mean time of several calls. On a GPU they are replayed from a CUDA graph, because small kernels that are
    started one by one wait for the program."""
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
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        function()
    if not run.small:
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / repeats


def products_of(size: str) -> str:
    """The name of the row with the FLOP/s of all products of a model's step together."""
    return f"products of {size}, together"


def ceilings(run: Run) -> None:
    """Report the name of the GPU, the bytes per second of a copy, and the FLOP/s of the model's own products. Speeds
    are predicted from these. Also makes the data that other checks share."""
    versions = {"Python": platform.python_version(), "PyTorch": torch.__version__, "CUDA": torch.version.cuda}
    run.row("versions", ", ".join(f"{name} {version}" for name, version in versions.items()))
    if not run.small:
        query = "name,driver_version,memory.total,power.limit,clocks.max.sm"
        command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
        run.row("GPU", subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    store.pairs(run.store, small=run.small)
    store.demo(run.store)
    source = torch.empty((1 << 20) if run.small else (1 << 30), device=run.device, dtype=torch.uint8)
    copied = torch.empty_like(source)
    milli = milliseconds(run, lambda: copied.copy_(source), 20)
    run.row(COPY, 2 * source.nbytes / milli / 1e9, unit="TB/s")
    for size, config in MODELS.items():
        tokens, d, f = 64 if run.small else BATCH_TOKENS // 128 * 128, config.d_model, config.feed_forward
        if run.small:
            d, f = 32, 64
        # Products in all layers, [tokens, inner] x [inner, outer], and their number in a step: query, key and value;
        # key and value of the encoder's states; after attention; feed-forward.
        widths = {
            "qkv": (d, 3 * d, 12),
            "kv": (d, 2 * d, 6),
            "out": (d, d, 24),
            "ffn": (d, f, 12),
            "ffn back": (f, d, 12),
        }
        widths["logits"] = (d, 64 if run.small else VOCABULARY, 1)
        flops = seconds = 0.0
        for name, (inner, outer, count) in widths.items():
            operations = 2 * tokens * inner * outer
            shapes = {
                "forward": (tokens, inner, outer),
                "states": (tokens, outer, inner),
                "weight": (inner, tokens, outer),
            }
            rates = []
            for rows, middle, columns in shapes.values():
                a, b = (
                    torch.randn(*shape, device=run.device).to(torch.bfloat16)
                    for shape in ((rows, middle), (middle, columns))
                )
                milli = milliseconds(run, lambda a=a, b=b: a @ b, 10)
                rates.append(operations / milli / 1e9)
                flops, seconds = flops + count * operations, seconds + count * milli / 1e3
            note = f"gradients of the states {rates[1]:.0f}, of the weight {rates[2]:.0f}"
            run.row(f"{name} of {size}, forward", rates[0], unit="TFLOP/s", note=note)
        run.row(products_of(size), flops / seconds / 1e12, unit="TFLOP/s")


def attention(run: Run) -> None:
    """Self-attention of one batch in bfloat16: forward, and with its backward pass."""
    total, heads, width = (120, 2, 16) if run.small else (BATCH_TOKENS, 8, 64)
    # As in a batch of the planner: similar lengths, near 28.
    lengths = np.random.default_rng(1).integers(24, 33, size=total // 24)
    lengths = lengths[: int(np.searchsorted(lengths.cumsum(), total, side="right"))]
    rows = [np.full(int(n), EOS) for n in lengths]
    batch = pack(rows, rows, total, int(lengths.max())).to(torch.device(run.device))
    ranges = sentence_ranges(PackedSentences(*batch.side(0), int(lengths.max())))
    x = torch.randn(total, 3, heads, width, device=run.device, dtype=torch.bfloat16).requires_grad_()
    gradient = torch.randn_like(x[:, 0])

    def forward() -> Tensor:
        return packed_attention(*x.unbind(1), ranges)

    def both() -> Tensor:
        return torch.autograd.grad(forward(), x, gradient)[0]

    for kind, function in (("forward", forward), ("forward and backward", both)):
        run.row(f"attention: {kind}", milliseconds(run, function), unit="ms")


def loss_alone(run: Run) -> None:
    """The loss and its gradient for one batch in bfloat16: in Triton and in plain PyTorch."""
    tokens, width, subwords = (64, 16, 100) if run.small else (24_200, 512, VOCABULARY)
    torch.manual_seed(1)
    hidden = torch.randn(tokens, width, device=run.device, dtype=torch.bfloat16).requires_grad_()
    weight = (torch.randn(subwords, width, device=run.device) * width**-0.5).requires_grad_()
    target = torch.randint(subwords, (tokens,), device=run.device)
    expected: list[Tensor] = []
    for name, in_triton in {"ours": loss._in_triton, "plain": lambda *_: None}.items():
        loss._in_triton = in_triton  # type: ignore[assignment]

        def both() -> tuple[Tensor, ...]:
            with torch.autocast(hidden.device.type, torch.bfloat16):
                value, _ = loss.smoothed_cross_entropy(hidden, weight, target, 0.1)
            return value, *torch.autograd.grad(value, (hidden, weight))

        run.row(f"loss, {name}", milliseconds(run, both), unit="ms")
        got = [x.detach().double() for x in both()]
        for what, a, b in zip(("loss", "gradient of states", "gradient of weight"), got, expected or got, strict=True):
            error = float((a - b).norm() / b.norm())
            run.row(f"{what}, {name} beside ours", error, ok=error < 5e-3)
        expected = expected or got
