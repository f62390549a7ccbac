"""Whether another training.precision would be faster: it depends on the processor's instructions for bfloat16."""

import time

import torch

from nmt.config.schema import ModelConfig
from nmt.models.linear import product

_ROWS, _SIDE = 512, 256  # of a product: below a millisecond, but not slower for each number than larger ones
_SECONDS = 0.15
_LEAST_WIDTH = 128  # smaller models spend most of their time on other things than products: not measured
# Products are at least half of a float32 step, so a step gains less than they do; and there are more copies.
_WORTHWHILE = 1.5


def faster_precision(precision: str, model: ModelConfig, where: torch.device) -> str | None:
    """float32 or bfloat16 if training would clearly be faster with it than with `precision`, otherwise None.

    Only on CPUs, for models of which this is known, and if `precision` is one of these two.
    """
    if where.type != "cpu" or model.width < _LEAST_WIDTH or precision not in ("float32", "bfloat16"):
        return None
    speed = speed_of_bfloat16()
    if precision == "float32":
        return "bfloat16" if speed >= _WORTHWHILE else None
    return "float32" if speed < 1 else None


def speed_of_bfloat16() -> float:
    """How many times as fast as float32 matrices this CPU multiplies bfloat16 matrices.

    Measured, in about 0.2 seconds: instructions for bfloat16 differ in speed, and without them other ones are used. The
    products are those of a layer: its output, and the gradients of its input and weight. They take turns, and the
    fastest of each counts, so that other processes matter little.
    """
    layers = {
        dtype: (torch.ones(_ROWS, _SIDE, dtype=dtype), torch.ones(_SIDE, _SIDE, dtype=dtype))
        for dtype in (torch.float32, torch.bfloat16)
    }
    fastest = {dtype: [float("inf")] * 3 for dtype in layers}
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        for dtype, (x, w) in layers.items():
            for i, (a, b) in enumerate(((x, w.t()), (x, w), (x.t(), x))):
                start = time.perf_counter()
                product(a, b)
                fastest[dtype][i] = min(fastest[dtype][i], time.perf_counter() - start)
    return sum(fastest[torch.float32]) / sum(fastest[torch.bfloat16])
