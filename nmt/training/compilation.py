"""torch.compile for the layers of a model."""

import atexit
import logging
import os
import shutil
import sys
import tempfile
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
_MOST_WORKERS = 32  # PyTorch's own limit, for one rank


def compile_layers(objective: Objective, example: Batch | PackedBatch, *, sharded: bool, ranks_here: int = 1) -> bool:
    """Compile the model's layers with torch.compile. If that does not work here, they stay as they are; logs why, and
    returns False.

    Layers are compiled one by one: layers of one class share a graph, which is for all shapes, or for the only shape of
    packed batches. A forward and a backward pass over the example are run at once, so that a compiler that fails does
    so before the first step; not with `sharded` layers, which one rank cannot run alone. A compilation that was killed
    leaves damaged files in PyTorch's cache: after a failure it is tried once more with an empty one. Raises what a
    fault of the device raises, after which nothing works there. ranks_here: the ranks on this machine, which share its
    cores.
    """
    _limit_workers(ranks_here)
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
                why = first_line(error)
                log.warning("training.compile: torch.compile does not work here, going on without it (%s)", why)
            else:
                damaged = f"{_use_new_cache()}: {first_line(error)}"
        else:
            if damaged:
                log.warning("training.compile: damaged files in the cache of torch.compile: delete %s", damaged)
            # If the compiler fails for a later graph, that graph runs uncompiled, and `log_report` says so.
            torch._dynamo.config.suppress_errors = True
            return True
    return False


def missing_compiler(device: torch.device) -> str:
    """Why torch.compile cannot work for this device, as far as that is known before it is tried; empty: nothing is
    missing."""
    if device.type == "cuda":
        return "" if has_triton() else "Triton does not work with this GPU"
    if device.type == "cpu":
        from torch._inductor.cpp_builder import get_cpp_compiler  # takes a second

        try:
            get_cpp_compiler()
        except Exception as error:  # InvalidCxxCompiler, and what else starting a compiler may raise
            return f"no C++ compiler: {first_line(error)}: install one, such as g++"
    return ""


def graphs() -> "list[CompilationMetrics]":
    """What torch.compile has made since `compile_layers`: of each graph, why it was made again, or why it failed."""
    return [graph for graph in torch._dynamo.utils.get_compilation_metrics() if graph.co_name is not None]


def log_report() -> None:
    """Log how many graphs torch.compile has made since `compile_layers`, and how many of them again, which it should
    not need after the first step; nothing where it has made none."""
    if "torch._dynamo" not in sys.modules:  # loading it takes seconds
        return
    made = graphs()
    again = sum(graph.recompile_reason is not None for graph in made)
    if made:
        log.info("training.compile: %d graphs, one of them a test; %d were compiled again", len(made), again)
    for reason in dict.fromkeys(graph.fail_reason or graph.fail_type for graph in made if graph.fail_type):
        log.warning("training.compile: a graph ran uncompiled (%s)", " ".join(reason.split())[:300])


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
    """Divide the cores among the processes that compile: each rank would start one for every core."""
    if _WORKERS not in os.environ:
        import torch._inductor.config as inductor  # takes a second

        inductor.compile_threads = max(1, min(_MOST_WORKERS, usable_cores() // ranks_here))


def _use_new_cache() -> str:
    """From now on compile as if nothing had been compiled before. Returns the folder of the cache before."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir
    from torch._inductor.utils import clear_caches

    before = cache_dir()
    if os.environ.get(_TRITON_CACHE, "").startswith(before):  # PyTorch sets it at the first kernel
        del os.environ[_TRITON_CACHE]
    os.environ[_CACHE] = tempfile.mkdtemp(prefix="nmt-compile-")
    atexit.register(shutil.rmtree, os.environ[_CACHE], ignore_errors=True)
    torch.compiler.reset()
    clear_caches()
    return before
