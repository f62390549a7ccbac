"""Search steps as CUDA graphs.

A step of beam search starts more than a hundred small operations. A GPU computes them in less time than the program
needs to start them one by one. A CUDA graph starts all of them at once, but only with the same shapes at the same
addresses. So the state of a search is kept at fixed addresses, and there is one graph for each of a few sizes.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import groupby
from typing import Any, TypeVar

import torch
from torch import Tensor

from nmt.device import continuing_if_recording_fails

T = TypeVar("T")
Step = Callable[[T], tuple[T, tuple[Tensor, ...]]]  # a state → the next state, and results
_Graph = tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]  # a recorded step, and its results after a replay

_MOST_GRAPHS = 500  # each needs some memory of the GPU; if there are more, all are recorded again
_ALIGNMENT = 256  # bytes
_SMALL = 256  # sentences


def size_for(sentences: int) -> int:
    """The next number of sentences for which graphs are recorded: a power of 2 up to 256, as a small batch takes as
    long as a smaller one; and then one of four numbers from a power of 2 to the next."""
    if sentences <= _SMALL:
        return sentences and 1 << (sentences - 1).bit_length()
    multiple = 1 << (sentences.bit_length() - 3)
    return -(-sentences // multiple) * multiple


class StepGraphs:
    """Runs the steps of searches of one model, from CUDA graphs where the device has them.

    A graph is recorded when its shapes occur for the second time: the first step compiles the kernels, and a graph that
    is used once would take longer than the step. All graphs use the same memory: only one search may run at a time.
    """

    def __init__(self, device: torch.device):
        self._device, self._records = device, device.type == "cuda"
        self._memory = torch.empty(0, dtype=torch.uint8)  # on the device after the first step
        self._state: list[Tensor] = []  # of the newest step, in `_memory`
        self._graphs: dict[Any, _Graph | None] = {}  # by shapes; None: seen once, not recorded yet
        self._first: _Graph | None = None  # kept, because PyTorch cannot use a pool again after its last graph
        self._recording: tuple[Any, torch.cuda.Stream] | None = None  # the graphs' pool of memory, and their stream

    def run(self, step: Step[T], state: T) -> tuple[T, tuple[Tensor, ...]]:
        """`step(state)`. The returned state and results are valid until the next call.

        step: reads no tensors but those in `state` and the model's weights, and returns a state of the same shapes. It
        may write into the tensors. Steps of states of the same shapes must be the same function.
        """
        tensors = list(tensors_in(state))
        if len(tensors) != len(self._state) or any(x is not own for x, own in zip(tensors, self._state, strict=True)):
            self._move(tensors)
            state = with_tensors(state, iter(self._state))
        shapes = tuple((x.shape, x.dtype) for x in tensors)
        recorded = self._graphs.get(shapes)
        if recorded is None and self._records and shapes in self._graphs:
            recorded = self._graphs[shapes] = self._record(step, state)
        if recorded is not None:
            graph, results = recorded
            graph.replay()
            return state, results
        if self._records:
            if len(self._graphs) >= _MOST_GRAPHS:
                self._graphs.clear()
            self._graphs[shapes] = None
        return state, self._in_place(step, state)

    def _move(self, tensors: list[Tensor]) -> None:
        """Copy a state to its addresses."""
        starts, end = list[int](), 0
        for x in tensors:
            starts.append(end)
            end += -(-x.nbytes // _ALIGNMENT) * _ALIGNMENT
        if end > len(self._memory):
            self._graphs.clear()  # they use the old addresses
            self._memory = torch.empty(end + end // 2, dtype=torch.uint8, device=self._device)
        own = self._memory.untyped_storage().data_ptr()
        new, moved = list[Tensor](), list[Tensor]()
        for x, start in zip(tensors, starts, strict=True):
            new.append(self._memory[start : start + x.nbytes].view(x.dtype).view(x.shape))
            # A tensor in the same memory could be overwritten before it is copied, unless it stays where it is.
            moves = x.untyped_storage().data_ptr() == own and x.data_ptr() != new[-1].data_ptr()
            moved.append(x.clone() if moves else x)
        for x, place in zip(moved, new, strict=True):
            if x.data_ptr() != place.data_ptr():
                place.copy_(x)
        self._state = new

    def _in_place(self, step: Step[T], state: T) -> tuple[Tensor, ...]:
        """Run a step, and replace the tensors of the state by those of the new state. Returns the results."""
        new, results = step(state)
        pairs = [(old, x) for old, x in zip(self._state, tensors_in(new), strict=True) if old is not x]
        pairs.sort(key=lambda pair: str(pair[0].dtype))
        for _, same_type in groupby(pairs, key=lambda pair: pair[0].dtype):
            old, copied = zip(*same_type, strict=True)
            torch._foreach_copy_(old, copied)
        return results

    def _record(self, step: Step[T], state: T) -> "_Graph | None":
        """Record a step, without running it. Returns None if this does not work; a warning says why once."""
        if self._recording is None:
            # One stream for all recordings, because PyTorch reserves memory for matrix products on each stream.
            self._recording = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self._device)  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()  # PyTorch cannot free what it has cached while it records
        (pool, stream), now = self._recording, torch.cuda.current_stream(self._device)
        graph = torch.cuda.CUDAGraph()
        stream.wait_stream(now)
        message = "search: a CUDA graph does not work here, continuing without it"
        with continuing_if_recording_fails(message, self._device):
            with torch.cuda.stream(stream):
                # Not torch.cuda.graph, which empties the cache each time. "thread_local": another thread may use the
                # GPU at the same time. Not in inference mode, because PyTorch may make a tensor that training uses too.
                with torch.inference_mode(False):
                    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
                try:
                    results = self._in_place(step, state)
                finally:
                    graph.capture_end()
            now.wait_stream(stream)
            self._first = self._first or (graph, results)
            return graph, results
        self._records = False
        self._graphs.clear()
        return None


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples and dataclasses, in order."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for part in tree:
            yield from tensors_in(part)
    elif is_dataclass(tree):
        for field in fields(tree):
            yield from tensors_in(getattr(tree, field.name))


def with_tensors(tree: T, tensors: Iterator[Tensor]) -> T:
    """A copy of nested tuples and dataclasses with these tensors."""
    copied: Any = tree
    if isinstance(tree, Tensor):
        copied = next(tensors)
    elif isinstance(tree, tuple):
        copied = tuple(with_tensors(part, tensors) for part in tree)
    elif is_dataclass(tree):
        parts = {field.name: with_tensors(getattr(tree, field.name), tensors) for field in fields(tree)}
        copied = replace(tree, **parts)  # type: ignore[type-var]
    return copied
