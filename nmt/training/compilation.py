"""torch.compile for the layers of a model."""

import atexit
import logging
import os
import shutil
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING

import torch
from torch.utils._triton import has_triton

from nmt.data.batches.packing import PackedBatch
from nmt.data.batches.padding import Batch
from nmt.device import is_device_fault
from nmt.errors import first_line
from nmt.machine import usable_cores
from nmt.training.objective import Objective, run_passes

if TYPE_CHECKING:
    from torch._dynamo.utils import CompilationMetrics  # loading it takes seconds

log = logging.getLogger("nmt")

_CACHE, _TRITON_CACHE = "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"
_WORKERS = "TORCHINDUCTOR_COMPILE_THREADS"
_TF32_ADVICE = "TensorFloat32 tensor cores for float32 matrix multiplication available but not enabled"
_MOST_WORKERS = 32  # PyTorch's own limit, for one rank


def compile_layers(objective: Objective, example: Batch | PackedBatch, *, sharded: bool, ranks_here: int = 1) -> bool:
    """Compile the model's layers with torch.compile. Returns whether this worked; if not, the layers stay uncompiled,
    and a warning says why.

    Layers are compiled one by one. Layers of one class share a graph, either for all shapes or for the single shape of
    packed batches. A forward and a backward pass over the example are run immediately, so that a compiler fails before
    the first step; `sharded` layers are not run, because one rank cannot run them alone. A compilation that was killed
    leaves damaged files in PyTorch's cache, so a failed compilation is repeated once with an empty cache. A device
    fault is raised again, because the device cannot be used after it. ranks_here: the number of ranks on this machine;
    they share its cores.
    """
    _limit_workers(ranks_here)
    # The user has chosen float32 instead of tf32. The filter stays, because layers are also compiled later.
    warnings.filterwarnings("ignore", message=_TF32_ADVICE)
    torch._dynamo.utils.clear_compilation_metrics()
    damaged = ""
    for retry in (False, True):
        try:
            _compile(objective, example, sharded=sharded)
        except Exception as error:  # of many types: no C++ compiler, no Triton, a platform that is not supported
            _undo(objective)
            if is_device_fault(error):
                raise
            if retry:
                reason = first_line(error)
                log.warning("training.compile: torch.compile does not work here, continuing without it (%s)", reason)
            else:
                damaged = f"{_use_new_cache()}: {first_line(error)}"
        else:
            if damaged:
                log.warning("training.compile: damaged files in the cache of torch.compile: delete %s", damaged)
            # If the compiler fails for a later graph, this graph runs uncompiled, and `log_report` reports it.
            torch._dynamo.config.suppress_errors = True
            return True
    return False


def missing_compiler(device: torch.device) -> str:
    """Why torch.compile cannot work on this device: a missing compiler. An empty string if none is missing."""
    if device.type == "cuda":
        return "" if has_triton() else "Triton does not work with this GPU"
    if device.type == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler  # takes a second

        try:
            get_cpp_compiler()
        except Exception as error:  # InvalidCxxCompiler, or any error of starting a compiler
            return f"no C++ compiler: {first_line(error)}: install one, such as g++"
    return ""


def graphs() -> "list[CompilationMetrics]":
    """The graphs compiled since `compile_layers`. Each tells why it was compiled again, or why it failed."""
    return [graph for graph in torch._dynamo.utils.get_compilation_metrics() if graph.co_name is not None]


def log_report() -> None:
    """Log how many graphs were compiled since `compile_layers`, and how many of them again. After the first step no
    graph should be compiled again. Logs nothing if there are no graphs."""
    if "torch._dynamo" not in sys.modules:  # loading it takes seconds
        return
    compiled = graphs()
    recompiled = sum(graph.recompile_reason is not None for graph in compiled)
    if compiled:
        log.info("training.compile: %d graphs, one of them a test; %d were recompiled", len(compiled), recompiled)
    for reason in dict.fromkeys(graph.fail_reason or graph.fail_type for graph in compiled if graph.fail_type):
        log.warning("training.compile: a graph was not compiled (%s)", " ".join(reason.split())[:300])


def _compile(objective: Objective, example: Batch | PackedBatch, *, sharded: bool) -> None:
    with torch._dynamo.config.patch(suppress_errors=False):
        torch.compile(torch.sin)(torch.ones(2, device=objective.model.output_weight.device))
        for layer in objective.model.layers():
            layer.compile(dynamic=not isinstance(example, PackedBatch))
        if not sharded:
            run_passes(objective, example)


def _undo(objective: Objective) -> None:
    objective.zero_grad(set_to_none=True)
    for layer in objective.model.layers():
        layer._compiled_call_impl = None  # set by `compile`


def _limit_workers(ranks_here: int) -> None:
    """Divide the cores among the processes that compile. By default each rank starts one process for every core."""
    if _WORKERS not in os.environ:
        import torch._inductor.config as inductor  # takes a second

        inductor.compile_threads = max(1, min(_MOST_WORKERS, usable_cores() // ranks_here))


def _use_new_cache() -> str:
    """Use a new, empty cache for all later compilations. Returns the folder of the previous cache."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    from torch._inductor.utils import clear_caches

    previous = cache_dir()
    if os.environ.get(_TRITON_CACHE, "").startswith(previous):  # PyTorch sets it at the first kernel
        del os.environ[_TRITON_CACHE]
    os.environ[_CACHE] = tempfile.mkdtemp(prefix="nmt-compile-")
    atexit.register(shutil.rmtree, os.environ[_CACHE], ignore_errors=True)
    torch.compiler.reset()
    clear_caches()
    return previous
