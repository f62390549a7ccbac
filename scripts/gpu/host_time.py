"""Samples in which functions of nmt the host spends its time. A program that starts small kernels is often slower than
the GPU; PyTorch's profiler shows its operators, but not the functions that call them."""

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import nmt

_PACKAGE = str(Path(nmt.__file__).parent)
_INTERVAL = 0.001  # seconds between two samples


@dataclass(frozen=True)
class Sampled:
    """samples: how many there are; innermost, within: the number of samples in which a function is the innermost one of
    nmt, and in which it is running at all; collecting: the share of the time for garbage collection."""

    samples: int
    innermost: Counter[str]
    within: Counter[str]
    collecting: float
    full_collections: int

    def own(self, most: int) -> list[tuple[str, float]]:
        """The functions with the most time of their own, libraries included, and their shares."""
        return [(where, number / self.samples) for where, number in self.innermost.most_common(most)]

    def table(self) -> str:
        """All functions: their share with and without that of other functions of nmt that they call."""
        rows = [
            f"{number / self.samples:7.1%} {self.innermost[where] / self.samples:7.1%}  {where}\n"
            for where, number in self.within.most_common()
        ]
        return f"{self.samples} samples\n  whole     own  function\n" + "".join(rows)


def sample(function: Callable[[], object]) -> Sampled:
    """Call the function in this thread, while another thread reads its stack."""
    caller, ended = threading.get_ident(), threading.Event()
    samples, innermost, within = 0, Counter[str](), Counter[str]()

    def read() -> None:
        nonlocal samples
        while not ended.wait(_INTERVAL):
            samples += 1
            if names := _functions(sys._current_frames().get(caller)):
                innermost[names[0]] += 1
                within.update(set(names))

    collections, began, in_collections = 0, 0.0, 0.0

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        nonlocal collections, began, in_collections
        if phase == "start":
            began = time.perf_counter()
        else:
            in_collections += time.perf_counter() - began
            collections += info["generation"] == 2

    reader, interval = threading.Thread(target=read), sys.getswitchinterval()
    gc.callbacks.append(on_collection)
    sys.setswitchinterval(_INTERVAL / 4)  # otherwise the reader would wait for the caller for 5 ms each time
    start = time.perf_counter()
    reader.start()
    try:
        function()
    finally:
        seconds = time.perf_counter() - start
        ended.set()
        reader.join()
        sys.setswitchinterval(interval)
        gc.callbacks.remove(on_collection)
    return Sampled(max(1, samples), innermost, within, in_collections / seconds, collections)


def _functions(frame: FrameType | None) -> list[str]:
    """The functions of nmt in a stack, the innermost first, such as `decoding/search/beam.py: beam_search`."""
    names = []
    while frame is not None:
        code = frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            names.append(f"{code.co_filename.removeprefix(_PACKAGE)[1:]}: {code.co_qualname}")
        frame = frame.f_back
    return names
