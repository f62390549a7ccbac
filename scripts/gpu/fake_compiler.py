"""torch.compile on a pretended GPU: Inductor decides which operations share a kernel; no code is generated or run.

Import fake_cuda first. Everything here was seen to work with PyTorch 2.13; other versions may name parts differently.
"""

from gpu import fake_cuda  # isort: skip  (before torch)

from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
import torch._inductor.config as inductor
from torch._inductor import compile_fx, debug
from torch._inductor.fx_passes import fuse_attention, pad_mm
from torch._inductor.graph import GraphLowering
from torch._inductor.virtualized import V

# What decisions depend on: those of an H200.
_H200 = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, multi_processor_count=132, total_memory=141 << 30, L2_cache_size=50 << 20,
    warp_size=32, max_threads_per_block=1024, max_threads_per_multi_processor=2048, regs_per_multiprocessor=65536,
    shared_memory_per_block=48 << 10, shared_memory_per_block_optin=227 << 10,
    shared_memory_per_multiprocessor=228 << 10, is_integrated=False, gcnArchName="", uuid="",
)  # fmt: skip

torch.cuda._get_device_properties = lambda *_: _H200  # type: ignore[attr-defined]
torch.cuda.get_device_capability = lambda *_: (9, 0)
torch.cuda.current_device = lambda: 0
torch.cuda.device_count = lambda: 1
torch.cuda.synchronize = lambda *_: None
torch.cuda._lazy_init = lambda: None
torch.cuda._exchange_device = lambda _: 0
torch.cuda._maybe_exchange_device = lambda _: -1  # a function of its own: Dynamo tells the two apart
torch.cuda.get_rng_state = lambda *_: torch.zeros(16, dtype=torch.uint8)
torch.cuda.set_rng_state = lambda *_: None
# These compute with examples on the device. The model's attention is an operator of its own, which needs no pattern.
inductor.joint_graph_constant_folding = False
fuse_attention._sfdp_init = lambda *_, **__: None
pad_mm._pad_mm_init = lambda *_, **__: None

_compile = torch.compile


def count_compiled(count: fake_cuda.Count) -> None:
    """From now on, what torch.compile has compiled adds the kernels of its graphs to the count when it is called."""

    backend = partial(compile_fx.compile_fx, inner_compile=partial(_inner_compile, count))  # one: layers share graphs

    def compiling(function: Any = None, *, mode: str | None = None, **options: Any) -> Any:
        return _compile(function, backend=backend, **options)

    torch.compile = compiling  # type: ignore[assignment]


def _inner_compile(count: fake_cuda.Count, gm: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
    """In the place of Inductor's: a function that computes nothing, but makes results and counts kernels."""
    results = [
        x.meta["val"] if isinstance(x, torch.fx.Node) else x for x in gm.graph.find_nodes(op="output")[0].args[0]
    ]
    kernels = _kernels(gm, inputs, is_backward=bool(options.get("is_backward")))

    def run(arguments: list[Any]) -> list[Any]:
        arguments.clear()
        for name, size, flops in kernels:
            count.add_kernel(name, size, flops)
        return [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
            if isinstance(x, torch.Tensor)
            else x
            for x in results
        ]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _kernels(gm: torch.fx.GraphModule, inputs: Any, *, is_backward: bool) -> list[tuple[str, int, int]]:
    """Name, bytes and FLOPs of each kernel of a graph."""
    fake = torch._guards.detect_fake_mode(inputs)
    assert fake is not None
    with V.set_fake_mode(fake):
        compile_fx.view_to_reshape(gm)
        with torch.no_grad():
            compile_fx.FakeTensorProp(gm, mode=fake).propagate(*inputs)
        compile_fx._recursive_record_original_output_strides(gm)
        compile_fx._recursive_post_grad_passes(gm, is_inference=False)
        graph = GraphLowering(gm, example_inputs=inputs, shape_env=fake.shape_env, is_backward=is_backward)
        with V.set_graph_handler(graph), V.set_extern_kernel_nodes([]), V.set_debug_handler(debug.DebugContext()):
            graph.run(*inputs)
            graph._update_scheduler()  # type: ignore[no-untyped-call]
            found = [_kernel(node) for node in graph.scheduler.nodes]
    return [kernel for kernel in found if kernel[1]]  # one of several results of an operator has no bytes of its own


def _kernel(node: Any) -> tuple[str, int, int]:
    size = int(node.get_read_write_buffers_sizes())
    operator = getattr(node.node, "python_kernel_name", None)
    if operator is None:
        return "compiled: with sums" if node.is_reduction() else "compiled: element by element", size, 0
    name = operator.removeprefix("extern_kernels.").removeprefix("torch.ops.nmt.").removesuffix(".default")
    shapes = [tuple(map(int, x.get_size())) for x in node.node.inputs if hasattr(x, "get_size")]
    return name, size, fake_cuda.flops_of(name, shapes)
