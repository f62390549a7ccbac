"""Tells whether the weights that training computes on a CPU depend on the number of threads."""

import os
from typing import assert_never

import torch

from nmt.config.schema import Config, TransformerConfig

_COLUMNS = 16  # of every product, for each thread; with 11 or fewer, MKL was observed to divide the sums instead


def same_with_fewer_threads(config: Config, threads: int) -> bool:
    """Whether each step gives the same weights, bit for bit, with this number of CPU threads and with fewer.

    Products of float32 matrices are the same if MKL repeats them (`machine.make_products_repeatable`), except for
    batches of two or three tokens. Sums over rows are the same (`models.norm`). Exponentials are not: PyTorch computes
    them with vector instructions, but the last numbers of each thread's part without them, which can round differently.
    This excludes activations other than ReLU, recurrent models, and attention with dropout or with values of another
    width than the keys. Compiled code is excluded because it divides sums among threads.
    """
    model, training = config.model, config.training
    if not (torch.backends.mkl.is_available() and os.environ.get("MKL_CBWR", "").endswith(",STRICT")):  # type: ignore[no-untyped-call]
        return False
    if training.precision not in ("auto", "float32") or training.compile or not isinstance(model, TransformerConfig):
        return False
    key, value = model.head_widths
    narrowest = min(model.d_model, model.feed_forward, model.heads * value)
    if model.attention_dropout > 0 or key != value or narrowest < _COLUMNS * threads:
        return False
    match model.activation:
        case "relu":
            return True
        case "gelu" | "quick_gelu" | "swish":
            return False
        case _:
            assert_never(model.activation)
