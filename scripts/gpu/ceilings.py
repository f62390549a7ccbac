"""Measures the limits of the GPU: the speed of a copy and of the model's matrix products."""

import platform
import subprocess
import time
from collections.abc import Callable

import torch

from gpu import store
from gpu.report import Run
from gpu.sizes import BATCH_TOKENS, MODELS, VOCABULARY

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


def measure(run: Run) -> None:
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
    store.subwords(run.store, small=run.small)
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
