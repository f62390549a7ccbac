"""A training step on a pretended GPU: its kernels, what it waits for, and how long it takes by a roofline.
`scripts/gpu_check.py --roofline base` prints the tables of docs/performance.md.
"""

from gpu import fake_cuda, fake_compiler  # isort: skip  (before torch)

import functools
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gpu.sizes import BATCH_TOKENS, LENGTH, MODELS, SENTENCES, VOCABULARY
from nmt.config.schema import TrainingConfig, TransformerConfig
from nmt.data.batching import Step
from nmt.data.packing import pack
from nmt.data.padding import collate_pairs
from nmt.data.vocabulary import EOS, PAD
from nmt.distributed.ranks import Ranks
from nmt.models import build
from nmt.training import loss, objective
from nmt.training.train_step import TrainStep

# Each design is the one before it with one change: packed, compile, copies of weights, the loss in Triton.
DESIGNS = {
    "padded, eager, autocast, plain loss": (False, False, False, False),
    "+ packed": (True, False, False, False),
    "+ bfloat16 copies": (True, False, True, False),
    "+ loss in Triton": (True, False, True, True),
    "+ compiled layers": (True, True, True, True),
}
NOW = "+ compiled layers"


@torch.library.custom_op("fake::attention", mutates_args=())
def _attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    raise NotImplementedError


@torch.library.custom_op("fake::attention_backward", mutates_args=())
def _attention_backward(
    gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, output: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    raise NotImplementedError


@_attention.register_fake
def _(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return torch.empty_like(query)


@_attention_backward.register_fake
def _(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value)


def _save(ctx: Any, inputs: Any, output: Tensor) -> None:
    *tensors, mask = inputs
    ctx.save_for_backward(*tensors, output, mask)


def _gradients(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    return *_attention_backward(gradient, *ctx.saved_tensors), None


_attention.register_autograd(_gradients, setup_context=_save)


def _fused_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, **_: Any) -> Tensor:
    """One kernel, as on a GPU: without a backend PyTorch would take it apart."""
    if torch.is_autocast_enabled("cuda"):
        query, key, value = (x.to(torch.get_autocast_dtype("cuda")) for x in (query, key, value))
    return _attention(query, key, value, attn_mask)


def counted_step(
    config: TransformerConfig,
    precision: str = "bfloat16",
    *,
    packed: bool,
    compiled: bool,
    copies: bool,
    triton: bool,
    clip_norm: float | None = None,
) -> fake_cuda.Count:
    """The second step of a training with this design, which computes the norm of the gradient if it is clipped."""
    F.scaled_dot_product_attention = _fused_attention
    objective.Objective.to = lambda self, _: self  # type: ignore[assignment, method-assign]  # it is there already
    rows = [np.full(LENGTH, EOS)] * SENTENCES
    batch = pack(rows, rows, BATCH_TOKENS, 128) if packed else collate_pairs(rows, rows)
    tokens = SENTENCES * LENGTH
    step = Step([batch], SENTENCES, tokens, tokens, 2 * BATCH_TOKENS)
    training = TrainingConfig(precision=precision, packed=packed, compile=compiled, clip_norm=clip_norm)  # type: ignore[arg-type]
    with fake_cuda.mode() as fake:
        model = build.build_on_meta(config, VOCABULARY, VOCABULARY, PAD)
        fake_cuda.to_fake(model, fake)
        with fake_cuda.Count(fake, training=True) as count:
            loss._in_triton = lambda *_: functools.partial(_difference, count) if triton else None  # type: ignore
            loss._ADDS_IN_FLOAT32 = triton
            fake_compiler.count_compiled(count)
            train_step = TrainStep(model, training, 1, fake_cuda.DEVICE, Ranks())
            assert train_step.objective.packed == packed, "packed batches do not work on the pretended GPU"
            train_step.objective.copies_weights &= copies
            train_step.prepare(batch)
            assert not compiled or model.layers()[0]._compiled_call_impl, "compiling does not work there"
            for number in (1, 2):
                count.clear()
                train_step.run(step, number, 1e-3)
    return count


def _difference(
    count: fake_cuda.Count, logits: Tensor, target: Tensor, confidence: float, uniform: float, needed: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """As nmt.training.triton_loss: its second reading of a row comes from the cache."""
    nll, of_target = (logits.new_empty(len(target), dtype=torch.float32) for _ in range(2))
    count.add("loss kernel", [logits, logits])
    return nll, of_target, logits


def table(count: fake_cuda.Count, most: int = 14) -> str:
    """The kinds of kernels that take longest."""
    rows = sorted(count.kernels, key=lambda name: -count.seconds[name])
    lines = [
        f"{name:36s}{count.kernels[name]:6d} {count.bytes[name] / 1e9:8.2f} GB {count.flops[name] / 1e12:6.2f} TFLOP"
        f" {1e3 * count.seconds[name]:8.3f} ms"
        for name in rows[:most]
    ]
    return "\n".join(lines)


def main(size: str, designs: list[str]) -> None:
    for name in designs:
        packed, compiled, copies, triton = DESIGNS[name]
        count = counted_step(MODELS[size], packed=packed, compiled=compiled, copies=copies, triton=triton)
        seconds = sum(count.seconds.values())
        print(
            f"{size}: {name}: {sum(count.kernels.values())} kernels, {sum(count.bytes.values()) / 1e9:.1f} GB, "
            f"{sum(count.flops.values()) / 1e12:.2f} TFLOP, {1e3 * seconds:.2f} ms, "
            f"{SENTENCES * LENGTH / seconds:,.0f} tokens/s, waits {dict(count.waits)}"
        )
        print(table(count))


if __name__ == "__main__":
    import sys

    main(sys.argv[1], sys.argv[2:] or list(DESIGNS))
