"""Whether the weights that training computes on a CPU depend on the number of threads."""

import os
from typing import assert_never

import torch

from nmt.config.schema import Config, TransformerConfig

_COLUMNS = 16  # of every product, for each thread: with 11 or fewer MKL was seen to divide the sums instead


def same_with_fewer_threads(config: Config, threads: int) -> bool:
    """Whether each step gives the same weights, bit for bit, with this number of threads of a CPU and with fewer.

    The products of float32 matrices do if MKL repeats them (`machine.make_products_repeatable`), but for batches of two
    or three tokens; so do sums over rows (`models.norm`). PyTorch computes exponentials with vector instructions, but
    the last numbers of each thread's part without them, which can round otherwise: so not with activations other than
    ReLU, nor in recurrent models. The same is true of attention with dropout, or with values of another width than the
    keys; compiled code divides sums among threads.
    """
    model, training = config.model, config.training
    if not (torch.backends.mkl.is_available() and os.environ.get("MKL_CBWR", "").endswith(",STRICT")):  # type: ignore[no-untyped-call]
        return False
    if training.precision != "float32" or training.compile or not isinstance(model, TransformerConfig):
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
